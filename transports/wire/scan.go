package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deeply a request may nest. JSON Schemas of tools, the deepest thing clients send, stay far
// below it.
const maxDepth = 256

// members checks that body is one JSON object in UTF-8 that every reader after this one can hold, and returns
// its members. Of two with the same name the last counts.
func members(body []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(body) {
		return nil, Refuse(codeJSON, "The request body is not valid UTF-8")
	}
	if err := Scan(body); err != nil {
		return nil, err
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, Refuse(codeJSON, "The request body is empty; send a JSON object")
	}
	if !json.Valid(body) {
		return nil, Refuse(codeJSON, "The request body is not valid JSON")
	}
	if trimmed[0] != '{' {
		return nil, Refuse(codeRequest, "The request must be a JSON object")
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, Refuse(codeJSON, "The request body is not valid JSON")
	}
	return m, nil
}

// Scan refuses nesting and numbers that decoders behind this one would choke on. It need not tell JSON from
// what is not: that is found afterwards.
func Scan(body []byte) error {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case b == '"':
			i = stringEnd(body, i)
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return Refuse(codeJSON, "The request nests deeper than %d levels", maxDepth)
			}
		case b == '}' || b == ']':
			depth--
		case b == '-' || b >= '0' && b <= '9':
			end := i + 1
			for end < len(body) && isNumber(body[end]) {
				end++
			}
			if !fits(body[i:end]) {
				return Refuse(codeJSON, "The request holds a number that is out of range")
			}
			i = end - 1
		}
	}
	return nil
}

// stringEnd returns the index of the quote that ends the string beginning at i, or the last one of body.
func stringEnd(body []byte, i int) int {
	for i++; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(body)
}

func isNumber(b byte) bool {
	return b >= '0' && b <= '9' || b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-'
}

// fits reports whether a number has a value of finite size in every client, which for all but its
// accuracy means a float64.
func fits(number []byte) bool {
	if len(number) > 1<<10 {
		return false
	}
	if len(number) < 300 && !bytes.ContainsAny(number, "eE") {
		return true
	}
	f, err := strconv.ParseFloat(string(number), 64)
	return err == nil && !math.IsInf(f, 0)
}
