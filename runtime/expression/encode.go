package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decode decodes JSON for an expression: integers are exact.
func Decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more than one value")
	}
	return numbers(v), nil
}

// numbers replaces the numbers in v by their values.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(string(v))
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = numbers(v[name])
		}
	}
	return v
}

// encode appends a value as JSON.
func (r *evaluation) encode(to []byte, v any, depth int) []byte {
	r.spend(1)
	put := func(text string) { to = append(to, text...) }
	switch v := v.(type) {
	case nil:
		put("null")
	case bool:
		to = strconv.AppendBool(to, v)
	case int:
		r.grow(8)
		to = strconv.AppendInt(to, int64(v), 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			fail(nil, "JSON has no number for the result of a division by zero or an overflow")
		}
		r.grow(8)
		text, _ := json.Marshal(v) // finite numbers always encode
		to = append(to, text...)
	case json.Number:
		r.grow(len(v))
		put(string(v))
	case string:
		to = r.quote(to, v)
	case []any:
		depth = enter(depth)
		put("[")
		for i, element := range v {
			if i > 0 {
				put(",")
			}
			r.grow(1)
			to = r.encode(to, element, depth)
		}
		put("]")
	case map[string]any:
		depth = enter(depth)
		r.spend(len(v))
		put("{")
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				put(",")
			}
			to = append(r.quote(to, name), ':')
			to = r.encode(to, v[name], depth)
		}
		put("}")
	default: // a time, or bytes
		text := r.foreign(nil, typeName(v)+" is no JSON value", func() any {
			text, err := json.Marshal(v)
			if err != nil {
				panic(err)
			}
			return string(text)
		}).(string)
		r.grow(len(text))
		put(text)
	}
	return to
}

// quote appends a text as JSON, without escaping HTML characters.
func (r *evaluation) quote(to []byte, text string) []byte {
	r.grow(len(text) + 2)
	if plain(text) {
		to = append(append(to, '"'), text...)
		return append(to, '"')
	}
	const piece = 64 << 10 // so that the text's escapes are counted before the next ones are made
	to = append(to, '"')
	for len(text) > 0 {
		n := min(len(text), piece)
		for n < len(text) && n > piece-4 && text[n]&0xC0 == 0x80 {
			n--
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(text[:n]) // texts always encode
		escaped := b.Bytes()[1 : b.Len()-2]
		r.grow(max(len(escaped)-n, 0))
		to, text = append(to, escaped...), text[n:]
	}
	return append(to, '"')
}

// plain reports whether a text is encoded as it is.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(text) && !strings.ContainsAny(text, "\u2028\u2029")
}
