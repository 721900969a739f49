package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/config/document"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/graph"
)

const (
	maxNodes = 20_000 // values, counted at each use of an alias
	maxPath  = 1000   // bytes; only a recursive alias exceeds it
)

// reader fills structs from a file and records the positions of values.
type reader struct {
	file      string
	getenv    func(string) (string, bool)
	at        map[string]*yaml.Node // by path: texts by their value, others by their key
	variables []string              // the variables whose values are in the declarations, as written
	asWritten bool                  // variables stand for themselves
	left      int                   // remaining nodes
	errs      Errors
}

// open returns the root of the file, nil if it is empty.
func (r *reader) open() *yaml.Node {
	root, err := document.Read(r.file)
	if unread, ok := errors.AsType[*document.Error](err); ok {
		r.errs = append(r.errs, &Error{File: r.file, Line: unread.Line, Column: min(unread.Line, 1), Message: unread.Message})
	} else if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		r.errs = append(r.errs, &Error{File: r.file, Message: pathErr.Err.Error()})
	} else if err != nil {
		r.errs = append(r.errs, &Error{File: r.file, Message: err.Error()})
	}
	if root != nil {
		r.at[""] = root
	}
	return root
}

// errorf adds an error about the value at path, or about its innermost enclosing value in the file.
func (r *reader) errorf(path, format string, args ...any) {
	e := &Error{File: r.file, Path: path, Message: fmt.Sprintf(format, args...)}
	for p := path; e.Line == 0; p = parent(p) {
		if n := r.at[p]; n != nil {
			e.Line, e.Column = n.Line, n.Column
		}
		if p == "" {
			break
		}
	}
	r.errs = append(r.errs, e)
}

// expand replaces the variables in a value.
func (r *reader) expand(path, text string) string {
	if r.asWritten {
		return text
	}
	expanded, err := document.Expand(text, func(name string) (string, bool) {
		r.variables = append(r.variables, "${"+name+"}")
		return r.getenv(name)
	})
	if err != nil {
		r.errorf(path, "%s", err)
		r.errs[len(r.errs)-1].plain = true
	}
	return expanded
}

// value returns a scalar without variables, of the type of its text.
func (r *reader) value(path string, n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.ScalarNode || !document.HasVariable(n.Value) {
		return n
	}
	v := &yaml.Node{Kind: yaml.ScalarNode, Value: r.expand(path, n.Value), Line: n.Line, Column: n.Column}
	v.Tag = v.ShortTag()
	return v
}

// written returns the errors of r with the messages that they have while variables stand for themselves: a message that is made of
// values could show parts of them. An error that needs the values names the variables.
func (r *reader) written(other Errors) Errors {
	if len(r.variables) == 0 {
		return r.errs
	}
	slices.Sort(r.variables)
	names := strings.Join(slices.Compact(r.variables), ", ")
	for _, e := range r.errs {
		if e.plain {
			continue
		}
		i := slices.IndexFunc(other, func(o *Error) bool { return o.Path == e.Path && o.Line == e.Line && o.Column == e.Column })
		if i < 0 {
			e.Message = "is not valid with the values of the file's variables, " + names
			continue
		}
		e.Message = other[i].Message
		other = slices.Delete(other, i, i+1)
	}
	return r.errs
}

// wrong reports whether a value at one of the paths has an error, to suppress errors that follow from it.
func (r *reader) wrong(paths ...string) bool {
	return slices.ContainsFunc(r.errs, func(e *Error) bool { return slices.Contains(paths, e.Path) })
}

func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// read decodes n into v. null counts as absent.
func (r *reader) read(path string, n *yaml.Node, v reflect.Value) {
	if n = r.visit(path, n); n == nil || n.Tag == "!!null" {
		return
	}
	if custom, ok := reflect.TypeAssert[**Input](v.Addr()); ok {
		*custom = r.input(path, n)
		return
	}
	if custom, ok := reflect.TypeAssert[**Output](v.Addr()); ok {
		*custom = r.output(path, n)
		return
	}
	if custom, ok := reflect.TypeAssert[**Approval](v.Addr()); ok {
		*custom = r.approval(path, n)
		return
	}
	if custom, ok := reflect.TypeAssert[**Retry](v.Addr()); ok {
		*custom = r.retry(path, n)
		return
	}
	if v.Kind() == reflect.Int64 || v.Kind() == reflect.Int || v.Kind() == reflect.Float64 || v.Kind() == reflect.Bool {
		if n = r.value(path, n); r.wrong(path) {
			return
		}
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		v.SetInt(int64(r.duration(path, n)))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		raw, err := r.schema(path, n)
		if err == nil {
			_, err = graph.CompileSchema(raw)
		}
		if err != nil {
			r.errorf(path, "no JSON Schema that Baton can use: %s", err)
		}
		v.SetBytes(raw)
		return
	}
	if v.Type() == reflect.TypeFor[Expression]() { // its variables are resolved after it is parsed
		v.SetString(r.text(path, n))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.read(path, n, v.Elem())
	case reflect.Struct:
		r.members(path, n, v)
	case reflect.Map:
		r.entries(path, n, v)
	case reflect.Slice:
		r.list(path, n, v)
	case reflect.String:
		v.SetString(r.expand(path, r.text(path, n)))
	case reflect.Int:
		v.SetInt(int64(r.count(path, n)))
	case reflect.Float64:
		v.SetFloat(r.amount(path, n))
	case reflect.Bool:
		v.SetBool(r.truth(path, n))
	default:
		panic("declared: no way to read a " + v.Type().String())
	}
}

// approval decodes the need of an approval: a word, or a mapping.
func (r *reader) approval(path string, n *yaml.Node) *Approval {
	a := new(Approval)
	if n.Kind != yaml.ScalarNode {
		r.members(path, n, reflect.ValueOf(&a.Approver).Elem())
	} else if word := n.Value; word != "required" {
		r.errorf(path, "want required, or a mapping such as {by: operator}, got %q", word)
	}
	return a
}

// retry decodes the policy for retries: a number, or a mapping.
func (r *reader) retry(path string, n *yaml.Node) *Retry {
	policy := new(Retry)
	if n.Kind != yaml.ScalarNode {
		r.members(path, n, reflect.ValueOf(policy).Elem())
		if r.at[path+".max"] == nil && !r.wrong(path) {
			r.errorf(path, "max is missing")
		}
	} else if n = r.value(path, n); !r.wrong(path) {
		policy.Max = r.count(path, n)
	}
	return policy
}

// visit follows an alias and counts the node. It returns nil if the file has too many.
func (r *reader) visit(path string, n *yaml.Node) *yaml.Node {
	if r.left--; r.left < 0 {
		if r.left == -1 {
			r.errorf(path, "the file holds more than %d values", maxNodes)
		}
		return nil
	}
	if len(path) > maxPath {
		r.errorf(path[:60]+"…", "is nested too deep")
		r.left = -1
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pairs calls f for each member of a mapping.
func (r *reader) pairs(path string, n *yaml.Node, f func(name, path string, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.errorf(path, "want lines of name: value")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if seen[key.Value] {
			r.errs = append(r.errs, &Error{File: r.file, Line: key.Line, Column: key.Column, Path: at, Message: "is duplicated"})
			continue
		}
		seen[key.Value] = true
		if document.HasVariable(key.Value) {
			r.errs = append(r.errs, &Error{File: r.file, Line: key.Line, Column: key.Column, Path: at, Message: document.ErrVariableKey.Error()})
			return
		}
		if r.at[at] = key; val.Kind == yaml.ScalarNode && val.Tag != "!!null" {
			r.at[at] = val
		}
		f(key.Value, at, val)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// members decodes a mapping into a struct.
func (r *reader) members(path string, n *yaml.Node, v reflect.Value) {
	fields := shapeOf(v.Type())
	r.pairs(path, n, func(name, at string, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f member) bool { return f.name == name })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.name
			}
			r.unknown(at, name, names)
			return
		}
		if fields[i].enum != nil {
			val = r.value(at, val)
		}
		if allowed := fields[i].enum; allowed != nil && val.Kind == yaml.ScalarNode && val.Tag != "!!null" && !slices.Contains(allowed, val.Value) {
			r.errorf(at, "want %s, got %q%s", strings.Join(allowed, " or "), val.Value, document.Hint(val.Value, allowed))
			return
		}
		r.read(at, val, v.FieldByIndex(fields[i].index))
	})
}

// unknown adds an error about an unknown key.
func (r *reader) unknown(path, name string, names []string) {
	switch near := document.Hint(name, names); {
	case name == "<<":
		r.errorf(path, "there is no such key: write out what it would merge")
	case near != "":
		r.errorf(path, "there is no such key%s", near)
	default:
		r.errorf(path, "there is no such key; there are %s", strings.Join(names, ", "))
	}
}

// member is a field of a struct.
type member struct {
	name, doc string
	enum      []string
	typ       reflect.Type
	index     []int
}

func shapeOf(t reflect.Type) (fields []member) {
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		m := member{name: name, doc: f.Tag.Get("doc"), typ: f.Type, index: f.Index}
		if enum := f.Tag.Get("enum"); enum != "" {
			m.enum = strings.Split(enum, ",")
		}
		fields = append(fields, m)
	}
	return fields
}

// entries decodes a mapping into a map. Maps of texts accept numbers and booleans too.
func (r *reader) entries(path string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	elem := v.Type().Elem()
	r.pairs(path, n, func(name, at string, val *yaml.Node) {
		e := reflect.New(elem).Elem()
		if elem.Kind() == reflect.Pointer {
			e.Set(reflect.New(elem.Elem())) // also if the value is null
			r.read(at, val, e.Elem())
		} else if val = r.visit(at, val); val != nil {
			e.SetString(r.expand(at, r.scalar(at, val)))
		}
		v.SetMapIndex(reflect.ValueOf(name), e)
	})
}

func (r *reader) list(path string, n *yaml.Node, v reflect.Value) {
	if v.Type() == reflect.TypeFor[[]*Guard]() && n.Kind == yaml.MappingNode { // one guard
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}, Line: n.Line, Column: n.Column}
	}
	if n.Kind != yaml.SequenceNode {
		r.errorf(path, "want a list%s", asList(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.at[at] = item
		if item.Tag == "!!null" {
			r.errorf(at, "want a text")
			continue
		}
		r.read(at, item, v.Index(i))
	}
}

// asList suggests the list for a text given in its place, such as a command with arguments.
func asList(n *yaml.Node) string {
	words := strings.Fields(n.Value)
	if n.Kind != yaml.ScalarNode || len(words) == 0 || len(n.Value) > 100 || strings.ContainsAny(n.Value, `"'[]{},:#`) {
		return ""
	}
	return ": [" + strings.Join(words, ", ") + "]"
}

// text decodes a value that must be a string in YAML, so that versions and dates are not reinterpreted.
func (r *reader) text(path string, n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!str" {
		r.errorf(path, "want a text; put it in quotes")
		return ""
	}
	return r.scalar(path, n)
}

// scalar decodes any scalar as text.
func (r *reader) scalar(path string, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.errorf(path, "want a text")
		return ""
	}
	return n.Value
}

func (r *reader) duration(path string, n *yaml.Node) time.Duration {
	d, err := plugins.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d <= 0 {
		r.errorf(path, "want a duration such as 1m30s%s", got(n))
		return 0
	}
	return d
}

func (r *reader) count(path string, n *yaml.Node) int {
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || i < 0 {
		r.errorf(path, "want a whole number, not below 0%s", got(n))
		return 0
	}
	return i
}

func (r *reader) amount(path string, n *yaml.Node) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || err != nil || !(f >= 0) || f > maxAmount {
		r.errorf(path, "want a number, not below 0%s", got(n))
		return 0
	}
	return f
}

// maxAmount prevents overflow in sums of amounts.
const maxAmount = 1e12

func (r *reader) truth(path string, n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		r.errorf(path, "want true or false%s", got(n))
		return false
	}
	return n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
}

// got quotes a scalar as it is in the file.
func got(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return fmt.Sprintf(", got %q", n.Value)
}
