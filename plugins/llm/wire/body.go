package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/problem"
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

// Read reads the answer in res, closes it and returns the response. It passes each JSON object with the name of its event to
// add, which reports whether the answer is complete.
func (a *Answer) Read(ctx context.Context, res *http.Response, add func(event string, object []byte) (done bool, err error)) (llm.Response, error) {
	defer res.Body.Close()
	if res.Request != nil {
		a.endpoint.asked = res.Request.URL
	}
	in := body{lines: agui.NewReader(res.Body, MaxEvent)}
	for {
		event, object, err := in.next()
		if err != nil {
			return a.end(ctx, &in, err)
		}
		if a.events++; a.events == 1 {
			a.first = bytes.Clone(object[:min(len(object), maxSkipped)])
		}
		done, err := add(event, object)
		bad := garbled(nil)
		switch {
		case errors.As(err, &bad):
			return a.end(ctx, &in, err)
		case err != nil:
			return a.Response(), err
		case done:
			return a.complete()
		case event == "error":
			return a.Response(), a.endpoint.Fault(0, object)
		}
	}
}

// end returns the response after err has ended the body.
func (a *Answer) end(ctx context.Context, in *body, err error) (llm.Response, error) {
	e := a.endpoint
	clean := errors.Is(err, io.EOF)
	bad := garbled(nil)
	switch {
	case ctx.Err() != nil:
		return a.Response(), ctx.Err()
	case errors.As(err, &bad) && a.Finish == "":
		return a.Response(), &llm.Error{Code: "provider_error", Message: e.Provider + ": cannot read the answer: " + e.clean(err.Error()), Retryable: true}
	case clean && !in.began:
		return a.Response(), e.other(in.skipped)
	case errors.Is(err, errDone), a.Finish != "", clean && a.Ended:
		return a.complete()
	case clean && a.events <= 1 && len(a.places) == 0 && a.reasoning.Text() == "":
		return a.Response(), e.noAnswer(cmp.Or(string(a.first), "[]"))
	}
	return a.Response(), e.Lost(ctx, err)
}

// Decode decodes an event into v. Members of other types than v's stay empty: they never cost an answer.
func (a *Answer) Decode(object []byte, v any) error {
	err := json.Unmarshal(object, v)
	if wrong := (*json.UnmarshalTypeError)(nil); err == nil || len(object) == 0 || errors.As(err, &wrong) {
		return nil
	}
	return garbled(object)
}

// noAnswer returns the failure of a response that is one object without an answer, or an empty list.
func (e *Endpoint) noAnswer(object string) error {
	if problem.Sentence([]byte(object), e.redact) != "" {
		return e.Fault(0, []byte(object))
	}
	return &llm.Error{Code: "provider_error", Message: e.Provider + ": this is no answer: " + e.clean(object), Retryable: true}
}

// other returns the failure of a response with the status of a success that is not an answer.
func (e *Endpoint) other(text []byte) error {
	switch text = bytes.TrimSpace(text); {
	case len(text) == 0:
		return &llm.Error{Code: "empty_answer", Message: e.Provider + ": the answer is empty", Retryable: true}
	case text[0] == '<':
		return &llm.Error{Code: "not_an_api", Message: e.Provider + ": the address answers with a web page" + e.instead()}
	}
	return e.Fault(0, text)
}
