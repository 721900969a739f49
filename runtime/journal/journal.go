// Package journal holds the records of a run's workers by their place in the code: of Do, calls, questions and model calls. A replayed worker
// gets its completed results from them. The package has no locks: the mutex of a live run guards its Journal.
package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Journal has the records of a run's generation and its open questions. The rows that its methods return are to be written.
type Journal struct {
	records   map[recordKey]*data.Memo   // immutable: a new record replaces the old one
	bytes     int                        // total of the records' outputs
	open      map[string]recordKey       // keys of calls and sub-agents that are not done, by id
	questions map[string]*data.Interrupt // open ones, by id
	minted    map[string]bool            // ids that workers have received and not used yet
	lastCall  Spent                      // the latest model call with a finish reason
}

// recordKey identifies a record: the number of a step, and a place in its worker's code.
type recordKey struct {
	step int
	name string
}

// New returns an empty journal.
func New() *Journal {
	return &Journal{
		records: make(map[recordKey]*data.Memo), open: make(map[string]recordKey), questions: make(map[string]*data.Interrupt),
		minted: make(map[string]bool),
	}
}

// Add stores a record or a question and returns its row.
func (j *Journal) Add(row data.Row) data.Row {
	switch row := row.(type) {
	case *data.Memo:
		at := recordKey{row.Step, row.Place}
		if old := j.records[at]; old != nil {
			j.bytes -= len(old.Output)
			delete(j.open, old.CallID)
		}
		j.bytes += len(row.Output)
		if j.records[at] = row; !row.Done && row.CallID != "" {
			j.open[row.CallID] = at
		}
	case *data.Interrupt:
		j.questions[row.ID] = row
	}
	return row
}

// Reopen makes the record that an answer has completed one of an open question again.
func (j *Journal) Reopen(in *data.Interrupt) {
	if m := j.Find(in.Step, in.Place); m != nil && m.Done {
		row := *m
		row.Done, row.Output = false, nil
		j.Add(&row)
	}
}

// Find returns the record of a place, or nil.
func (j *Journal) Find(step int, name string) *data.Memo { return j.records[recordKey{step, name}] }

// Call returns the record of a call, question or sub-agent that is not done, or nil.
func (j *Journal) Call(id string) *data.Memo { return j.records[j.open[id]] }

// Calls returns the records of tool calls that are not done.
func (j *Journal) Calls() (list []*data.Memo) {
	for _, at := range j.open {
		if m := j.records[at]; m.Tool != "" {
			list = append(list, m)
		}
	}
	return list
}

// Complete completes the record of a call with its result, behind an event, and returns its row, or nil when there is no such record.
func (j *Journal) Complete(id string, result *agui.ToolCallResult, event int64) data.Row {
	m := j.Call(id)
	if m == nil || m.Tool == "" {
		return nil
	}
	row := *m
	row.Done, row.Output, row.Event = true, data.MustJSON(result.Output), event
	return j.Add(&row)
}

// LeftBy reports whether a step, or a sub-agent with places that begin with within, has left a call open to emit the result itself. No
// request was recorded for such a call.
func (j *Journal) LeftBy(step int, within, id string) bool {
	m := j.Call(id)
	return m != nil && m.Tool != "" && m.Hash == "" && m.Step == step && strings.HasPrefix(m.Place, within)
}

// Edited returns the arguments with which an approver or a guard has replaced those of a call that has begun, or nil.
func (j *Journal) Edited(id string) json.RawMessage {
	m := j.Call(id)
	if m == nil || !m.Begun {
		return nil
	}
	u := plugins.Use{Place: m.Place}
	if args := EditedBy(j.Find(m.Step, u.Inside(ApprovalPlace))); args != nil {
		return args
	}
	if guarded := j.Find(m.Step, u.Inside(EditedPlace)); guarded != nil {
		return guarded.Output
	}
	return nil
}

// MaxRecords limits a run's records, which stay in memory while it runs.
const MaxRecords = 100_000

// MaxQuestion and MaxQuestions limit the RUN_FINISHED that lists a run's open questions to the size of an event.
const (
	MaxQuestion  = 256 << 10
	MaxQuestions = 4 << 20
)

// Memo returns a copy of the record of a use in a step, or a new one when there is none and the records have up to so many bytes.
func (j *Journal) Memo(run *data.Run, step int, u plugins.Use, most int64) (*data.Memo, error) {
	if m := j.Find(step, u.Place); m != nil {
		return new(*m), u.Check(m.Hash)
	}
	if len(j.records) >= MaxRecords || int64(j.bytes) > most {
		return nil, &plugins.Error{Code: "too_many_records", Message: fmt.Sprintf("A run may record %d things, of %d bytes", MaxRecords, most)}
	}
	return &data.Memo{RunKey: run.Key, Generation: run.Generation, Step: step, Place: u.Place, Hash: u.Hash()}, nil
}

// MayAsk fails once the run has as many open questions as it may.
func (j *Journal) MayAsk() error {
	size := 0
	for _, in := range j.questions {
		size += len(in.Body)
	}
	if size > MaxQuestions || len(j.questions) >= agui.MaxOpen {
		return &plugins.Error{Code: "bad_interrupt", Message: fmt.Sprintf("A run may have %d questions open, of %d bytes", agui.MaxOpen, MaxQuestions)}
	}
	return nil
}

// Asks reports whether a step, or the run, has an open question.
func (j *Journal) Asks(step int) bool {
	for _, in := range j.questions {
		if in.Step == step || in.Step == 0 {
			return true
		}
	}
	return false
}

// Rests reports whether a step waits for a time or an event.
func (j *Journal) Rests(step int) bool {
	for at, m := range j.records {
		kind, _, _ := strings.Cut(lastSegment(at.name), ":")
		if at.step == step && !m.Done && (kind == "event" || strings.HasPrefix(kind, "wait#")) {
			return true
		}
	}
	return false
}

// Asking reports whether any question is open.
func (j *Journal) Asking() bool { return len(j.questions) > 0 }

// AsksClient reports whether the client has been asked for a call.
func (j *Journal) AsksClient(call string) bool {
	in := j.questions[call]
	return in != nil && in.Frontend
}

// Mint notes an id that a worker has received, and TakeMinted forgets it as the worker uses it.
func (j *Journal) Mint(id string) { j.minted[id] = true }

// TakeMinted reports whether an id was minted and not used before.
func (j *Journal) TakeMinted(id string) bool {
	was := j.minted[id]
	delete(j.minted, id)
	return was
}

// CancelQuestions cancels the open questions of a step at places that begin with within, and returns the rows. A replayed
// worker asks them again.
func (j *Journal) CancelQuestions(step int, within string) (rows []data.Row) {
	for id, in := range j.questions {
		if in.Step != step || !strings.HasPrefix(in.Place, within) {
			continue
		}
		delete(j.questions, id)
		closed := *in
		closed.Status = data.InterruptCancelled
		rows = append(rows, &closed)
		if m := j.Find(in.Step, in.Place); m != nil && !m.Done {
			row := *m
			row.CallID = ""
			rows = append(rows, j.Add(&row))
		}
	}
	return rows
}

// Spent is the record of a model call.
type Spent struct {
	agui.TokenUsage
	FinishReason string    `json:"finishReason,omitempty"`
	RequestID    string    `json:"requestId,omitempty"`
	At           time.Time `json:"at,omitzero"`
}

// Spent returns the usage of all model calls inside a use of a step.
func (j *Journal) Spent(step int, u plugins.Use) (sum []agui.TokenUsage) {
	for at, m := range j.records {
		var call Spent
		if at.step == step && u.Counts(at.name) && json.Unmarshal(m.Output, &call) == nil {
			sum = agui.AddUsage(sum, call.TokenUsage)
		}
	}
	return sum
}

// ModelEnded keeps the latest model call with a finish reason.
func (j *Journal) ModelEnded(call Spent) {
	if call.FinishReason != "" && !call.At.Before(j.lastCall.At) {
		j.lastCall = call
	}
}

// Load adds records that were read from the database.
func (j *Journal) Load(records []data.Memo) {
	for i := range records {
		m := &records[i]
		j.Add(m)
		var call Spent
		if strings.HasPrefix(lastSegment(m.Place), "usage#") && json.Unmarshal(m.Output, &call) == nil {
			j.ModelEnded(call)
		}
	}
}

// Kept returns the value that the call at a place in a step has stored, or nil.
func (j *Journal) Kept(step int, call plugins.Use) json.RawMessage {
	m := j.Find(step, call.Inside(KeptPlace))
	if m == nil || string(m.Output) == "null" {
		return nil
	}
	return m.Output
}

// Count returns the number of a step's records at places that begin with within.
func (j *Journal) Count(step int, within string) (n int) {
	for at := range j.records {
		if at.step == step && strings.HasPrefix(at.name, within) {
			n++
		}
	}
	return n
}

// Owed returns the calls of earlier spans that have their results in a span with these calls and results.
func (j *Journal) Owed(begun, answered map[string]bool) (calls []string) {
	for _, m := range j.records {
		if m.Tool != "" && !begun[m.CallID] && (!m.Done || answered[m.CallID]) {
			calls = append(calls, m.CallID)
		}
	}
	return calls
}

// Repeats returns the messages that are named by the records of Dos which are to be repeated, as far as they are in work that was cut
// short; and all calls that have records.
func (j *Journal) Repeats(isCut func(*data.Memo) bool) (messages []string, calls map[string]bool) {
	calls = make(map[string]bool)
	for _, m := range j.records {
		if m.CallID != "" {
			calls[m.CallID] = true
		}
		if m.Done || m.Output == nil || !strings.HasPrefix(lastSegment(m.Place), "do:") || !isCut(m) {
			continue
		}
		var ids []string
		if err := json.Unmarshal(m.Output, &ids); err == nil {
			messages = append(messages, ids...)
		}
	}
	return messages, calls
}

// FinishMetadata returns the metadata of the run's model calls for the end of the run, or nil when no call has a finish
// reason.
func (j *Journal) FinishMetadata(usage []agui.TokenUsage) json.RawMessage {
	last := &j.lastCall
	if last.FinishReason == "" {
		return nil
	}
	f := agui.FinishMetadata{Provider: last.Provider, Model: last.Model, FinishReason: last.FinishReason, ProviderRequestID: last.RequestID}
	for _, u := range usage {
		f.InputTokens += u.InputTokens
		f.OutputTokens += u.OutputTokens
		f.CachedInputTokens += u.CachedInputTokens
		f.ReasoningTokens += u.ReasoningTokens
	}
	return f.JSON()
}
