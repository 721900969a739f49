package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// ReadResult is the name of the tool with which a model reads on in the result of a call that it got shortened.
const ReadResult = "read_result"

// results are the long results of the conversation's calls. The log has them whole; the model gets the beginning and the end.
type results struct {
	most  int               // bytes of a result that the model gets
	whole map[string]string // by our id of the call
	ids   map[string]string // of the calls, by the text that the model has got
	cut   bool              // a result has been shortened
}

const (
	// shortResult is the length to which earlier results are shortened first, in bytes.
	shortResult = 4 << 10
	// leastResult is the length up to which results are never shortened, in bytes.
	leastResult = 512
)

// add returns the part of a call's result that the model gets at first.
func (r *results) add(id, text string) string {
	if len(text) <= leastResult {
		return text
	}
	if r.whole == nil {
		r.whole, r.ids = make(map[string]string), make(map[string]string)
	}
	r.whole[id], r.ids[text] = text, id
	return r.shortened(text, r.most)
}

// shortened returns a result, as the model has got it, with at most limit bytes and a note how to read the rest.
func (r *results) shortened(got string, limit int) string {
	id, long := r.ids[got]
	if !long || len(got) <= limit {
		return got
	}
	short := shortened(r.whole[id], limit, fmt.Sprintf("; %s with id %q reads them", ReadResult, id))
	r.ids[short], r.cut = id, true
	return short
}

// shortened returns the beginning and the end of a text if it has more than limit bytes, and how much is left out between them.
func shortened(text string, limit int, note string) string {
	if len(text) <= limit {
		return text
	}
	head, tail := text[:limit/4*3], text[len(text)-limit/4:]
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[%d of %d bytes left out%s]\n", len(text)-len(head)-len(tail), len(text), note) + strings.ToValidUTF8(tail, "")
}

// reader is the definition of ReadResult.
var reader = plugins.Info{
	Name:        ReadResult,
	Description: "Reads on in the result of an earlier tool call that was shortened.",
	Parameters: json.RawMessage(`{"type":"object","required":["id"],"properties":{` +
		`"id":{"type":"string","description":"The id in the note of the shortened result."},` +
		`"from":{"type":"integer","minimum":1,"description":"The first line to read, from 1."},` +
		`"lines":{"type":"integer","minimum":1,"description":"How many lines to read, default as many as fit."},` +
		`"find":{"type":"string","description":"Returns only lines that contain this text, with their numbers."}}}`),
}

// read answers a call of ReadResult. open opens a result that a file has.
func (r *results) read(arguments string, open func(id string) (io.ReadCloser, error)) *agui.ToolOutput {
	asked := struct {
		ID    string `json:"id"`
		From  int    `json:"from"`
		Lines int    `json:"lines"`
		Find  string `json:"find"`
	}{}
	if err := json.Unmarshal([]byte(arguments), &asked); err != nil {
		return failure("invalid_arguments", "The arguments are wrong: "+err.Error())
	}
	text, ok := r.whole[asked.ID]
	if !ok {
		return failure("not_found", fmt.Sprintf("There is no shortened result with the id %q", clip(asked.ID, 100)))
	}
	var whole io.Reader = strings.NewReader(text)
	if len(text) >= leastFiled {
		body, err := open(asked.ID)
		if err != nil && !errors.Is(err, plugins.ErrNoAttachment) {
			return failure("unavailable", "The result cannot be read now")
		}
		if err == nil {
			defer func() { _ = body.Close() }()
			whole = body
		}
	}
	first := max(asked.From, 1)
	var out strings.Builder
	find := bytes.ToLower([]byte(asked.Find))
	shown, last, all, full := 0, first-1, 0, false
	err := lines(whole, func(line []byte) {
		if all++; all < first || full || len(find) > len(line) || len(find) > 0 && !bytes.Contains(bytes.ToLower(line), find) {
			return
		}
		if full = asked.Lines > 0 && shown == asked.Lines || out.Len()+len(line) > r.most-200; full {
			return
		}
		shown, last = shown+1, all
		fmt.Fprintf(&out, "%d: %s\n", last, bytes.ToValidUTF8(line, nil))
	})
	if err != nil {
		return failure("unavailable", "The result cannot be read now")
	}
	first = min(first, all+1)
	with := ""
	if asked.Find != "" {
		with = fmt.Sprintf(" with %q", clip(asked.Find, 200))
	}
	summary := fmt.Sprintf("No lines%s from line %d on; the result has %d lines", with, first, all)
	if shown > 0 {
		summary = fmt.Sprintf("Lines%s, from line %d to line %d of %d:\n%s", with, first, last, all, out.String())
	}
	return &agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: summary}
}

const (
	// longestLine is where a longer line of a result is broken, in bytes.
	longestLine = 500
	// leastFiled is the length from which a result may be only the part of it that the log has, in bytes.
	leastFiled = 32 << 10
)

// lines calls yield with each line of a text, with long ones broken. A line is valid until the next one.
func lines(text io.Reader, yield func(line []byte)) error {
	r := bufio.NewReader(text)
	var line []byte
	for {
		more, err := r.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		line = append(line, more...)
		ended := err == nil || last
		if ended {
			line = bytes.TrimRight(line, "\r\n")
		}
		rest := line
		for len(rest) > longestLine && (ended || len(rest) > longestLine+2) { // the line may end with \r\n
			end := longestLine
			for end > longestLine-utf8.UTFMax && !utf8.RuneStart(rest[end]) {
				end--
			}
			yield(rest[:end])
			rest = rest[end:]
		}
		if ended && (err == nil || len(rest) > 0) {
			yield(rest)
		}
		if last {
			return nil
		}
		if ended {
			rest = nil
		}
		line = append(line[:0], rest...)
	}
}

// offerReader adds ReadResult to the tools once a result is shortened. It stays for the rest of the turn.
func (t *turn) offerReader() {
	if _, there := t.tools.wires[ReadResult]; there || !t.conv.results.cut {
		return
	}
	t.tools.add(reader, false)
	t.tools.reads = true
}
