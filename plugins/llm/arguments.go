package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// readArguments returns the JSON object that a model meant as the arguments of a call. It accepts JSON in a JSON string, in a
// code fence, with commas before closing brackets, with control characters in strings and with surplus closing brackets. It
// adds nothing that is missing: an object that was cut is no other object.
func readArguments(text string) (string, error) {
	if isObject(text) {
		return text, nil
	}
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\uFEFF"))
	if text == "" || text == "null" {
		return "{}", nil
	}
	for range 3 {
		var inner string
		if json.Unmarshal([]byte(text), &inner) == nil {
			text = strings.TrimSpace(inner)
		}
		text = unfenced(text)
	}
	if fixed := repaired(text); isObject(fixed) {
		return fixed, nil
	}
	var v any
	err := json.Unmarshal([]byte(text), &v)
	switch wrong := (*json.SyntaxError)(nil); {
	case errors.As(err, &wrong):
		return "", fmt.Errorf("%w at byte %d", err, wrong.Offset)
	case err != nil:
		return "", err
	}
	return "", errors.New("it is another value")
}

// unfenced returns a text without a Markdown fence around it.
func unfenced(text string) string {
	inner, fenced := strings.CutPrefix(text, "```")
	if !fenced {
		return text
	}
	inner = strings.TrimPrefix(inner, "json")
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), "```"))
}

// repaired returns JSON without the commas before closing brackets and the closing brackets after its end, and with the
// control characters in its strings escaped.
func repaired(text string) string {
	var out []byte
	depth, quoted, comma := 0, false, -1 // comma is the length of out before a comma that nothing has followed
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c)
			i++
			c = text[i]
		case quoted && c < ' ':
			escaped, _ := json.Marshal(string(c))
			out = append(out, escaped[1:len(escaped)-1]...)
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; comma >= 0 {
				out = out[:comma]
			}
		}
		switch {
		case quoted || !strings.ContainsRune(", \t\r\n", rune(c)):
			comma = -1
		case c == ',' && comma < 0:
			comma = len(out)
		case c == ',':
			comma = -1 // two commas are no mistake that is known
		}
		out = append(out, c)
		if depth == 0 && !quoted && strings.Trim(text[i+1:], "}] \t\r\n") == "" {
			break
		}
	}
	return string(out)
}

// refused returns the output of a call that is not made, of an answer with a finish reason, or nil.
func (c *call) refused(finish string) *agui.ToolOutput {
	args, err := readArguments(c.Arguments)
	cut := !slices.Contains(whole, finish) && (err != nil || strings.Join(strings.Fields(args), "") == "{}")
	wrote := shortened(c.Arguments, maxQuoted, "")
	switch {
	case cut && finish == "length":
		return failure("answer_cut", "The call was cut off by the limit of tokens (max_tokens) and was not made. You wrote: "+
			wrote+"\nCall again with less, or in several calls.")
	case cut:
		return failure("answer_cut", fmt.Sprintf(
			"The answer ended early (%s), and the call was not made. You wrote: %s\nCall again with all arguments.", finish, wrote))
	case err != nil:
		return failure("invalid_arguments", fmt.Sprintf(
			"The arguments are not a JSON object: %v. You wrote: %s\nCall again with one JSON object.", err, wrote))
	}
	return nil
}

// whole are the reasons for the end of an answer that has said all it had to say.
var whole = []string{"", "stop", "tool_calls"}

// maxQuoted limits the quotation of a model's arguments in the failure of its call, in bytes.
const maxQuoted = 2 << 10

// failure returns the output of a call that was not made.
func failure(code, message string) *agui.ToolOutput {
	return &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: message, Error: &agui.OutputError{Code: code, Message: message}}
}
