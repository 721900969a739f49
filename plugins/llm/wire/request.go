package wire

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/tmc/langchaingo/llms"
)

// Choice returns the tool choice: auto, none, required, or the name of a tool.
func Choice(o llms.CallOptions) (mode, name string) {
	switch c := o.ToolChoice.(type) {
	case string:
		if c == "any" {
			return "required", ""
		}
		return c, ""
	case llms.ToolChoice:
		if c.Function != nil {
			return "required", c.Function.Name
		}
		return c.Type, ""
	case *llms.ToolChoice:
		if c != nil && c.Function != nil {
			return "required", c.Function.Name
		}
	}
	return "", ""
}

// Unsigned is accepted by Google's models in place of a missing signature, such as that of another model's call.
const Unsigned = "skip_thought_signature_validator"

// Number returns a pointer to n, nil for 0, which means unset in options. Negative zero is a 0 that is set.
func Number[T int | float64](n T) *T {
	if n != 0 || math.Signbit(float64(n)) {
		n += 0 // -0 becomes 0
		return &n
	}
	return nil
}

// encode returns body as JSON without some of its members.
func encode(body any, without []string) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil || len(without) == 0 {
		return buf.Bytes(), err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(buf.Bytes(), &members); err != nil {
		return nil, err
	}
	for _, name := range without {
		delete(members, name)
	}
	return encode(members, nil)
}
