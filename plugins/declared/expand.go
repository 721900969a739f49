package declared

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// variable matches the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} by the values of environment variables, and $${ by ${.
func (r *reader) expand(s string) (string, error) {
	var b strings.Builder
	for {
		at := strings.Index(s, "${")
		if at < 0 {
			return b.String() + s, nil
		}
		if at > 0 && s[at-1] == '$' {
			b.WriteString(s[:at-1] + "${")
			s = s[at+2:]
			continue
		}
		name, rest, closed := strings.Cut(s[at+2:], "}")
		if !closed || !variable.MatchString(name) {
			return "", errors.New("want the name of an environment variable in ${…}; write $${ for ${ itself")
		}
		value, _ := r.getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		r.secrets[value] = "${" + name + "}"
		b.WriteString(s[:at] + value)
		s = rest
	}
}
