package declared

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	maxFile  = 4 << 20 // bytes
	maxNodes = 20_000  // values, counted wherever an alias repeats them
	maxPath  = 1000    // bytes; only an alias of itself goes deeper
)

// reader fills structs from a file and remembers where everything stands.
type reader struct {
	file    string
	getenv  func(string) (string, bool)
	at      map[string]*yaml.Node // by path: of a value that is a text the value, of others their key
	secrets map[string]string     // what variables held, and how the file names them
	left    int                   // nodes that may still come
	errs    Errors
}

// open parses the file and returns its root, nil when it is empty.
func (r *reader) open() *yaml.Node {
	f, err := os.Open(r.file)
	if err != nil {
		r.whole(err)
		return nil
	}
	defer f.Close()
	dec := yaml.NewDecoder(io.LimitReader(f, maxFile))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.whole(err)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		r.errs = append(r.errs, &Error{File: r.file, Line: more.Line, Column: more.Column, Message: "want one YAML document, got more"})
		return nil
	}
	return doc.Content[0]
}

// whole notes an error of the file as a whole. The parser tells the line in its text.
func (r *reader) whole(err error) {
	e := &Error{File: r.file, Message: err.Error()}
	if at, text, ok := strings.Cut(strings.TrimPrefix(e.Message, "yaml: line "), ": "); ok {
		if line, convErr := strconv.Atoi(at); convErr == nil {
			e.Line, e.Column, e.Message = line, 1, text
		}
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		e.Message = pathErr.Err.Error()
	}
	r.errs = append(r.errs, e)
}

// errorf notes what is wrong with the value at a path, or with the innermost one around it that is there.
func (r *reader) errorf(path, format string, args ...any) {
	e := &Error{File: r.file, Path: path, Message: fmt.Sprintf(format, args...)}
	for p := path; p != ""; p = parent(p) {
		if n := r.at[p]; n != nil {
			e.Line, e.Column = n.Line, n.Column
			break
		}
	}
	for value, name := range r.secrets {
		if len(value) > 3 { // else it is none
			e.Message = strings.ReplaceAll(e.Message, value, name)
		}
	}
	r.errs = append(r.errs, e)
}

func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// read fills v from n. What is null counts as not there.
func (r *reader) read(path string, n *yaml.Node, v reflect.Value) {
	if n = r.visit(path, n); n == nil || n.Tag == "!!null" {
		return
	}
	if custom, ok := reflect.TypeAssert[**Input](v.Addr()); ok {
		*custom = r.input(path, n)
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		v.SetInt(int64(r.duration(path, n)))
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
		v.SetString(r.text(path, n))
	case reflect.Int:
		v.SetInt(int64(r.count(path, n)))
	default:
		panic("declared: no way to read a " + v.Type().String())
	}
}

// visit follows an alias and counts the node. It returns nil when the file holds too much.
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
			r.errs = append(r.errs, &Error{File: r.file, Line: key.Line, Column: key.Column, Path: at, Message: "is there twice"})
			continue
		}
		seen[key.Value] = true
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

// members fills a struct.
func (r *reader) members(path string, n *yaml.Node, v reflect.Value) {
	fields := shapeOf(v.Type())
	r.pairs(path, n, func(name, at string, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f member) bool { return f.name == name })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.name
			}
			r.errorf(at, "there is no such key%s", hint(name, names))
			return
		}
		r.read(at, val, v.FieldByIndex(fields[i].index))
		if allowed := fields[i].enum; allowed != nil && val.Kind == yaml.ScalarNode && val.Tag == "!!str" && !slices.Contains(allowed, val.Value) {
			r.errorf(at, "want %s, got %q%s", strings.Join(allowed, " or "), val.Value, hint(val.Value, allowed))
		}
	})
}

// member is a field of a shape.
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

// entries fills a map. One of texts takes numbers and switches for texts, too.
func (r *reader) entries(path string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	elem := v.Type().Elem()
	r.pairs(path, n, func(name, at string, val *yaml.Node) {
		e := reflect.New(elem).Elem()
		if elem.Kind() == reflect.Pointer {
			e.Set(reflect.New(elem.Elem())) // also of what is null
			r.read(at, val, e.Elem())
		} else if val = r.visit(at, val); val != nil {
			e.SetString(r.scalar(at, val))
		}
		v.SetMapIndex(reflect.ValueOf(name), e)
	})
}

func (r *reader) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		r.errorf(path, "want a list")
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

// text reads a text that is one in YAML, so that no version or date is read as something else.
func (r *reader) text(path string, n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!str" {
		r.errorf(path, "want a text; put it in quotes")
		return ""
	}
	return r.scalar(path, n)
}

// scalar reads anything that is no structure as a text, with the values of variables.
func (r *reader) scalar(path string, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.errorf(path, "want a text")
		return ""
	}
	text, err := r.expand(n.Value)
	if err != nil {
		r.errorf(path, "%s", err)
	}
	return text
}

func (r *reader) duration(path string, n *yaml.Node) time.Duration {
	d, err := time.ParseDuration(n.Value)
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

// got quotes a value that is no structure, as it stands in the file.
func got(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return fmt.Sprintf(", got %q", n.Value)
}
