package log

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Snapshot is a thread as of one of its events: what a viewer needs who reads on behind it.
type Snapshot struct {
	After    int64           // the id of that event, which is stored; 0 for an empty log
	Run      *model.Run      // the RUNNING or WAITING run, else the latest that wrote; nil when the thread has had none
	RunID    string          // the name Run has in its latest span
	Running  bool            // a span of Run is open
	State    json.RawMessage // an object
	Messages []agui.Message  // those that are open as they are so far; the newest that fit 8 MB
	Open     []agui.Event    // events that open again what is open, outermost first; none unless Running
	Outcome  agui.Outcome    // what Run waits for, zero unless it is WAITING
}

// RunSnapshot is a thread as of the last event of a run's latest span, or as it is now while the run is at work.
type RunSnapshot struct {
	Snapshot
	Started *Record // the span's RUN_STARTED; nil when the run has none, or it was removed
	Ended   *Record // its terminal event; nil while the run is at work, or when it was removed
}

// ErrChanged means that a thread has changed while a snapshot was made of it. There is another to be had once it has changed
// again.
var ErrChanged = errors.New("the thread has changed meanwhile")

// Settled returns a thread on which no span is open. It fails with ErrChanged when one is, or was opened meanwhile.
func (t *Tail) Settled(ctx context.Context) (Snapshot, error) {
	store := t.logs.cfg.Store
	th, err := store.Thread(ctx, t.key)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{After: th.LastEventID, State: th.State}
	if s.Run, s.RunID, err = t.shownRun(ctx, s.After); err != nil {
		return s, err
	}
	if s.Run != nil && s.Run.Status == model.Waiting {
		if s.Outcome, err = Outcome(ctx, store, s.Run.Key); err != nil {
			return s, err
		}
	}
	rows, err := store.Messages(ctx, t.key, s.After, LatestMessages)
	if err != nil {
		return s, err
	}
	s.Messages = Newest(Contents(rows), t.logs.cfg.EventBytes)
	last, err := store.LastEventID(ctx, t.key)
	if err == nil && last != s.After {
		err = ErrChanged
	}
	return s, err
}

// shownRun is the run that stands for a thread on which none is running, and the name of its latest span.
func (t *Tail) shownRun(ctx context.Context, last int64) (*model.Run, string, error) {
	store := t.logs.cfg.Store
	open, err := store.OpenRuns(ctx, t.key)
	if err != nil {
		return nil, "", err
	}
	var key int64
	name := ""
	if i := slices.IndexFunc(open, func(r model.RunHead) bool { return r.Status == model.Waiting }); i >= 0 {
		run, err := store.Run(ctx, open[i].Key)
		if err != nil {
			return nil, "", err
		}
		spans, err := store.Spans(ctx, run.Key)
		if err != nil || len(spans) == 0 {
			return &run, run.ID, err
		}
		return &run, spans[len(spans)-1].RunID, nil
	}
	evs, err := store.Events(ctx, t.key, max(last-1, 0), 1)
	if err != nil {
		return nil, "", err
	}
	if len(evs) > 0 {
		key, name = evs[0].RunKey, evs[0].RunID
	}
	run, err := store.Run(ctx, key)
	if errors.Is(err, model.ErrNotFound) { // its events were removed
		run, err = store.LastRun(ctx, t.key)
		name = run.ID
	}
	if errors.Is(err, model.ErrNotFound) {
		return nil, "", nil
	}
	return &run, name, err
}

// OfRun returns the thread as the latest span of one of its runs left it, or while that is open what now returns. Of a run
// that has not started yet it returns one without anything.
func (t *Tail) OfRun(ctx context.Context, run *model.Run, now func(context.Context) (Snapshot, error)) (RunSnapshot, error) {
	s := RunSnapshot{Snapshot: Snapshot{Run: run, RunID: run.ID}}
	spans, err := t.logs.cfg.Store.Spans(ctx, run.Key)
	if err == nil && len(spans) == 0 && run.Status.Final() && run.ClosedEvent > 0 { // its events were removed
		s.After = run.ClosedEvent
		s.State, s.Messages, err = t.at(ctx, run.ClosedEvent)
	}
	if err != nil || len(spans) == 0 {
		return s, err
	}
	span := &spans[len(spans)-1]
	if span.Last == 0 {
		if s.Snapshot, err = now(ctx); err != nil {
			return s, err
		}
	} else {
		s.After, s.RunID = span.Last, span.RunID
		if s.State, s.Messages, err = t.at(ctx, span.Last); err != nil {
			return s, err
		}
		if s.Ended, err = t.record(ctx, span.Last); err != nil {
			return s, err
		}
	}
	s.Started, err = t.record(ctx, span.First)
	return s, err
}

// at is the thread's state and messages as of an event.
func (t *Tail) at(ctx context.Context, event int64) (json.RawMessage, []agui.Message, error) {
	store := t.logs.cfg.Store
	var state json.RawMessage
	span, err := store.SpanAfter(ctx, t.key, event)
	switch {
	case err == nil:
		state = span.State
	case errors.Is(err, model.ErrNotFound):
		th, err := store.Thread(ctx, t.key)
		if err != nil {
			return nil, nil, err
		}
		state = th.State
		if span, err = store.SpanAfter(ctx, t.key, event); err == nil { // it may be of a run that has begun meanwhile
			state = span.State
		} else if !errors.Is(err, model.ErrNotFound) {
			return nil, nil, err
		}
	default:
		return nil, nil, err
	}
	rows, err := store.Messages(ctx, t.key, event, LatestMessages)
	if err != nil {
		return nil, nil, err
	}
	return state, Newest(Contents(rows), t.logs.cfg.EventBytes), nil
}

// behind names the run whose events follow that one, or else the thread's latest run, and its agent: an event that stands for
// those of runs that are gone has these names. Both are empty when the thread has no run.
func (t *Tail) behind(ctx context.Context, event int64) (agui.Base, error) {
	store := t.logs.cfg.Store
	var run model.Run
	span, err := store.SpanAfter(ctx, t.key, event)
	if err == nil {
		run, err = store.Run(ctx, span.RunKey)
		run.ID = span.RunID
	}
	if errors.Is(err, model.ErrNotFound) {
		run, err = store.LastRun(ctx, t.key)
	}
	if errors.Is(err, model.ErrNotFound) {
		err = nil
	}
	return agui.Base{ThreadID: t.id, RunID: run.ID, Agent: run.WorkflowID}, err
}

// record reads one event, nil when it was removed.
func (t *Tail) record(ctx context.Context, id int64) (*Record, error) {
	evs, err := t.logs.cfg.Store.Events(ctx, t.key, id-1, 1)
	if err != nil || len(evs) == 0 || evs[0].ID != id {
		return nil, err
	}
	return decode(&evs[0], t.id)
}

// Outcome is the outcome of a span that ends to wait.
func Outcome(ctx context.Context, r model.ByKey, runKey int64) (agui.Outcome, error) {
	o, err := WaitsFor(ctx, r, runKey)
	o.Type = agui.OutcomeSuccess // a client's tools alone are no interrupt
	if len(o.Interrupts) > 0 {
		o = agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: o.Interrupts}
	}
	return o, err
}

// WaitsFor is what a run waits for: its open questions and frontend calls.
func WaitsFor(ctx context.Context, r model.ByKey, runKey int64) (agui.Outcome, error) {
	all, err := r.Interrupts(ctx, runKey)
	if err != nil {
		return agui.Outcome{}, err
	}
	var o agui.Outcome
	for i := range all {
		switch in := &all[i]; {
		case in.Status != model.InterruptOpen:
		case in.Frontend:
			o.PendingToolCallIDs = append(o.PendingToolCallIDs, in.ID)
		default:
			body, err := Asks(in)
			if err != nil {
				return o, err
			}
			o.Interrupts = append(o.Interrupts, body)
		}
	}
	return o, nil
}

// AllAsked returns what the run asks now, with the calls that its client answers as they are listed.
func AllAsked(ctx context.Context, r model.ByKey, runKey int64) ([]agui.Interrupt, error) {
	all, err := r.Interrupts(ctx, runKey)
	if err != nil {
		return nil, err
	}
	var questions, calls []agui.Interrupt
	for i := range all {
		in := &all[i]
		if in.Status != model.InterruptOpen {
			continue
		}
		asked, err := Asks(in)
		if err != nil {
			return nil, err
		}
		if in.Frontend {
			calls = append(calls, asked)
		} else {
			questions = append(questions, asked)
		}
	}
	return append(questions, calls...), nil
}

// Asks is what an interrupt asks. A call that was made before calls were kept with what they ask tells the tool alone.
func Asks(in *model.Interrupt) (asked agui.Interrupt, err error) {
	if in.Body == nil && in.Frontend {
		return PendingCall(in.ID, in.Tool, nil), nil
	}
	err = json.Unmarshal(in.Body, &asked)
	return asked, err
}

// PendingCall is a call that its client has to answer, as lists of interrupts have it.
func PendingCall(id, tool string, args json.RawMessage) agui.Interrupt {
	return agui.Interrupt{ID: id, Reason: "tool_call", ToolCallID: id, Metadata: CallMetadata("", tool, args)}
}

// maxArgs is how large the arguments of a call are that lists of what waits show; those of larger ones are in the log alone.
const maxArgs = 64 << 10

// CallMetadata is what a question about a call says of it. TanStack AI's client takes one of the kind approval for its own to answer.
func CallMetadata(kind, tool string, args json.RawMessage) json.RawMessage {
	if len(args) > maxArgs || !json.Valid(args) {
		args = nil
	}
	text, err := json.Marshal(struct {
		Kind     string          `json:"kind,omitempty"`
		ToolName string          `json:"toolName"`
		Input    json.RawMessage `json:"input"`
	}{kind, tool, args})
	if err != nil {
		panic(err) // it is made of a string and JSON
	}
	return text
}
