package remote

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// halves joins what a remote that counts in UTF-16, as JavaScript does, has cut in the middle of a character: the first half
// of a surrogate pair waits for the next piece of the same message or call. Read one by one, halves are no characters.
type halves map[string][]byte // as JSON has them, by what they belong to

const (
	half      = 6   // the length of half a character in JSON: \ud83d
	mostHalf  = 100 // messages and calls of which halves are kept at once: a remote has few open, and nothing else bounds it here
	longestID = 1 << 10
)

// join returns the event with what was kept for it in front of its delta, and keeps the half at the delta's end. It returns nil
// when nothing is left, but for a shorthand, which may begin what its half belongs to. One without an id goes on with what last tells.
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

// first reports whether the first half of a character stands at n in the text of JSON.
func first(text []byte, n int) bool {
	escapes := 0 // a backslash behind another one begins nothing
	for escapes < n && text[n-1-escapes] == '\\' {
		escapes++
	}
	return escapes%2 == 0 && text[n] == '\\' && text[n+1] == 'u' && text[n+2]|0x20 == 'd' && bytes.IndexByte([]byte("89abAB"), text[n+3]) >= 0
}
