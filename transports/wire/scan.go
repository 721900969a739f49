package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// maxDepth is how deeply a request may nest. JSON Schemas of tools, the deepest thing clients send, stay far
// below it.
const maxDepth = 256

func tooDeep() error { return Refuse(codeJSON, "The request nests deeper than %d levels", maxDepth) }

func outOfRange() error { return Refuse(codeJSON, "The request holds a number that is out of range") }

// tooMany refuses a request of that size that holds more of something than the most that it may.
func tooMany(most int, of string) error {
	return &runtime.Error{
		Kind: runtime.KindTooLarge, Code: "too_many_elements", Detail: fmt.Sprintf("A request of this size may hold %d %s", most, of),
	}
}

// Scan refuses a body with too deep nesting, too long numbers or too many values for the decoders after it. It does not validate
// JSON.
func Scan(body []byte) error {
	depth, values, most := 0, 0, agui.MostValues(len(body))
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case b == '"':
			i = agui.SkipString(body, i) - 1
		case b == ',':
			if values++; values > most {
				return tooMany(most, "values")
			}
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return tooDeep()
			}
		case b == '}' || b == ']':
			depth--
		case b == '-' || b >= '0' && b <= '9':
			end := i + 1
			for end < len(body) && isNumber(body[end]) {
				end++
			}
			if !fits(body[i:end]) {
				return outOfRange()
			}
			i = end - 1
		}
	}
	return nil
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
