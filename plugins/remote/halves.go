package remote

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// halves joins characters that a remote with UTF-16 strings, such as JavaScript, has split: the first half of a surrogate
// pair waits for the next piece of the same message or call. Decoded separately, halves are invalid.
type halves map[string][]byte // as in JSON, by their message or call

const (
	mostHalf  = 100 // limits the stored halves, which nothing else limits; remotes have few open messages and calls
	longestID = 1 << 10
)

// firstHalf matches the first half of a character at the end of the text of JSON. An escaped backslash starts nothing.
var firstHalf = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*(\\u[dD][89abAB]..)$`)

// join prepends the stored half to the event's delta and stores a half at its end. It returns nil if the delta is empty then,
// except for a shorthand, which can start its message. An event without id continues the one named by last.
func (h halves) join(data []byte, last *shorthands) []byte {
	if len(h) == 0 && !bytes.Contains(data, []byte(`\ud`)) && !bytes.Contains(data, []byte(`\uD`)) {
		return data
	}
	members := object(data)
	delta := members["delta"]
	if len(delta) < 2 || delta[0] != '"' {
		return data
	}
	message, tool, short := textOf(members["messageId"]), textOf(members["toolCallId"]), true
	switch agui.Type(textOf(members["type"])) {
	case agui.TypeTextMessageChunk:
		message = cmp.Or(message, last.text)
	case agui.TypeToolCallChunk:
		tool = cmp.Or(tool, last.call)
	case agui.TypeReasoningMessageChunk:
		message = cmp.Or(message, last.reasoning)
	default:
		short = false
	}
	of := message + "\n" + tool
	kept := h[of]
	delete(h, of)
	text := append(bytes.Clone(kept), delta[1:len(delta)-1]...)
	if found := firstHalf.FindSubmatchIndex(text); found != nil && len(h) < mostHalf && len(of) <= longestID {
		h[of], text = text[found[2]:], text[:found[2]]
	} else if kept == nil {
		return data
	}
	if len(text) == 0 && !short {
		return nil
	}
	if members["delta"] = slices.Concat([]byte{'"'}, text, []byte{'"'}); len(text) == 0 {
		delete(members, "delta")
	}
	return encoded(members)
}
