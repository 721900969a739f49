package document

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// variable matches the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Expand replaces ${NAME} in a value of a file by the values of environment variables, and $${ by ${. It is called after
// parsing, so that a variable cannot change the structure of the file. Its error has no values.
func Expand(text string, getenv func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			return b.String() + text, nil
		}
		if at > 0 && text[at-1] == '$' {
			b.WriteString(text[:at-1] + "${")
			text = text[at+2:]
			continue
		}
		name, rest, closed := strings.Cut(text[at+2:], "}")
		if !closed || !variable.MatchString(name) {
			return "", errors.New("want the name of an environment variable in ${…}; write $${ for ${ itself")
		}
		value, _ := getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		b.WriteString(text[:at] + value)
		text = rest
	}
}

// HasVariable reports whether Expand would change a text or refuse it.
func HasVariable(text string) bool { return strings.Contains(text, "${") }

// ErrVariableKey is the error for a variable in a key.
var ErrVariableKey = errors.New("a key cannot contain ${…}; variables are for values")
