package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The set functions of this file store one member's value, or return an error that names the required type. A null leaves an
// optional member absent. They retain nothing of val.

func setString[S ~string](dst *S, name string, val []byte) error {
	if isNull(val) {
		*dst = ""
		return nil
	}
	s, err := unquote(val)
	if err != nil {
		return within(name, errors.New("must be a string"))
	}
	*dst = S(s)
	return nil
}

func setBool(dst **bool, name string, val []byte) error {
	*dst = nil
	if isNull(val) {
		return nil
	}
	v, err := strconv.ParseBool(string(val))
	if err != nil || (val[0] != 't' && val[0] != 'f') {
		return within(name, errors.New("must be a boolean"))
	}
	*dst = &v
	return nil
}

// setMillis stores an integer, and the integral part of another number.
func setMillis(dst *int64, name string, val []byte) error {
	*dst = 0
	if isNull(val) {
		return nil
	}
	if n, err := strconv.ParseInt(string(val), 10, 64); err == nil {
		*dst = n
		return nil
	}
	f, err := strconv.ParseFloat(string(val), 64)
	if err != nil || math.Abs(f) > 1<<53 {
		return within(name, errors.New("must be an integer"))
	}
	*dst = int64(f)
	return nil
}

// setAny stores any value, null too.
func setAny(dst *json.RawMessage, _ string, val []byte) error {
	*dst = compact(val)
	return nil
}

// setOpt stores any value; null means absent.
func setOpt(dst *json.RawMessage, name string, val []byte) error {
	*dst = nil
	if isNull(val) {
		return nil
	}
	return setAny(dst, name, val)
}

func setObject(dst *json.RawMessage, name string, val []byte) error {
	if !isNull(val) && val[0] != '{' {
		return within(name, errors.New("must be an object"))
	}
	return setOpt(dst, name, val)
}

func setArray(dst *json.RawMessage, name string, val []byte) error {
	if !isNull(val) && val[0] != '[' {
		return within(name, errors.New("must be an array"))
	}
	return setOpt(dst, name, val)
}

// setStruct decodes an object.
func setStruct[T any](dst **T, name string, val []byte) error {
	*dst = nil
	if isNull(val) {
		return nil
	}
	v := new(T)
	if err := decodeStruct(v, val); err != nil {
		return within(name, err)
	}
	*dst = v
	return nil
}

// setList decodes an array of objects. An empty one is nil.
func setList[T any](dst *[]T, name string, val []byte) error {
	*dst = nil
	if isNull(val) {
		return nil
	}
	if val[0] != '[' {
		return within(name, errors.New("must be an array"))
	}
	i := 0
	return eachElement(val, func(val []byte) error {
		var v T
		if err := decodeStruct(&v, val); err != nil {
			return within(fmt.Sprintf("%s[%d]", name, i), err)
		}
		*dst = append(*dst, v)
		i++
		return nil
	})
}

// decodeStruct decodes an object, valid JSON, into *v and removes nulls and empty arrays.
func decodeStruct(v any, val []byte) error {
	if val[0] != '{' {
		return errors.New("must be an object")
	}
	if own, ok := v.(json.Unmarshaler); ok {
		return own.UnmarshalJSON(val) // which reads val but once
	}
	if err := json.Unmarshal(compact(val), v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return within(wrong.Field, fmt.Errorf("must be of type %s, not %s", jsonKind(wrong.Type.Kind().String()), wrong.Value))
		}
		return err
	}
	if t, ok := v.(interface{ tidy() error }); ok {
		return t.tidy()
	}
	return nil
}

// jsonKind names a Go kind as a client knows it.
func jsonKind(kind string) string {
	switch kind {
	case "string":
		return "string"
	case "bool":
		return "boolean"
	case "slice":
		return "array"
	case "struct", "ptr", "map":
		return "object"
	}
	return "integer"
}

// compact returns a copy of raw, valid JSON, on one line and in UTF-8.
func compact(raw []byte) json.RawMessage {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if !spaced(raw) {
		return bytes.Clone(raw)
	}
	buf := bytes.NewBuffer(make([]byte, 0, len(raw)))
	if json.Compact(buf, raw) != nil {
		return json.RawMessage("null")
	}
	return buf.Bytes()
}

// spaced reports whether there is white space between the tokens of raw, valid JSON.
func spaced(raw []byte) bool {
	for i := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			i = SkipString(raw, i)
		case ' ', '\n', '\t', '\r':
			return true
		default:
			i++
		}
	}
	return false
}

// appendUnknown adds a member to an object that closeUnknown ends.
func appendUnknown(dst []byte, name string, val []byte) []byte {
	if dst == nil {
		dst = append(dst, '{')
	}
	dst = append(appendString(appendComma(dst), name), ':')
	return append(dst, compact(val)...)
}

// closeUnknown returns the object, nil when it has no members.
func closeUnknown(obj []byte) json.RawMessage {
	if obj == nil {
		return nil
	}
	return append(obj, '}')
}

// within adds the member to err's text, as a path like messages[2].content.
func within(name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errShape) {
		err = errors.New("must be an object")
	}
	if inner, ok := errors.AsType[*memberError](err); ok {
		return &memberError{name + "." + inner.path, inner.err}
	}
	return &memberError{name, err}
}

// memberError is an error about the member at path.
type memberError struct {
	path string
	err  error
}

// Place returns a JSON pointer to the request member that an error of Set is about, or "" if the error is about no single member.
func Place(err error) string {
	m, ok := errors.AsType[*memberError](err)
	if !ok {
		return ""
	}
	return "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(m.path)
}

func (e *memberError) Error() string { return e.path + ": " + e.err.Error() }
func (e *memberError) Unwrap() error { return e.err }
