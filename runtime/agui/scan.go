package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// errShape is the scanner's error for JSON of another shape.
var errShape = errors.New("not a JSON object")

// fields walks the members of a JSON object.
type fields struct {
	obj []byte
	i   int
	err error // errShape when obj turned out to be no object
}

// membersOf returns a walk over obj, which must be valid JSON: anything but an object ends in an error.
func membersOf(obj []byte) fields {
	i := skipSpace(obj, 0)
	if i == len(obj) || obj[i] != '{' {
		return fields{err: errShape}
	}
	return fields{obj: obj, i: skipSpace(obj, i+1)}
}

// next returns the next member's name, still quoted, and its value, both as parts of the object.
func (f *fields) next() (name, val []byte, ok bool) {
	b, i := f.obj, f.i
	if f.err != nil || i < len(b) && b[i] == '}' {
		return nil, nil, false
	}
	end := skipValue(b, i)
	name = b[i:end]
	i = skipSpace(b, end)
	if len(name) < 2 || name[0] != '"' || i == len(b) || b[i] != ':' {
		f.err = errShape
		return nil, nil, false
	}
	i = skipSpace(b, i+1)
	end = skipValue(b, i)
	if end == i {
		f.err = errShape
		return nil, nil, false
	}
	val = b[i:end]
	i = skipSpace(b, end)
	if i < len(b) && b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	f.i = i
	return name, val, true
}

// eachMember calls fn with the name and value of each member of obj, in order, until it fails. obj must
// be valid JSON; anything but an object is an error. The value is a part of obj.
func eachMember(obj []byte, fn func(name string, val []byte) error) error {
	f := membersOf(obj)
	for name, val, ok := f.next(); ok; name, val, ok = f.next() {
		n, err := unquote(name)
		if err != nil {
			return err
		}
		if err := fn(n, val); err != nil {
			return err
		}
	}
	return f.err
}

// eachElement calls fn with each element of arr. arr must be valid JSON; anything but an array is an error.
func eachElement(arr []byte, fn func(val []byte) error) error {
	i := skipSpace(arr, 0)
	if i >= len(arr) || arr[i] != '[' {
		return errors.New("not a JSON array")
	}
	i = skipSpace(arr, i+1)
	for i < len(arr) && arr[i] != ']' {
		end := skipValue(arr, i)
		if end <= i {
			return errors.New("not a JSON array")
		}
		if err := fn(arr[i:end]); err != nil {
			return err
		}
		i = skipSpace(arr, end)
		if i < len(arr) && arr[i] == ',' {
			i = skipSpace(arr, i+1)
		}
	}
	return nil
}

// EachMember calls fn with the name and value of each member of obj, valid JSON, in order, until it fails. It fails too unless obj is
// an object. The value is a part of obj.
func EachMember(obj []byte, fn func(name string, val []byte) error) error { return eachMember(obj, fn) }

// EachElement calls fn with each element of arr, valid JSON, until it fails. It fails too unless arr is an array.
func EachElement(arr []byte, fn func(val []byte) error) error { return eachElement(arr, fn) }

// lookup returns the value of the last member of obj of that name, nil for none.
func lookup(obj []byte, name string) (found []byte) {
	f := membersOf(obj)
	for quoted, val, ok := f.next(); ok; quoted, val, ok = f.next() {
		if isQuoted(quoted, name) {
			found = val
		}
	}
	return found
}

// isQuoted reports whether quoted, a JSON string, is s.
func isQuoted(quoted []byte, s string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == s
	}
	u, err := unquote(quoted)
	return err == nil && u == s
}

// memberOf returns the member of obj of that name if it is a string, else "".
func memberOf(obj []byte, name string) (s string) {
	if len(obj) > 0 {
		_ = setString(&s, name, lookup(obj, name))
	}
	return s
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the value that begins at b[i].
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = SkipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1
			}
		case ',', ':', ' ', '\n', '\t', '\r':
		default:
			if depth == 0 {
				return skipScalar(b, i)
			}
		}
		i++
	}
	return i
}

// SkipString returns the index after the JSON string that begins at b[i], len(b) for one without an end.
func SkipString(b []byte, i int) int {
	for begin := i + 1; ; {
		n := bytes.IndexByte(b[i+1:], '"')
		if n < 0 {
			return len(b)
		}
		i += 1 + n
		escapes := 0
		for i-escapes > begin && b[i-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

func skipScalar(b []byte, i int) int {
	for i < len(b) && bytes.IndexByte([]byte(",]}: \n\t\r"), b[i]) < 0 {
		i++
	}
	return i
}

// unquote returns the value of raw, a JSON string.
func unquote(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", errors.New("must be a string")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(string(raw[1:len(raw)-1]), "\uFFFD"), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}
