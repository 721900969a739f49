package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/config/document"
)

// fromEnv reads the variables that begin with BATON_, without empty ones. It also returns the value of BATON_CONFIG.
func fromEnv(environ []string) (l layer, file string, err error) {
	keys := map[string]string{"BATON_CONFIG": ""}
	for _, s := range settings() {
		keys[s.env] = s.key
	}
	l = layer{}
	for _, variable := range environ {
		name, val, _ := strings.Cut(variable, "=")
		val = strings.TrimSpace(val) // files and shells add line feeds
		if !strings.HasPrefix(name, "BATON_") || foreign(name, val) {
			continue
		}
		key, ok := keys[name]
		switch {
		case !ok:
			return nil, "", fmt.Errorf("environment variable %s is not a setting%s", name, document.Hint(name, slices.Sorted(maps.Keys(keys))))
		case val == "":
		case key == "":
			file = val
		default:
			l[key] = entry{where: name, text: []string{val}}
		}
	}
	return l, file, nil
}

// kubernetes matches the variables that Kubernetes sets for each service, here for services whose names begin with
// baton. A name that ends in _PORT could be a typing error, so kubernetesPort checks its value.
var (
	kubernetes     = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$`)
	kubernetesPort = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// Variables for commands that are clients of a server: its URL and a credential. They are no settings.
const (
	URLVariable   = "BATON_URL"
	TokenVariable = "BATON_TOKEN"
)

// foreign reports whether a variable begins with BATON_ but is no setting: variables of clients, of programs that Baton
// starts, of its tests and of Kubernetes.
func foreign(name, val string) bool {
	return name == URLVariable || name == TokenVariable || name == "BATON_PROGRAM" || name == "BATON_SOAK" || strings.HasPrefix(name, "BATON_TEST_") ||
		kubernetes.MatchString(name) || strings.HasSuffix(name, "_PORT") && kubernetesPort.MatchString(val)
}

// fromFile reads the named file, or without a name the default file if it exists, and returns its name.
func fromFile(name string) (l layer, file string, err error) {
	file = cmp.Or(name, File)
	root, err := document.Read(file)
	switch {
	case name == "" && errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(file); err == nil {
			return nil, "", fmt.Errorf("%s leads to a file that does not exist", file)
		}
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case root == nil:
		return nil, file, nil
	}
	l = layer{}
	return l, file, errors.Join(l.add(file, "", root)...)
}

// declarations lists the sections of a file that package declared reads: they hold no settings.
func declarations() []string {
	return []string{"agents", "budgets", "mcp", "prices", "providers", "tools", "workflows"}
}

// add reads the settings in n, a mapping whose keys follow prefix, and returns all errors. It ignores null, so a
// section may contain only comments.
func (l layer) add(file, prefix string, n *yaml.Node) (wrong []error) {
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d:%d: want lines of name: value", file, n.Line, n.Column)}
	}
	var names []string
	secrets := map[string]string{}
	for _, s := range settings() {
		if names = append(names, s.key); s.secret {
			secrets[s.key] = s.env
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, val := prefix+n.Content[i].Value, n.Content[i+1]
		where := fmt.Sprintf("%s:%d:%d: %s", file, n.Content[i].Line, n.Content[i].Column, key)
		if val.Kind == yaml.AliasNode {
			val = val.Alias
		}
		if slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, key+".") }) {
			wrong = append(wrong, l.add(file, key+".", val)...)
			continue
		}
		if slices.Contains(declarations(), key) {
			continue
		}
		if !slices.Contains(names, key) {
			wrong = append(wrong, fmt.Errorf("%s is not a setting%s", where, unknown(prefix, key, slices.Concat(names, declarations()))))
			continue
		}
		if env := secrets[key]; env != "" {
			wrong = append(wrong, fmt.Errorf("%s: a settings file must not contain a secret; set %s, or set %s_file to a file that contains it", where, env, key))
			continue
		}
		if _, twice := l[key]; twice {
			wrong = append(wrong, fmt.Errorf("%s is set twice", where))
			continue
		}
		if val.Tag == "!!null" {
			continue
		}
		read := scalars
		if key == retentionOfProjects && val.Kind == yaml.MappingNode {
			read = sections
		}
		written, err := read(val)
		text := slices.Clone(written)
		for i := range text {
			if err == nil {
				text[i], err = document.Expand(text[i], os.LookupEnv)
			}
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", where, err))
			continue
		}
		l[key] = entry{where, true, text, written}
	}
	return wrong
}

// scalars returns the text of a value or of a list of values.
func scalars(n *yaml.Node) ([]string, error) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	text := make([]string, len(items))
	for i, item := range items {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode {
			return nil, errors.New("want a value, got a structure")
		}
		text[i] = item.Value
	}
	return text, nil
}

// unknown suggests the most similar name, or says where all names are listed.
func unknown(prefix, key string, names []string) string {
	if h := document.Hint(key, names); h != "" || prefix != "" {
		return h
	}
	return "; a file may contain " + strings.Join(declarations(), ", ") + " and the settings that baton config prints"
}
