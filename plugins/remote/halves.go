package remote

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// halves joins characters that a remote with UTF-16 strings, such as JavaScript, has split: the first half of a surrogate
// pair waits for the next piece of the same message or call. Decoded separately, halves are invalid.
type halves map[string][]byte // as in JSON, by their message or call

const (
	half      = 6   // length of half a character in JSON: \ud83d
	mostHalf  = 100 // limits the stored halves, which nothing else limits; remotes have few open messages and calls
	longestID = 1 << 10
)

// join prepends the stored half to the event's delta and stores a half at its end. It returns nil if the delta is empty then,
// except for a shorthand, which can start its message. An event without id continues the one named by last.
func (h halves) join(data []byte, last *shorthands) []byte {
	if len(h) == 0 && !bytes.Contains(data, []byte(`\ud`)) && !bytes.Contains(data, []byte(`\uD`)) {
		return data
	}
	var e struct {
		Type       agui.Type       `json:"type"`
		MessageID  string          `json:"messageId"`
		ToolCallID string          `json:"toolCallId"`
		Delta      json.RawMessage `json:"delta"`
	}
	if json.Unmarshal(data, &e) != nil || len(e.Delta) < 2 || e.Delta[0] != '"' {
		return data
	}
	short := true
	switch e.Type {
	case agui.TypeTextMessageChunk:
		e.MessageID = cmp.Or(e.MessageID, last.text)
	case agui.TypeToolCallChunk:
		e.ToolCallID = cmp.Or(e.ToolCallID, last.call)
	case agui.TypeReasoningMessageChunk:
		e.MessageID = cmp.Or(e.MessageID, last.reasoning)
	default:
		short = false
	}
	of := e.MessageID + "\n" + e.ToolCallID
	kept := h[of]
	delete(h, of)
	text := append(bytes.Clone(kept), e.Delta[1:len(e.Delta)-1]...)
	if n := len(text) - half; n >= 0 && first(text, n) && len(h) < mostHalf && len(of) <= longestID {
		h[of] = text[n:]
		text = text[:n]
	} else if kept == nil {
		return data
	}
	if len(text) == 0 && !short {
		return nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return data
	}
	if members["delta"] = append(append([]byte{'"'}, text...), '"'); len(text) == 0 {
		delete(members, "delta")
	}
	joined, err := json.Marshal(members)
	if err != nil {
		return data
	}
	return joined
}

// first reports whether the first half of a character is at n in the text of JSON.
func first(text []byte, n int) bool {
	escapes := 0 // an escaped backslash starts nothing
	for escapes < n && text[n-1-escapes] == '\\' {
		escapes++
	}
	return escapes%2 == 0 && text[n] == '\\' && text[n+1] == 'u' && text[n+2]|0x20 == 'd' && bytes.IndexByte([]byte("89abAB"), text[n+3]) >= 0
}
