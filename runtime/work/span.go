package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/tail"
)

// span is a span of a run: it verifies, numbers, encodes and folds the events of the run. The run's owner has the only open
// span; the run's mutex guards it.
type span struct {
	row      data.Span
	thread   *data.Thread
	runKey   int64
	runID    string    // its name in this span
	most     int       // maximum bytes of an event
	last     int64     // the id of the last event
	kind     agui.Type // of that event, empty before the first
	at       time.Time // when it was made
	seq      int64     // of the thread's last message
	ver      *agui.Verifier
	fold     *fold.Fold
	messages map[string]*data.Message // of this run, with a seq or waiting for one
	calls    map[string]string        // the tools of calls that may still owe a result, by toolCallId
	slab     []byte                   // room for payloads
	slabbed  time.Time                // when slab was made
	output   []byte                   // the encoded Output of the event that was encoded last, if that is a callResult

	began     began           // the beginning of the run's generation
	brought   map[string]bool // messages that the generation has received or found, by id
	retracted map[string]bool // messages that the span has retracted, by id
	cut       []string        // messages that were hidden as they ended, and are not retracted yet
}

// began is the beginning of a run's generation: the input of its workers when they are replayed depends on it.
type began struct {
	state json.RawMessage // the thread's
	upTo  int64           // the last event with messages of the prompt
	shows []int64         // runs with messages that it has shown again
}

// nextSpan returns a run's next span, which begins behind the event last and the message seq. Its events have up to most bytes.
func nextSpan(most int, th *data.Thread, run *data.Run, last, seq int64) *span {
	return openSpan(most, th, run, &data.Span{
		RunKey: run.Key, N: run.Spans + 1, ThreadKey: th.Key, RunID: cmp.Or(run.SpanName, run.ID),
		Generation: run.Generation, First: last + 1, State: th.State,
	}, last, seq)
}

// openSpan returns a span that goes on behind the event last and the message seq.
func openSpan(most int, th *data.Thread, run *data.Run, row *data.Span, last, seq int64) *span {
	sp := spanOf(th, run.Key, row.RunID, most, last, seq)
	sp.row = *row
	return sp
}

func spanOf(th *data.Thread, runKey int64, runID string, most int, last, seq int64) *span {
	return &span{
		thread: th, runKey: runKey, runID: runID, most: most, last: last, seq: seq,
		ver: new(agui.Verifier), fold: fold.New(th.State, nil), messages: make(map[string]*data.Message), calls: make(map[string]string),
		retracted: make(map[string]bool),
	}
}

// state returns the thread's state as the run has left it.
func (sp *span) state() json.RawMessage { return sp.fold.State() }

// has reports whether a message has a row, which may still be waiting for its seq.
func (sp *span) has(message string) bool { return sp.messages[message] != nil }

// newState returns the state that the run leaves its thread in, or nil if it has not changed.
func (sp *span) newState() json.RawMessage {
	if state := sp.state(); string(state) != string(sp.thread.State) {
		return state
	}
	return nil
}

// stage gives ev the next id and adds it to the item, with the message rows it completes. It refuses an event that is
// illegal now and then changes nothing.
func (sp *span) stage(it *commit.Item, ev agui.Event) error {
	ev, payload, err := sp.stored(ev, sp.most)
	if err != nil {
		return err
	}
	return sp.stageStored(it, ev, payload)
}

// stored returns ev as an event of the run, and its stored form. It refuses an event of more than most bytes.
func (sp *span) stored(ev agui.Event, most int) (agui.Event, []byte, error) {
	if base := ev.Common(); base.ThreadID != sp.thread.ID || base.RunID != sp.runID {
		base.ThreadID, base.RunID = sp.thread.ID, sp.runID
		ev = ev.WithCommon(base)
	}
	ev = agui.At(time.Now(), ev)
	payload := sp.encode(ev)
	if end, ok := ev.(agui.TextMessageEnd); ok && len(payload) > most {
		end.Output = bounded(end.Output, most)
		ev, payload = end, sp.encode(end)
	}
	if len(payload) > most {
		return nil, nil, &plugins.Error{Code: "event_too_large", Message: fmt.Sprintf("An event may hold %d bytes", most)}
	}
	sp.output = nil
	if t, ok := ev.(callResult); ok {
		ev, sp.output = t.ToolCallResult, t.output
	}
	return ev, payload, nil
}

// stageStored stages an event of the run that has the stored form payload. A call that ends without arguments gets {} before its end,
// because clients and models parse them.
func (sp *span) stageStored(it *commit.Item, ev agui.Event, payload []byte) error {
	if err := sp.ver.AddStored(ev, payload); err != nil {
		return &plugins.Error{Code: "illegal_event", Message: err.Error()}
	}
	if end, ok := ev.(agui.ToolCallEnd); ok && sp.fold.Arguments(end.ToolCallID) == "" {
		base := agui.Base{Agent: end.Agent, SubagentRunID: end.SubagentRunID}
		args, encoded, err := sp.stored(agui.ToolCallArgs{Base: base, ToolCallID: end.ToolCallID, Delta: "{}"}, sp.most)
		if err != nil {
			return err
		}
		if err := sp.add(it, args, encoded); err != nil {
			return err
		}
	}
	return sp.add(it, ev, payload)
}

// add adds a legal event that has the stored form payload to the item.
func (sp *span) add(it *commit.Item, ev agui.Event, payload []byte) error {
	changed, err := sp.apply(ev)
	if err != nil {
		return &plugins.Error{Code: "illegal_event", Message: err.Error()}
	}
	sp.last++
	sp.kind, sp.at = ev.Type(), time.Now()
	sp.number(ev, changed)
	rec := tail.NewRecord(sp.last, sp.runKey, ev, len(payload))
	it.Records = append(it.Records, rec)
	it.Events = append(it.Events, data.StoredEvent{
		ThreadKey: sp.thread.Key, ID: sp.last, RunKey: sp.runKey, Kind: ev.Type(), Payload: payload,
	})
	if ev.Type() == agui.TypeMessagesSnapshot {
		return nil // it repeats messages that already have rows
	}
	for _, id := range changed {
		row := sp.message(id)
		if isCut(ev) && len(row.ToolCalls) == 0 {
			row.State, sp.messages[id].State = data.MessageHidden, data.MessageHidden
			sp.cut = append(sp.cut, id)
		}
		it.Rows = append(it.Rows, row)
	}
	if ev, ok := ev.(agui.Custom); ok {
		sp.hide(it, agui.RetractedBy(ev))
		if c, ok := agui.ModelCallOf(ev); ok && c.Status == agui.ModelInterrupted {
			it.Rows = append(it.Rows, &data.PromptEnd{RunKey: sp.runKey, ID: c.ID, PromptResult: data.PromptResult{Status: c.Status}})
		}
	}
	return nil
}

// apply folds the event that was encoded last.
func (sp *span) apply(ev agui.Event) ([]string, error) {
	output := sp.output
	sp.output = nil // the record of the call keeps it
	if e, ok := ev.(agui.ToolCallResult); ok {
		return sp.fold.Result(e, output)
	}
	return sp.fold.Apply(ev)
}

// isCut reports whether ev ends a text that a crash has cut short, or that its worker retracts. The text is hidden, unless
// it carries calls: they were made, and are not made again.
func isCut(ev agui.Event) bool {
	end, ok := ev.(agui.TextMessageEnd)
	return ok && end.Output != nil && end.Output.Status == agui.StatusFailed && end.Output.Error != nil && end.Output.Error.Code == codeInterrupted
}

// bounded returns an output that fits into an event of so many bytes. It cuts a long answer, because the message's deltas
// have all of it, and drops the other members if they are still too large.
func bounded(out *agui.WorkerOutput, event int) *agui.WorkerOutput {
	if out == nil {
		return nil
	}
	short := *out
	most := answerBytes(event)
	short.Answer = data.Clip(short.Answer, most)
	if len(data.MustJSON(&short)) > event-most {
		short = agui.WorkerOutput{Status: short.Status, Answer: short.Answer, Error: short.Error}
	}
	return &short
}

// answerBytes is the length of an answer that certainly fits into an event of so many bytes beside the rest: a character has
// at most six bytes as JSON.
func answerBytes(event int) int { return min(1<<20, event/7) }

// encode appends ev's stored form to a slab, so that many small payloads share an allocation. Slabs grow while the run fills each within
// an instant: thousands of runs that write at the speed of models have small ones.
func (sp *span) encode(ev agui.Event) []byte {
	if cap(sp.slab)-len(sp.slab) < 256 {
		size, now := 1<<10, time.Now()
		if now.Sub(sp.slabbed) < 10*time.Millisecond {
			size = min(max(2*cap(sp.slab), size), 8<<10)
		}
		sp.slab, sp.slabbed = make([]byte, 0, size), now
	}
	from := len(sp.slab)
	slab := ev.AppendJSON(sp.slab, agui.Stored)
	payload := slab[from:len(slab):len(slab)]
	if sp.slab = slab; cap(slab) > maxSlab { // a large event has a slab alone: a shared one would stay in memory for as long as the run writes
		sp.slab = nil
	}
	return payload
}

// maxSlab is the maximum size of a slab that later events share.
const maxSlab = 64 << 10

// number numbers the messages that ev begins or has changed. It depends only on the log, so that a reader of a span numbers
// its messages like the writer.
func (sp *span) number(ev agui.Event, changed []string) {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		sp.begin(e.MessageID)
	case agui.ReasoningMessageStart:
		sp.begin(e.MessageID)
	case agui.ToolCallStart:
		sp.reserve(e.ParentMessageID)
		sp.reserve(e.ToolCallID) // the id of the message the fold makes where there is no parent
	case agui.MessagesSnapshot:
		return
	}
	for _, id := range changed {
		sp.reserve(id)
	}
}

// reserve gives a message its seq when it begins: messages are in the order in which they began, as in clients, and not in
// the order in which parallel workers complete them. The same clock sets the message's day in the history at the same
// moment, so that seqs rise over the days: a message that had to wait does not have the day on which it was accepted.
func (sp *span) reserve(id string) {
	if m := sp.messages[id]; m != nil && m.Seq != 0 {
		return
	}
	msg, ok := sp.fold.Message(id)
	if !ok {
		return
	}
	if m := sp.rowOf(id); m.Seq == 0 {
		sp.seq++
		m.Seq = sp.seq
		if msg.Role != agui.RoleReasoning && msg.Role != agui.RoleActivity {
			m.Day = time.Now().UTC().Truncate(24 * time.Hour)
		}
	}
}

// begin reserves the number of a message. A message that a crash has cut short is shown again when its worker continues it
// under the same id.
func (sp *span) begin(id string) {
	sp.reserve(id)
	if m := sp.rowOf(id); m.State == data.MessageHidden {
		m.State = data.MessageConsumed
	}
}

// rowOf returns the row of a message, a new one if it has none.
func (sp *span) rowOf(id string) *data.Message {
	m := sp.messages[id]
	if m == nil {
		m = &data.Message{ThreadKey: sp.thread.Key, RunKey: sp.runKey}
		sp.messages[id] = m
	}
	return m
}

// message returns the row of a message in its current form in the log.
func (sp *span) message(id string) *data.Message {
	m := sp.rowOf(id)
	if m.EventID == 0 {
		m.EventID, m.State = sp.last, data.MessageConsumed
	}
	if msg, ok := sp.fold.Message(id); ok {
		if m.Encoded != nil && !reflect.DeepEqual(m.Message, msg) { // else a large message would be encoded again, in the transaction
			m.Encoded = nil
		}
		m.Message = msg
	} else {
		m.State = data.MessageHidden // an activity that was replaced
	}
	row := *m
	m.Encoded = nil // it is large, and the span lasts as long as the run
	return &row
}

// take stages messages that were appended meanwhile, each as its own text message.
func (sp *span) take(it *commit.Item, msgs []data.Message) error {
	for i := range msgs {
		m := &msgs[i]
		sp.messages[m.ID] = m
		text := m.Text()
		evs := []agui.Event{agui.TextMessageStart{MessageID: m.ID, Role: m.Role}}
		if text != "" {
			evs = append(evs, agui.TextMessageContent{MessageID: m.ID, Delta: text})
		}
		evs = append(evs, agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text}})
		for _, ev := range evs {
			if err := sp.stage(it, ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofItsCall overwrites the name, id and arguments in a result that a worker emits with those of its call. Other arguments would look like
// an approver's edit.
func (sp *span) ofItsCall(ev agui.Event) agui.Event {
	e, ok := ev.(agui.ToolCallResult)
	if !ok || e.Output == nil {
		return ev
	}
	out := *e.Output
	out.ToolName, out.ToolCallID, out.ToolCallArgs = sp.calls[e.ToolCallID], e.ToolCallID, argsOf(json.RawMessage(sp.fold.Arguments(e.ToolCallID)))
	e.Output = &out
	return e
}

// started stages the RUN_STARTED of a span with the messages that are new to the thread, the answers that the span takes, and the id
// of the trace that the run belongs to: see Input.Trace.
func (sp *span) started(it *commit.Item, run *data.Run, msgs []data.Message, answers []agui.ResumeEntry, trace string) error {
	in := &agui.RunAgentInput{ThreadID: sp.thread.ID, RunID: sp.runID, Resume: answers}
	for i := range msgs {
		sp.messages[msgs[i].ID] = &msgs[i]
		in.Messages, in.Encoded = append(in.Messages, msgs[i].Message), append(in.Encoded, msgs[i].Stored())
	}
	defer func() { in.Encoded = nil }() // the record is kept
	ev := agui.RunStarted{AgentID: run.WorkflowID, ProtocolVersion: "1.0", Input: in}
	if sp.runID != run.ID {
		ev.ParentRunID = run.ID
	} else {
		ev.ParentRunID = run.ParentRun
	}
	ev.Agent = run.WorkflowID
	if id := traceID(trace); id != "" {
		ev.Metadata = data.MustJSON(map[string]string{"traceId": id})
	}
	return sp.stage(it, ev)
}

// failedCall returns the result of a call that gets no other.
func failedCall(id, name, code string) agui.ToolCallResult {
	summary := "The call was interrupted before it returned"
	if code == codeCancelled {
		summary = "The call was cancelled before it returned"
	}
	out := agui.ToolOutput{
		ToolName: name, ToolCallID: id, Status: agui.StatusFailure, ResultSummary: summary,
		Error: &agui.OutputError{Code: code, Message: summary},
	}
	return agui.ToolCallResult{MessageID: data.NewID(), ToolCallID: id, Content: summary, Output: &out}
}

// failedCall is failedCall for a call of the run. If the call has begun with arguments that a person has edited, the result
// has them: the call may have had its effect. l.mu is held if l is shared.
func (l *live) failedCall(id, code string) agui.ToolCallResult {
	result := failedCall(id, l.span.calls[id], code)
	result.Output.ToolCallArgs = argsOf(l.journal.Edited(id))
	return result
}

// Codes of early ends.
const (
	codeCancelled   = "cancelled"
	codeInterrupted = "interrupted"
	codeTooMany     = "too_many_events"
	codeTooLarge    = "messages_too_large"
	codeUnstored    = "storage_error"
)

// hide adds the rows that hide retracted messages: of the run, and the messages of people in earlier runs that a guard has refused.
func (sp *span) hide(it *commit.Item, ids []string) {
	for _, id := range ids {
		sp.retracted[id] = true
		sp.cut = slices.DeleteFunc(sp.cut, func(cut string) bool { return cut == id })
		if m := sp.messages[id]; m != nil {
			if m.EventID == 0 || m.State != data.MessageConsumed {
				continue
			}
			m.State = data.MessageHidden
		}
		it.Rows = append(it.Rows, &data.Hide{ThreadKey: sp.thread.Key, ID: id})
	}
}
