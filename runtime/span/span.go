// Package span is one open span of a run: it judges, numbers, encodes and folds the run's events, and numbers its messages. Only the
// run's owner has an open span. It has no locks: the mutex of a live run guards its Span.
package span

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/tail"
)

// Span is a span of a run.
type Span struct {
	Thread   *data.Thread
	Row      data.Span      // as it was when the span began
	Ver      *agui.Verifier // knows what is open; only the span adds events to it
	Fold     *fold.Fold     // of the events until now; only the span applies events to it
	Began    Began
	Bounds   Bounds // to be set before the first event of a worker
	Messages Messages

	most    int               // maximum bytes of an event
	last    int64             // the id of the last event
	kind    agui.Type         // of that event, empty before the first
	at      time.Time         // when it was made
	calls   map[string]string // the tools of calls that may still owe a result, by toolCallId
	slab    []byte            // room for payloads
	slabbed time.Time         // when slab was made
	output  []byte            // the encoded Output of the event that was encoded last, if that is a Result

	brought   map[string]bool // messages that the generation has received or found, by id
	retracted map[string]bool // messages that the span has retracted, by id
	cut       []string        // messages that were hidden as they ended, and are not retracted yet

	gate     error          // see Shut
	exceeded *plugins.Error // the error of all later events of workers
	owners   owners
	writing  *Worker // with the open text message
}

// Began is the beginning of a run's generation: the input of its workers when they are replayed depends on it.
type Began struct {
	State json.RawMessage // the thread's
	UpTo  int64           // the last event with messages of the prompt
	Shows []int64         // runs with messages that it has shown again
}

// Next returns a run's next span, which begins behind the event last and the message seq. Its events have up to most bytes.
func Next(most int, th *data.Thread, run *data.Run, last, seq int64) *Span {
	return Open(most, th, &data.Span{
		RunKey: run.Key, N: run.Spans + 1, ThreadKey: th.Key, RunID: cmp.Or(run.SpanName, run.ID),
		Generation: run.Generation, First: last + 1, State: th.State,
	}, last, seq)
}

// Open returns a span that goes on behind the event last and the message seq.
func Open(most int, th *data.Thread, row *data.Span, last, seq int64) *Span {
	return &Span{
		Thread: th, Row: *row, most: most, last: last, Ver: new(agui.Verifier), Fold: fold.New(th.State, nil), owners: make(owners),
		Messages: Messages{th.Key, row.RunKey, make(map[string]*data.Message), seq}, calls: make(map[string]string), retracted: make(map[string]bool),
	}
}

// Fork returns a span that continues this one with nothing open, for the events of one command. The command's changes stay in the fork,
// so that the command can be tried again.
func (sp *Span) Fork() *Span {
	next := Open(sp.most, sp.Thread, &sp.Row, sp.last, sp.Messages.seq)
	_ = next.Ver.Add(agui.RunStarted{}) // the span is open
	next.slab = make([]byte, 0, 1<<10)  // usually for a terminal event
	return next
}

// Last returns the id of the last event.
func (sp *Span) Last() int64 { return sp.last }

// Seq returns the number of the thread's last message.
func (sp *Span) Seq() int64 { return sp.Messages.seq }

// LastEvent returns the id, type and time of the last event. The type is empty if the span has written none yet.
func (sp *Span) LastEvent() (id int64, kind agui.Type, at time.Time) { return sp.last, sp.kind, sp.at }

// State returns the thread's state as the run has left it.
func (sp *Span) State() json.RawMessage { return sp.Fold.State() }

// NewState returns the state that the run leaves its thread in, or nil if it has not changed.
func (sp *Span) NewState() json.RawMessage {
	if state := sp.State(); string(state) != string(sp.Thread.State) {
		return state
	}
	return nil
}

// Stage gives events the next ids and adds them to the item, with the message rows they complete. It refuses an event that is
// illegal now, and then changes nothing for it and those behind it.
func (sp *Span) Stage(it *commit.Item, evs ...agui.Event) error {
	for _, ev := range evs {
		ev, payload, err := sp.stored(ev, sp.most)
		if err != nil {
			return err
		}
		if err := sp.Ver.AddStored(ev, payload); err != nil {
			return illegal(err)
		}
		if err := sp.write(it, ev, payload); err != nil {
			return err
		}
	}
	return nil
}

// stored returns ev as an event of the run, and its stored form. It refuses an event of more than most bytes.
func (sp *Span) stored(ev agui.Event, most int) (agui.Event, []byte, error) {
	if base := ev.Common(); base.ThreadID != sp.Thread.ID || base.RunID != sp.Row.RunID {
		base.ThreadID, base.RunID = sp.Thread.ID, sp.Row.RunID
		ev = ev.WithCommon(base)
	}
	ev = agui.At(time.Now(), ev)
	payload := sp.encode(ev)
	if end, ok := ev.(agui.TextMessageEnd); ok && len(payload) > most {
		end.Output = Bounded(end.Output, most)
		ev, payload = end, sp.encode(end)
	}
	if len(payload) > most {
		return nil, nil, &plugins.Error{Code: "event_too_large", Message: fmt.Sprintf("An event may hold %d bytes", most)}
	}
	sp.output = nil
	if t, ok := ev.(Result); ok {
		ev, sp.output = t.ToolCallResult, t.output
	}
	return ev, payload, nil
}

// write adds a legal event with the stored form payload to the item. A call that ends without arguments gets {} before its end, because
// clients and models parse them.
func (sp *Span) write(it *commit.Item, ev agui.Event, payload []byte) error {
	if end, ok := ev.(agui.ToolCallEnd); ok && sp.Fold.Arguments(end.ToolCallID) == "" {
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

// add adds an event to the item.
func (sp *Span) add(it *commit.Item, ev agui.Event, payload []byte) error {
	changed, err := sp.apply(ev)
	if err != nil {
		return illegal(err)
	}
	sp.last++
	sp.kind, sp.at = ev.Type(), time.Now()
	sp.Messages.number(ev, changed, sp.Fold)
	rec := tail.NewRecord(sp.last, sp.Row.RunKey, ev, len(payload))
	it.Records = append(it.Records, rec)
	it.Events = append(it.Events, data.StoredEvent{
		ThreadKey: sp.Thread.Key, ID: sp.last, RunKey: sp.Row.RunKey, Kind: ev.Type(), Payload: payload,
	})
	if ev.Type() == agui.TypeMessagesSnapshot {
		return nil // it repeats messages that already have rows
	}
	for _, id := range changed {
		row := sp.Messages.row(id, sp.last, sp.Fold)
		if IsCut(ev) && len(row.ToolCalls) == 0 {
			row.State, sp.Messages.rows[id].State = data.MessageHidden, data.MessageHidden
			sp.cut = append(sp.cut, id)
		}
		it.Rows = append(it.Rows, row)
	}
	switch ev := ev.(type) {
	case agui.ToolCallStart:
		sp.calls[ev.ToolCallID] = ev.ToolCallName
	case agui.ToolCallResult:
		delete(sp.calls, ev.ToolCallID)
	case agui.Custom:
		sp.hide(it, agui.RetractedBy(ev))
		if c, ok := agui.ModelCallOf(ev); ok && c.Status == agui.ModelInterrupted {
			it.Rows = append(it.Rows, &data.PromptEnd{RunKey: sp.Row.RunKey, ID: c.ID, PromptResult: data.PromptResult{Status: c.Status}})
		}
	}
	return nil
}

// apply folds the event that was encoded last.
func (sp *Span) apply(ev agui.Event) ([]string, error) {
	output := sp.output
	sp.output = nil // the record of the call keeps it
	if e, ok := ev.(agui.ToolCallResult); ok {
		return sp.Fold.Result(e, output)
	}
	return sp.Fold.Apply(ev)
}

// IsCut reports whether ev ends a text that a crash has cut short, or that its worker retracts. The text is hidden, unless
// it carries calls: they were made, and are not made again.
func IsCut(ev agui.Event) bool {
	end, ok := ev.(agui.TextMessageEnd)
	return ok && end.Output != nil && end.Output.Status == agui.StatusFailed && end.Output.Error != nil && end.Output.Error.Code == CodeInterrupted
}

// encode appends ev's stored form to a slab, so that many small payloads share an allocation. Slabs grow while the run fills each within
// an instant: thousands of runs that write at the speed of models have small ones.
func (sp *Span) encode(ev agui.Event) []byte {
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

// Take stages messages that were appended meanwhile, each as its own text message.
func (sp *Span) Take(it *commit.Item, msgs []data.Message) error {
	for i := range msgs {
		m := &msgs[i]
		sp.Messages.rows[m.ID] = m
		text := m.Text()
		evs := []agui.Event{agui.TextMessageStart{MessageID: m.ID, Role: m.Role}}
		if text != "" {
			evs = append(evs, agui.TextMessageContent{MessageID: m.ID, Delta: text})
		}
		evs = append(evs, agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text}})
		if err := sp.Stage(it, evs...); err != nil {
			return err
		}
	}
	return nil
}

// Started stages the RUN_STARTED of a span with the messages that are new to the thread, the answers that the span takes, and the id
// of the trace that the run belongs to, "" for none.
func (sp *Span) Started(it *commit.Item, run *data.Run, msgs []data.Message, answers []agui.ResumeEntry, traceID string) error {
	in := &agui.RunAgentInput{ThreadID: sp.Thread.ID, RunID: sp.Row.RunID, Resume: answers}
	for i := range msgs {
		sp.Messages.rows[msgs[i].ID] = &msgs[i]
		in.Messages, in.Encoded = append(in.Messages, msgs[i].Message), append(in.Encoded, msgs[i].Stored())
	}
	defer func() { in.Encoded = nil }() // the record is kept
	ev := agui.RunStarted{AgentID: run.WorkflowID, ProtocolVersion: "1.0", Input: in}
	if sp.Row.RunID != run.ID {
		ev.ParentRunID = run.ID
	} else {
		ev.ParentRunID = run.ParentRun
	}
	ev.Agent = run.WorkflowID
	if traceID != "" {
		ev.Metadata = data.MustJSON(map[string]string{"traceId": traceID})
	}
	return sp.Stage(it, ev)
}
