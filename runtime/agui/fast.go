package agui

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// decodeHot reads the events that are sent once per token, in AppendJSON's form. It gives up on anything unusual, which Decode
// then reads.
func decodeHot(data []byte, threadID, runID string) (Event, bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !ok {
		return nil, false
	}
	before, after, ok0 := bytes.Cut(rest, []byte{'"'})
	if !ok0 {
		return nil, false
	}
	if !utf8.Valid(rest) {
		return nil, false
	}
	base := Base{ThreadID: threadID, RunID: runID}
	switch Type(before) {
	case TypeTextMessageContent:
		e := TextMessageContent{Base: base}
		if scanHot(string(after), &e.Base, "messageId", &e.MessageID, &e.Delta) {
			return e, true
		}
	case TypeReasoningMessageContent:
		e := ReasoningMessageContent{Base: base}
		if scanHot(string(after), &e.Base, "messageId", &e.MessageID, &e.Delta) {
			return e, true
		}
	case TypeToolCallArgs:
		e := ToolCallArgs{Base: base}
		if scanHot(string(after), &e.Base, "toolCallId", &e.ToolCallID, &e.Delta) {
			return e, true
		}
	}
	return nil, false
}

// scanHot reads the rest of a hot event after its type. It reports whether that is only the id, the delta and plain common
// members.
func scanHot(line string, b *Base, idName string, id, delta *string) bool {
	for strings.HasPrefix(line, `,"`) {
		name, rest, ok := strings.Cut(line[2:], `"`)
		if !ok || rest == "" || rest[0] != ':' {
			return false
		}
		rest = rest[1:]
		switch name {
		case idName:
			*id, line, ok = cutString(rest)
		case "delta":
			*delta, line, ok = cutString(rest)
		case "agent":
			b.Agent, line, ok = cutString(rest)
		case "subagentRunId":
			b.SubagentRunID, line, ok = cutString(rest)
		case "timestamp":
			b.Timestamp, line, ok = cutMillis(rest)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return line == "}"
}

// cutString cuts a JSON string off the line. It gives up on \u escapes and control characters.
func cutString(line string) (s, rest string, ok bool) {
	if line == "" || line[0] != '"' {
		return "", "", false
	}
	i := plainUntil(line, 1)
	for i < len(line) && line[i] >= utf8.RuneSelf {
		i = plainUntil(line, i+1)
	}
	if i < len(line) && line[i] == '"' {
		return line[1:i], line[i+1:], true
	}
	return cutEscaped(line, i)
}

// cutEscaped is cutString for a string whose first escape is at line[i].
func cutEscaped(line string, i int) (s, rest string, ok bool) {
	var out strings.Builder
	out.Grow(len(line))
	out.WriteString(line[1:i])
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '"':
			return out.String(), line[i+1:], true
		case plain[c] || c >= utf8.RuneSelf:
			out.WriteByte(c)
		case c == '\\' && i+1 < len(line) && unescaped[line[i+1]] != 0:
			i++
			out.WriteByte(unescaped[line[i]])
		default:
			return "", "", false
		}
	}
	return "", "", false
}

// unescaped maps the letter of a two-character escape to its character.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// cutMillis cuts a positive integer off the line.
func cutMillis(line string) (n int64, rest string, ok bool) {
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		n = n*10 + int64(line[i]-'0')
		i++
	}
	if i == 0 || i > 18 || line[0] == '0' {
		return 0, "", false
	}
	return n, line[i:], true
}
