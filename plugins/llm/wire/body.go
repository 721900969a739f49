package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/batonrun/baton/runtime/agui"
)

// body reads the JSON objects of an answer, whether it consists of events, of lines or of one document: a value begins where
// a line, the data of an event, or the text after a value in either, begins with a brace or bracket. Everything else is skipped:
// comments, keep-alives, the names of fields.
type body struct {
	lines   *agui.Reader
	event   string // the name of the event
	value   []byte // begun but not complete
	data    bool   // value is an event's, which ends with an empty line
	braces  braces
	list    []json.RawMessage // complete values of a line that have not been returned
	done    bool              // [DONE] follows list
	skipped []byte            // the beginning of the text that was skipped
	began   bool              // a value was found
}

// errDone is the end of an answer that says so.
var errDone = errors.New("[DONE]")

// garbled is the error of JSON that cannot be read.
type garbled []byte

func (g garbled) Error() string { return "an event is not JSON: " + string(g) }

// maxSkipped limits the skipped text that is kept for an error message, in bytes.
const maxSkipped = 16 << 10

// next returns the next object and the name of its event, both valid until the next call.
func (b *body) next() (event string, object []byte, err error) {
	for {
		if len(b.list) > 0 {
			if object, b.list = b.list[0], b.list[1:]; object[0] == '{' {
				return b.event, object, nil
			}
			continue
		}
		if b.done {
			return "", nil, errDone
		}
		line, err := b.lines.Line()
		ended := err != nil
		if ended {
			line = b.lines.Rest()
		}
		switch lineErr := b.line(line); {
		case lineErr != nil:
			return "", nil, lineErr
		case !ended || len(b.list) > 0 || b.done:
		case errors.Is(err, io.EOF) && b.value != nil && !begins(bytes.TrimSuffix(b.value, []byte("\n"))):
			return "", nil, garbled(b.value)
		default:
			return "", nil, err
		}
	}
}

// begins reports whether text is the beginning of a JSON value.
func begins(text []byte) bool {
	var v json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(&v), io.ErrUnexpectedEOF)
}

// line adds a line.
func (b *body) line(line []byte) error {
	text, data := dataOf(line)
	name, named := field(line, "event:")
	switch {
	case b.value != nil && b.data && len(line) == 0:
		return garbled(b.value)
	case b.value == nil && len(line) == 0:
		b.event = ""
		return nil
	case named && b.value == nil:
		b.event = string(name)
		return nil
	case b.value != nil && b.data && !data:
		return nil // another field of the event
	}
	for {
		switch {
		case b.value == nil && bytes.HasPrefix(text, []byte("[DONE]")):
			b.done = true
			return nil
		case b.value == nil && data && b.event == "error" && len(text) > 0 && text[0] != '{' && text[0] != '[':
			b.began = true
			b.list = append(b.list, []byte(`{"error":`+quotedJSON(string(text))+`}`))
			return nil
		case b.value == nil && (len(text) == 0 || text[0] != '{' && text[0] != '['):
			if comment := bytes.HasPrefix(text, []byte(":")); !data && !comment && !b.began && len(b.skipped) < maxSkipped {
				b.skipped = append(append(b.skipped, line...), '\n')
			}
			return nil
		case b.value == nil:
			b.data, b.began, b.braces = data, true, braces{}
		}
		if len(b.value)+len(text) > MaxEvent {
			return agui.ErrTooLong
		}
		end := feed(&b.braces, text)
		if end < 0 {
			b.value = append(append(b.value, text...), '\n')
			return nil
		}
		value := text[:end]
		if b.value != nil {
			value = append(b.value, value...)
		}
		if err := b.add(value); err != nil {
			return err
		}
		b.value = nil
		text, _ = dataOf(bytes.TrimLeft(text[end:], ", \t"))
	}
}

// add adds a complete value.
func (b *body) add(value []byte) error {
	if value[0] == '{' {
		b.list = append(b.list, value)
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return garbled(value)
	}
	b.list = append(b.list, list...)
	return nil
}

// dataOf returns the data of an event, or the trimmed line if it is another.
func dataOf(line []byte) (text []byte, data bool) {
	text, data = field(line, "data:")
	if data { // some gateways name the field again
		text, _ = field(text, "data:")
	}
	return text, data
}

// field returns the value of a field of an event, or the trimmed line if it is another.
func field(line []byte, name string) (value []byte, ok bool) {
	value, ok = bytes.CutPrefix(line, []byte(name))
	return bytes.TrimSpace(value), ok
}

// braces finds the end of a JSON value that begins with a brace or bracket.
type braces struct {
	depth          int
	quoted, escape bool
	done           bool
}

// feed returns where in the next piece b's value ends, -1 if it does not.
func feed[T string | []byte](b *braces, piece T) int {
	if b.done {
		return 0
	}
	for i := range len(piece) {
		switch c := piece[i]; {
		case b.escape:
			b.escape = false
		case b.quoted && c == '\\':
			b.escape = true
		case c == '"':
			b.quoted = !b.quoted
		case b.quoted:
		case c == '{' || c == '[':
			b.depth++
		case c == '}' || c == ']':
			if b.depth--; b.depth <= 0 {
				b.done = true
				return i + 1
			}
		}
	}
	return -1
}
