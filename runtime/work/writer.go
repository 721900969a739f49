package work

import (
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

// writer numbers, encodes and folds the events of one run in one span. Whoever owns the run has the one
// writer; it is not safe for concurrent use.
type writer struct {
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
	slab     []byte                    // room for payloads
	output   []byte                    // what the event that was encoded last has as its Output, where that is a told
}

func (en *Engine) newWriter(th *model.Thread, run *model.Run, runID string, last, seq int64) *writer {
	return writerOf(th, &monitor.Run{
		Key: run.Key, Project: th.Project, User: th.User, ID: runID, ThreadID: th.ID, Agent: run.WorkflowID,
	}, en.cfg.FrameBytes, last, seq)
}

func writerOf(th *model.Thread, run *monitor.Run, most int, last, seq int64) *writer {
	return &writer{
		thread: th, run: run, most: most, last: last, seq: seq,
		ver: new(agui.Verifier), fold: fold.New(th.State, nil), messages: make(map[string]*model.Message),
	}
}

// stage gives ev the next id and adds it to it, with the message rows it completes. It refuses an event
// that is illegal now and then changes nothing.
func (w *writer) stage(it *commit.Item, ev agui.Event) error {
	ev, payload, err := w.stored(ev, w.most)
	if err != nil {
		return err
	}
	return w.stageStored(it, ev, payload)
}

// stored returns ev as an event of the run, and its stored form, of which most bytes are taken.
func (w *writer) stored(ev agui.Event, most int) (agui.Event, []byte, error) {
	if base := ev.Common(); base.ThreadID != w.thread.ID || base.RunID != w.run.ID {
		base.ThreadID, base.RunID = w.thread.ID, w.run.ID
		ev = ev.WithCommon(base)
	}
	ev = agui.At(time.Now(), ev)
	payload := w.encode(ev)
	if end, ok := ev.(agui.TextMessageEnd); ok && len(payload) > most {
		end.Output = bounded(end.Output, most)
		ev, payload = end, w.encode(end)
	}
	if len(payload) > most {
		return nil, nil, &plugins.Error{Code: "event_too_large", Message: fmt.Sprintf("An event may hold %d bytes", most)}
	}
	w.output = nil
	if t, ok := ev.(told); ok {
		ev, w.output = t.ToolCallResult, t.output
	}
	return ev, payload, nil
}

// stageStored is stage for an event of the run whose stored form is payload.
func (w *writer) stageStored(it *commit.Item, ev agui.Event, payload []byte) error {
	if err := w.ver.AddStored(ev, payload); err != nil {
		return &plugins.Error{Code: "illegal_event", Message: err.Error()}
	}
	changed, err := w.apply(ev)
	if err != nil {
		return &plugins.Error{Code: "illegal_event", Message: err.Error()}
	}
	w.last++
	w.kind, w.at = ev.Type(), time.Now()
	w.number(ev, changed)
	rec := log.NewRecord(w.last, w.run.Key, ev, len(payload))
	it.Run = w.run
	it.Records = append(it.Records, rec)
	it.Events = append(it.Events, model.StoredEvent{
		ThreadKey: w.thread.Key, ID: w.last, RunKey: w.run.Key, Kind: ev.Type(), Payload: payload,
	})
	if ev.Type() == agui.TypeMessagesSnapshot {
		return nil // ours alone: it says again what rows already hold
	}
	for _, id := range changed {
		row := w.message(id)
		if isCut(ev) && len(row.ToolCalls) == 0 {
			row.State, w.messages[id].State = model.MessageHidden, model.MessageHidden
		}
		it.Rows = append(it.Rows, row)
	}
	if ev, ok := ev.(agui.Custom); ok {
		w.hide(it, agui.RetractedBy(ev))
	}
	return nil
}

// apply folds the event that was encoded last.
func (w *writer) apply(ev agui.Event) ([]string, error) {
	output := w.output
	w.output = nil // the record of the call keeps it
	if e, ok := ev.(agui.ToolCallResult); ok {
		return w.fold.Result(e, output)
	}
	return w.fold.Apply(ev)
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
func (w *writer) encode(ev agui.Event) []byte {
	if cap(w.slab)-len(w.slab) < 512 {
		w.slab = make([]byte, 0, min(max(2*cap(w.slab), 2<<10), 8<<10))
	}
	from := len(w.slab)
	slab := ev.AppendJSON(w.slab, agui.Stored)
	payload := slab[from:len(slab):len(slab)]
	if w.slab = slab; cap(slab) > maxSlab { // a large event has it alone: with others it would be kept for as long as the run writes
		w.slab = nil
	}
	return payload
}

// maxSlab is how large a slab may have grown for an event that others share.
const maxSlab = 64 << 10

// number gives the messages that ev begins, or has changed, their numbers. It asks nothing but the log, so that who reads
// a span back numbers its messages as who wrote it has.
func (w *writer) number(ev agui.Event, changed []string) {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		w.begin(e.MessageID)
	case agui.ReasoningMessageStart:
		w.begin(e.MessageID)
	case agui.ToolCallStart:
		w.reserve(e.ParentMessageID)
		w.reserve(e.ToolCallID) // the id of the message the fold makes where there is no parent
	case agui.MessagesSnapshot:
		return
	}
	for _, id := range changed {
		w.reserve(id)
	}
}

// reserve gives a message that begins its seq: messages stand in the order in which they began, as clients keep
// them, and not in that in which parallel workers complete them. Its day in the history is told by the same clock
// at the same moment, so that seqs rise over the days: that of a message which had to wait is not the one on which
// it was accepted.
func (w *writer) reserve(id string) {
	if m := w.messages[id]; m != nil && m.Seq != 0 {
		return
	}
	msg, ok := w.fold.Message(id)
	if !ok {
		return
	}
	if m := w.known(id); m.Seq == 0 {
		w.seq++
		m.Seq = w.seq
		if msg.Role != agui.RoleReasoning && msg.Role != agui.RoleActivity {
			m.Day = time.Now().UTC().Truncate(24 * time.Hour)
		}
	}
}

// begin reserves the number of a message. One that a crash has cut short, and that its worker goes on with under the same
// id, is shown again.
func (w *writer) begin(id string) {
	w.reserve(id)
	if m := w.known(id); m.State == model.MessageHidden {
		m.State = model.MessageConsumed
	}
}

// known is what is known of a message's row.
func (w *writer) known(id string) *model.Message {
	m := w.messages[id]
	if m == nil {
		m = &model.Message{ThreadKey: w.thread.Key, RunKey: w.run.Key}
		w.messages[id] = m
	}
	return m
}

// message is the row of a message as the log now tells it.
func (w *writer) message(id string) *model.Message {
	m := w.known(id)
	if m.EventID == 0 {
		m.EventID, m.State = w.last, model.MessageConsumed
	}
	if msg, ok := w.fold.Message(id); ok {
		m.Message, m.Encoded = msg, nil
	} else {
		m.State = model.MessageHidden // an activity that was replaced
	}
	row := *m
	return &row
}

// take stages messages that were appended meanwhile, each as a text message of its own.
func (w *writer) take(it *commit.Item, msgs []model.Message) error {
	for i := range msgs {
		m := &msgs[i]
		w.messages[m.ID] = m
		text := m.Text()
		evs := []agui.Event{agui.TextMessageStart{MessageID: m.ID, Role: m.Role}}
		if text != "" {
			evs = append(evs, agui.TextMessageContent{MessageID: m.ID, Delta: text})
		}
		evs = append(evs, agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text}})
		for _, ev := range evs {
			if err := w.stage(it, ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// started stages the RUN_STARTED of a span with the messages that are new to the thread, the answers that the span takes, and the id
// of the trace that the run belongs to: see Input.Trace.
func (w *writer) started(it *commit.Item, run *model.Run, msgs []model.Message, answers []agui.ResumeEntry, trace string) error {
	in := &agui.RunAgentInput{ThreadID: w.thread.ID, RunID: w.run.ID, Resume: answers}
	for i := range msgs {
		w.messages[msgs[i].ID] = &msgs[i]
		in.Messages, in.Encoded = append(in.Messages, msgs[i].Message), append(in.Encoded, msgs[i].Stored())
	}
	defer func() { in.Encoded = nil }() // the record is kept
	ev := agui.RunStarted{AgentID: run.WorkflowID, ProtocolVersion: "1.0", Input: in}
	if w.run.ID != run.ID {
		ev.ParentRunID = run.ID
	} else {
		ev.ParentRunID = run.ParentRun
	}
	ev.Agent = run.WorkflowID
	if parts := strings.Split(trace, "-"); len(parts) == 4 {
		ev.Metadata = mustJSON(map[string]string{"traceId": parts[1]})
	}
	return w.stage(it, ev)
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
	result := failedCall(id, l.calls[id], code)
	if m := l.memos[l.owing[id]]; m != nil && m.Begun {
		approval := memoKey{m.Step, plugins.Use{Place: m.Place}.Inside(approvalPlace)}
		result.Output.ToolCallArgs = argsOf(editedBy(l.memos[approval]))
	}
	return result
}

// Codes of what ended early.
const (
	codeCancelled   = "cancelled"
	codeInterrupted = "interrupted"
	codeTooMany     = "too_many_events"
	codeTooLarge    = "messages_too_large"
)
