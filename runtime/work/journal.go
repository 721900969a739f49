package work

import (
	"encoding/json"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// journal holds the records of a run's generation by their place in the workers' code, so that a replayed worker finds its
// completed uses; and the open questions. The run's mutex guards it.
type journal struct {
	records   map[recordKey]*data.Memo   // immutable: a new record replaces the old one
	bytes     int                        // total of the records' outputs
	open      map[string]recordKey       // keys of calls and sub-agents that are not done, by id
	questions map[string]*data.Interrupt // open ones, by id
	minted    map[string]bool            // ids that workers have received and not used yet
	lastCall  spent                      // the latest model call with a finish reason
}

// recordKey identifies a record: the number of a step, and a place in its worker's code.
type recordKey struct {
	step int
	name string
}

func newJournal() journal {
	return journal{
		records: make(map[recordKey]*data.Memo), open: make(map[string]recordKey), questions: make(map[string]*data.Interrupt),
		minted: make(map[string]bool),
	}
}

// add stores a record or a question and returns its row.
func (j *journal) add(row data.Row) data.Row {
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

// reopen makes the record that an answer has completed one of an open question again.
func (j *journal) reopen(in *data.Interrupt) {
	if m := j.find(in.Step, in.Place); m != nil && m.Done {
		row := *m
		row.Done, row.Output = false, nil
		j.add(&row)
	}
}

// find returns the record of a place, or nil.
func (j *journal) find(step int, name string) *data.Memo { return j.records[recordKey{step, name}] }

// call returns the record of a call, question or sub-agent that is not done, or nil.
func (j *journal) call(id string) *data.Memo { return j.records[j.open[id]] }

// calls returns the records of tool calls that are not done.
func (j *journal) calls() (list []*data.Memo) {
	for _, at := range j.open {
		if m := j.records[at]; m.Tool != "" {
			list = append(list, m)
		}
	}
	return list
}

// complete completes the record of a call with its result, behind an event, and returns its row, or nil when there is no such record.
func (j *journal) complete(id string, result *agui.ToolCallResult, event int64) data.Row {
	m := j.call(id)
	if m == nil || m.Tool == "" {
		return nil
	}
	row := *m
	row.Done, row.Output, row.Event = true, data.MustJSON(result.Output), event
	return j.add(&row)
}

// leftBy returns the record of a call that a step, or a sub-agent with places that begin with within, has left open to emit the
// result itself, or nil. No request was recorded for such a call.
func (j *journal) leftBy(step int, within, id string) *data.Memo {
	m := j.call(id)
	if m == nil || m.Tool == "" || m.Hash != "" || m.Step != step || !strings.HasPrefix(m.Place, within) {
		return nil
	}
	return m
}

// edited returns the arguments with which an approver or a guard has replaced those of a call that has begun, or nil.
func (j *journal) edited(id string) json.RawMessage {
	m := j.call(id)
	if m == nil || !m.Begun {
		return nil
	}
	u := plugins.Use{Place: m.Place}
	if args := editedBy(j.find(m.Step, u.Inside(approvalPlace))); args != nil {
		return args
	}
	if guarded := j.find(m.Step, u.Inside(editedPlace)); guarded != nil {
		return guarded.Output
	}
	return nil
}

// maxRecords limits a run's records, which stay in memory while it runs.
const maxRecords = 100_000

// maxQuestion and maxQuestions limit the RUN_FINISHED that lists a run's open questions to the size of an event.
const (
	maxQuestion  = 256 << 10
	maxQuestions = 4 << 20
)

// asksTooMuch reports whether the run has reached its limit of open questions.
func (j *journal) asksTooMuch() bool {
	size := 0
	for _, in := range j.questions {
		size += len(in.Body)
	}
	return size > maxQuestions || len(j.questions) >= agui.MaxOpen
}

// cancelQuestions cancels the open questions of a step at places that begin with within, and returns the rows. A replayed
// worker asks them again.
func (j *journal) cancelQuestions(step int, within string) (rows []data.Row) {
	for id, in := range j.questions {
		if in.Step != step || !strings.HasPrefix(in.Place, within) {
			continue
		}
		delete(j.questions, id)
		closed := *in
		closed.Status = data.InterruptCancelled
		rows = append(rows, &closed)
		if m := j.find(in.Step, in.Place); m != nil && !m.Done {
			row := *m
			row.CallID = ""
			rows = append(rows, j.add(&row))
		}
	}
	return rows
}

// spent returns the usage of all model calls inside a use of a step.
func (j *journal) spent(step int, u plugins.Use) (sum []agui.TokenUsage) {
	for at, m := range j.records {
		var call spent
		if at.step == step && u.Counts(at.name) && json.Unmarshal(m.Output, &call) == nil {
			sum = agui.AddUsage(sum, call.TokenUsage)
		}
	}
	return sum
}

// modelEnded keeps the latest model call with a finish reason.
func (j *journal) modelEnded(call spent) {
	if call.FinishReason != "" && !call.At.Before(j.lastCall.At) {
		j.lastCall = call
	}
}

// load adds records that were read from the database.
func (j *journal) load(records []data.Memo) {
	for i := range records {
		m := &records[i]
		j.add(m)
		var call spent
		if name := m.Place[strings.LastIndexByte(m.Place, '/')+1:]; strings.HasPrefix(name, "usage#") && json.Unmarshal(m.Output, &call) == nil {
			j.modelEnded(call)
		}
	}
}

// finishMetadata returns the metadata of the run's model calls for the end of the run, or nil when no call has a finish
// reason.
func (j *journal) finishMetadata(usage []agui.TokenUsage) json.RawMessage {
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
