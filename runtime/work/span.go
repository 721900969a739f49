package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/monitor"
)

// span is a span of a run: it verifies, numbers, encodes and folds the events of the run. The run's owner has the one span that is open;
// the run's mutex guards it.
type span struct {
	row      model.Span
	thread   *model.Thread
	run      *monitor.Run // by its name in this span
	most     int          // bytes of an event
	last     int64        // the id of the last event
	kind     agui.Type    // of that event, empty before the first
	at       time.Time    // when it was made
	seq      int64        // of the thread's last message
	ver      *agui.Verifier
	fold     *fold.Fold
	messages map[string]*model.Message // of this run, those with a seq or waiting for one
	calls    map[string]string         // the tools of calls that may still owe a result, by toolCallId
	slab     []byte                    // room for payloads
	output   []byte                    // what the event that was encoded last has as its Output, where that is a told

	began     began           // where the run's generation began
	brought   map[string]bool // messages that the generation was asked with or has found, by id
	retracted map[string]bool // messages that the span had taken back when it was read back, by id
}

// began is where a generation of a run began: what its workers are asked when they are called again.
type began struct {
	state json.RawMessage // the thread's
	upTo  int64           // the event up to which messages belong to the prompt
	shows []int64         // the runs whose messages it has shown again
}

// nextSpan returns a run's next span, which begins behind the event last and the message seq.
func (en *Engine) nextSpan(th *model.Thread, run *model.Run, last, seq int64) *span {
	return en.openSpan(th, run, &model.Span{
		RunKey: run.Key, N: run.Spans + 1, ThreadKey: th.Key, RunID: cmp.Or(run.SpanName, run.ID),
		Generation: run.Generation, First: last + 1, State: th.State,
	}, last, seq)
}

// openSpan returns a span that goes on behind the event last and the message seq.
func (en *Engine) openSpan(th *model.Thread, run *model.Run, row *model.Span, last, seq int64) *span {
	sp := spanOf(th, &monitor.Run{
		Key: run.Key, Project: th.Project, User: th.User, ID: row.RunID, ThreadID: th.ID, Agent: run.WorkflowID,
	}, en.cfg.FrameBytes, last, seq)
	sp.row = *row
	return sp
}

func spanOf(th *model.Thread, run *monitor.Run, most int, last, seq int64) *span {
	return &span{
		thread: th, run: run, most: most, last: last, seq: seq,
		ver: new(agui.Verifier), fold: fold.New(th.State, nil), messages: make(map[string]*model.Message), calls: make(map[string]string),
	}
}

// state is the thread's state as the run has left it.
func (sp *span) state() json.RawMessage { return sp.fold.State() }

// newState is the state that the run leaves its thread in, nil for the one that the thread has.
func (sp *span) newState() json.RawMessage {
	if state := sp.state(); string(state) != string(sp.thread.State) {
		return state
	}
	return nil
}

// stage gives ev the next id and adds it to it, with the message rows it completes. It refuses an event
// that is illegal now and then changes nothing.
func (sp *span) stage(it *commit.Item, ev agui.Event) error {
	ev, payload, err := sp.stored(ev, sp.most)
	if err != nil {
		return err
	}
	return sp.stageStored(it, ev, payload)
}

// stored returns ev as an event of the run, and its stored form, of which most bytes are taken.
func (sp *span) stored(ev agui.Event, most int) (agui.Event, []byte, error) {
	if base := ev.Common(); base.ThreadID != sp.thread.ID || base.RunID != sp.run.ID {
		base.ThreadID, base.RunID = sp.thread.ID, sp.run.ID
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
	if t, ok := ev.(told); ok {
		ev, sp.output = t.ToolCallResult, t.output
	}
	return ev, payload, nil
}

// stageStored is stage for an event of the run whose stored form is payload.
func (sp *span) stageStored(it *commit.Item, ev agui.Event, payload []byte) error {
	if err := sp.ver.AddStored(ev, payload); err != nil {
		return &plugins.Error{Code: "illegal_event", Message: err.Error()}
	}
	changed, err := sp.apply(ev)
	if err != nil {
		return &plugins.Error{Code: "illegal_event", Message: err.Error()}
	}
	sp.last++
	sp.kind, sp.at = ev.Type(), time.Now()
	sp.number(ev, changed)
	rec := log.NewRecord(sp.last, sp.run.Key, ev, len(payload))
	it.Run = sp.run
	it.Records = append(it.Records, rec)
	it.Events = append(it.Events, model.StoredEvent{
		ThreadKey: sp.thread.Key, ID: sp.last, RunKey: sp.run.Key, Kind: ev.Type(), Payload: payload,
	})
	if ev.Type() == agui.TypeMessagesSnapshot {
		return nil // ours alone: it says again what rows already hold
	}
	for _, id := range changed {
		row := sp.message(id)
		if isCut(ev) && len(row.ToolCalls) == 0 {
			row.State, sp.messages[id].State = model.MessageHidden, model.MessageHidden
		}
		it.Rows = append(it.Rows, row)
	}
	if ev, ok := ev.(agui.Custom); ok {
		sp.hide(it, agui.RetractedBy(ev))
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

// isCut reports whether ev ends a text that a crash has cut short, or that its worker takes back. It is not shown any
// more, but for the calls that it carries: they were made, and are not made again.
func isCut(ev agui.Event) bool {
	end, ok := ev.(agui.TextMessageEnd)
	return ok && end.Output != nil && end.Output.Status == agui.StatusFailed && end.Output.Error != nil && end.Output.Error.Code == codeInterrupted
}

// bounded is an output that fits into an event of so many bytes: a long answer is cut, as its message's deltas tell all of it,
// and what is still too large is left out.
func bounded(out *agui.WorkerOutput, event int) *agui.WorkerOutput {
	if out == nil {
		return nil
	}
	short := *out
	most := answerBytes(event)
	short.Answer = clip(short.Answer, most)
	if len(mustJSON(&short)) > event-most {
		short = agui.WorkerOutput{Status: short.Status, Answer: short.Answer, Error: short.Error}
	}
	return &short
}

// answerBytes is how much of an answer is kept where the whole would not fit into an event of so many bytes, for sure: a
// character has six bytes at most as JSON.
func answerBytes(event int) int { return min(1<<20, event/7) }

// encode appends ev's stored form to a slab, so that many small payloads share an allocation. Slabs grow with what the
// run says, as most runs say little.
func (sp *span) encode(ev agui.Event) []byte {
	if cap(sp.slab)-len(sp.slab) < 512 {
		sp.slab = make([]byte, 0, min(max(2*cap(sp.slab), 2<<10), 8<<10))
	}
	from := len(sp.slab)
	slab := ev.AppendJSON(sp.slab, agui.Stored)
	payload := slab[from:len(slab):len(slab)]
	if sp.slab = slab; cap(slab) > maxSlab { // a large event has it alone: with others it would be kept for as long as the run writes
		sp.slab = nil
	}
	return payload
}

// maxSlab is how large a slab may have grown for an event that others share.
const maxSlab = 64 << 10

// number gives the messages that ev begins, or has changed, their numbers. It asks nothing but the log, so that who reads
// a span back numbers its messages as who wrote it has.
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

// reserve gives a message that begins its seq: messages stand in the order in which they began, as clients keep
// them, and not in that in which parallel workers complete them. Its day in the history is told by the same clock
// at the same moment, so that seqs rise over the days: that of a message which had to wait is not the one on which
// it was accepted.
func (sp *span) reserve(id string) {
	if m := sp.messages[id]; m != nil && m.Seq != 0 {
		return
	}
	msg, ok := sp.fold.Message(id)
	if !ok {
		return
	}
	if m := sp.known(id); m.Seq == 0 {
		sp.seq++
		m.Seq = sp.seq
		if msg.Role != agui.RoleReasoning && msg.Role != agui.RoleActivity {
			m.Day = time.Now().UTC().Truncate(24 * time.Hour)
		}
	}
}

// begin reserves the number of a message. One that a crash has cut short, and that its worker goes on with under the same
// id, is shown again.
func (sp *span) begin(id string) {
	sp.reserve(id)
	if m := sp.known(id); m.State == model.MessageHidden {
		m.State = model.MessageConsumed
	}
}

// known is what is known of a message's row.
func (sp *span) known(id string) *model.Message {
	m := sp.messages[id]
	if m == nil {
		m = &model.Message{ThreadKey: sp.thread.Key, RunKey: sp.run.Key}
		sp.messages[id] = m
	}
	return m
}

// message is the row of a message as the log now tells it.
func (sp *span) message(id string) *model.Message {
	m := sp.known(id)
	if m.EventID == 0 {
		m.EventID, m.State = sp.last, model.MessageConsumed
	}
	if msg, ok := sp.fold.Message(id); ok {
		m.Message, m.Encoded = msg, nil
	} else {
		m.State = model.MessageHidden // an activity that was replaced
	}
	row := *m
	return &row
}

// take stages messages that were appended meanwhile, each as a text message of its own.
func (sp *span) take(it *commit.Item, msgs []model.Message) error {
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

// started stages the RUN_STARTED of a span with the messages that are new to the thread, the answers that the span takes, and the id
// of the trace that the run belongs to: see Input.Trace.
func (sp *span) started(it *commit.Item, run *model.Run, msgs []model.Message, answers []agui.ResumeEntry, trace string) error {
	in := &agui.RunAgentInput{ThreadID: sp.thread.ID, RunID: sp.run.ID, Resume: answers}
	for i := range msgs {
		sp.messages[msgs[i].ID] = &msgs[i]
		in.Messages, in.Encoded = append(in.Messages, msgs[i].Message), append(in.Encoded, msgs[i].Stored())
	}
	defer func() { in.Encoded = nil }() // the record is kept
	ev := agui.RunStarted{AgentID: run.WorkflowID, ProtocolVersion: "1.0", Input: in}
	if sp.run.ID != run.ID {
		ev.ParentRunID = run.ID
	} else {
		ev.ParentRunID = run.ParentRun
	}
	ev.Agent = run.WorkflowID
	if parts := strings.Split(trace, "-"); len(parts) == 4 {
		ev.Metadata = mustJSON(map[string]string{"traceId": parts[1]})
	}
	return sp.stage(it, ev)
}

// failedCall is the result of a call that nobody will answer any more.
func failedCall(id, name, code string) agui.ToolCallResult {
	summary := "The call was interrupted before it returned"
	if code == codeCancelled {
		summary = "The call was cancelled before it returned"
	}
	out := agui.ToolOutput{
		ToolName: name, ToolCallID: id, Status: agui.StatusFailure, ResultSummary: summary,
		Error: &agui.OutputError{Code: code, Message: summary},
	}
	return agui.ToolCallResult{MessageID: NewID(), ToolCallID: id, Content: summary, Output: &out}
}

// failedCall is failedCall for a call of the run's. One that has begun with arguments which a person has edited says so: it may have
// done what it does. l.mu is held, if others know l.
func (l *live) failedCall(id, code string) agui.ToolCallResult {
	result := failedCall(id, l.span.calls[id], code)
	result.Output.ToolCallArgs = argsOf(l.journal.edited(id))
	return result
}

// Codes of what ended early.
const (
	codeCancelled   = "cancelled"
	codeInterrupted = "interrupted"
	codeTooMany     = "too_many_events"
	codeTooLarge    = "messages_too_large"
	codeUnstored    = "storage_error"
)
