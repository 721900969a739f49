package llm

import (
	"encoding/json"
	"fmt"
	"strconv"
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

// add returns what the model gets of a call's result at first.
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

// read answers a call of ReadResult.
func (r *results) read(arguments string) *agui.ToolOutput {
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
	all := lines(text)
	first := min(max(asked.From, 1), len(all)+1)
	var out strings.Builder
	shown, last := 0, first-1
	for n, line := range all[first-1:] {
		if asked.Find != "" && !strings.Contains(strings.ToLower(line), strings.ToLower(asked.Find)) {
			continue
		}
		if asked.Lines > 0 && shown == asked.Lines || out.Len()+len(line) > r.most-200 {
			break
		}
		shown, last = shown+1, first+n
		out.WriteString(strconv.Itoa(last) + ": " + line + "\n")
	}
	with := ""
	if asked.Find != "" {
		with = fmt.Sprintf(" with %q", clip(asked.Find, 200))
	}
	summary := fmt.Sprintf("No lines%s from line %d on; the result has %d lines", with, first, len(all))
	if shown > 0 {
		summary = fmt.Sprintf("Lines%s, from line %d to line %d of %d:\n%s", with, first, last, len(all), out.String())
	}
	return &agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: summary}
}

// longestLine is where a longer line of a result is broken, in bytes.
const longestLine = 500

// lines returns the lines of a text, with long ones broken.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		for len(line) > longestLine {
			end := longestLine
			for end > longestLine-utf8.UTFMax && !utf8.RuneStart(line[end]) {
				end--
			}
			all = append(all, line[:end])
			line = line[end:]
		}
		all = append(all, line)
	}
	return all
}

// offerReader adds ReadResult to the tools once a result is shortened. It stays for the rest of the turn.
func (t *turn) offerReader() {
	if _, there := t.tools.wires[ReadResult]; there || !t.results.cut {
		return
	}
	t.tools.add(reader, false)
	t.tools.reads = true
}
