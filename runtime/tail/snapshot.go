package tail

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
)

// Snapshot is a thread at one of its events. A viewer continues with the events behind it.
type Snapshot struct {
	After    int64           // id of that stored event; 0 for an empty log
	Run      *data.Run       // the RUNNING or WAITING run, else the run of the last event; nil if the thread has had none
	RunID    string          // Run's id in its latest span
	Running  bool            // a span of Run is open
	State    json.RawMessage // an object
	Messages []agui.Message  // including unfinished ones; the newest that fit into 8 MB
	Open     []agui.Event    // events that open what is unfinished, outermost first; none unless Running
	Outcome  agui.Outcome    // open questions and calls of a WAITING run
}

// RunSnapshot is a thread at the end of a run's latest span, or now if the run is executing.
type RunSnapshot struct {
	Snapshot
	Started *Record // the span's RUN_STARTED; nil if there is none or it was removed
	Ended   *Record // its terminal event; nil while the run executes, or if it was removed
}

// ErrChanged means that the thread changed during the snapshot. Try again after the next change.
var ErrChanged = errors.New("the thread has changed meanwhile")

// Settled returns a snapshot of a thread without an open span, with up to limit messages. It fails with ErrChanged if a span is open
// or opens meanwhile.
func (t *Tail) Settled(ctx context.Context, limit int) (Snapshot, error) {
	store := t.logs.cfg.Store
	th, err := store.Thread(ctx, t.key)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{After: th.LastEventID, State: th.State}
	if s.Run, s.RunID, err = t.lastShownRun(ctx, s.After); err != nil {
		return s, err
	}
	if s.Run != nil && s.Run.Status == data.Waiting {
		if s.Outcome, err = Outcome(ctx, store, s.Run.Key); err != nil {
			return s, err
		}
	}
	rows, err := t.logs.Messages(ctx, t.key, s.After, limit)
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

// Growing returns a snapshot of a thread whose run another instance executes, or that waits in its span, up to its last stored event. It fails with ErrChanged if there
// is no such run.
func (t *Tail) Growing(ctx context.Context) (Snapshot, error) {
	store := t.logs.cfg.Store
	head, err := t.logs.head(ctx, t.key)
	if err != nil {
		return Snapshot{}, err
	}
	open, err := store.OpenRuns(ctx, t.key)
	if err != nil {
		return Snapshot{}, err
	}
	i := slices.IndexFunc(open, func(r data.RunHead) bool { return r.Owner != "" })
	if i < 0 {
		return Snapshot{}, ErrChanged
	}
	run, err := store.Run(ctx, open[i].Key)
	if err != nil {
		return Snapshot{}, err
	}
	spans, err := store.Spans(ctx, run.Key)
	if err != nil {
		return Snapshot{}, err
	}
	n := len(spans)
	if n == 0 || spans[n-1].Last != 0 || spans[n-1].First > head.Last {
		return Snapshot{}, ErrChanged
	}
	f := &folded{run: run.Key, states: true, Fold: fold.New(nil, nil)}
	msgs, err := t.messagesAt(ctx, f, head.Last)
	return Snapshot{
		After: head.Last, Run: &run, RunID: spans[n-1].RunID, Running: true, State: f.State(), Messages: msgs, Open: f.Open(),
	}, err
}

// lastShownRun returns the run that a snapshot of an idle thread shows, and its id in its latest span.
func (t *Tail) lastShownRun(ctx context.Context, last int64) (*data.Run, string, error) {
	store := t.logs.cfg.Store
	open, err := store.OpenRuns(ctx, t.key)
	if err != nil {
		return nil, "", err
	}
	var key int64
	name := ""
	if i := slices.IndexFunc(open, func(r data.RunHead) bool { return r.Status == data.Waiting }); i >= 0 {
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
	if errors.Is(err, data.ErrNotFound) { // its events were removed
		run, err = store.LastRun(ctx, t.key)
		name = run.ID
	}
	if errors.Is(err, data.ErrNotFound) {
		return nil, "", nil
	}
	return &run, name, err
}

// OfRun returns a snapshot at the end of a run's latest span. While that span is open it returns the result of now, and
// stateBefore the run's first span an empty snapshot.
func (t *Tail) OfRun(ctx context.Context, run *data.Run, now func(context.Context) (Snapshot, error)) (RunSnapshot, error) {
	s := RunSnapshot{Snapshot: Snapshot{Run: run, RunID: run.ID}}
	spans, err := t.logs.cfg.Store.Spans(ctx, run.Key)
	if err == nil && len(spans) == 0 && run.Status.Final() && run.ClosedEvent > 0 {
		s.After = run.ClosedEvent
		s.State, s.Messages, err = t.stateAt(ctx, run.ClosedEvent)
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
		if s.State, s.Messages, err = t.stateAt(ctx, span.Last); err != nil {
			return s, err
		}
		if s.Ended, err = t.readRecord(ctx, span.Last); err != nil {
			return s, err
		}
	}
	s.Started, err = t.readRecord(ctx, span.First)
	return s, err
}

// stateAt returns the thread's state and messages at an event.
func (t *Tail) stateAt(ctx context.Context, event int64) (json.RawMessage, []agui.Message, error) {
	store := t.logs.cfg.Store
	var state json.RawMessage
	span, err := store.SpanAfter(ctx, t.key, event)
	switch {
	case err == nil:
		state = span.State
	case errors.Is(err, data.ErrNotFound):
		th, err := store.Thread(ctx, t.key)
		if err != nil {
			return nil, nil, err
		}
		state = th.State
		if span, err = store.SpanAfter(ctx, t.key, event); err == nil { // a run may have started meanwhile
			state = span.State
		} else if !errors.Is(err, data.ErrNotFound) {
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

// baseAfter returns the ids for an event that stands for removed ones: of the run behind that event, or else of the
// thread's latest run. They are empty if the thread has no run.
func (t *Tail) baseAfter(ctx context.Context, event int64) (agui.Base, error) {
	store := t.logs.cfg.Store
	var run data.Run
	span, err := store.SpanAfter(ctx, t.key, event)
	if err == nil {
		run, err = store.Run(ctx, span.RunKey)
		run.ID = span.RunID
	}
	if errors.Is(err, data.ErrNotFound) {
		run, err = store.LastRun(ctx, t.key)
	}
	if errors.Is(err, data.ErrNotFound) {
		err = nil
	}
	return agui.Base{ThreadID: t.id, RunID: run.ID, Agent: run.WorkflowID}, err
}

// readRecord reads one event, nil if it was removed.
func (t *Tail) readRecord(ctx context.Context, id int64) (*Record, error) {
	evs, err := t.logs.cfg.Store.Events(ctx, t.key, id-1, 1)
	if err != nil || len(evs) == 0 || evs[0].ID != id {
		return nil, err
	}
	return decode(&evs[0], t.id)
}

// Outcome returns the outcome of a span that ends in WAITING.
func Outcome(ctx context.Context, r data.Reader, runKey int64) (agui.Outcome, error) {
	o, err := WaitsFor(ctx, r, runKey)
	o.Type = agui.OutcomeSuccess // frontend calls alone do not interrupt
	if len(o.Interrupts) > 0 {
		o = agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: o.Interrupts}
	}
	return o, err
}

// WaitsFor returns the questions and frontend calls for which a span ends: those without an answer, or with one that came while the span
// was open and begins the next.
func WaitsFor(ctx context.Context, r data.Reader, runKey int64) (agui.Outcome, error) {
	all, err := r.Interrupts(ctx, runKey)
	if err != nil {
		return agui.Outcome{}, err
	}
	var o agui.Outcome
	for i := range all {
		switch in := &all[i]; {
		case in.Status != data.InterruptOpen && in.Status != data.InterruptAnswered:
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

// AllAsked returns a run's open interrupts, questions before frontend calls. may reports whether one is answerable.
func AllAsked(ctx context.Context, r data.Reader, runKey int64, may func(*data.Interrupt) bool) ([]agui.Interrupt, error) {
	all, err := r.Interrupts(ctx, runKey)
	if err != nil {
		return nil, err
	}
	var questions, calls []agui.Interrupt
	for i := range all {
		in := &all[i]
		if in.Status != data.InterruptOpen {
			continue
		}
		asked, err := Asks(in)
		if err != nil {
			return nil, err
		}
		asked.Answerable = new(may(in))
		if in.Frontend {
			calls = append(calls, asked)
		} else {
			questions = append(questions, asked)
		}
	}
	return append(questions, calls...), nil
}

// Asks returns the body of an interrupt. An old frontend call without a body has only its tool.
func Asks(in *data.Interrupt) (asked agui.Interrupt, err error) {
	if in.Body == nil && in.Frontend {
		return PendingCall(in.ID, in.Tool, nil), nil
	}
	err = json.Unmarshal(in.Body, &asked)
	return asked, err
}

// PendingCall returns a frontend call in the form of an interrupt.
func PendingCall(id, tool string, args json.RawMessage) agui.Interrupt {
	return agui.Interrupt{ID: id, Reason: "tool_call", ToolCallID: id, Metadata: CallMetadata("", tool, args)}
}

// maxArgs is the size up to which lists of interrupts show a call's arguments. The log has larger ones.
const maxArgs = 64 << 10

// CallMetadata describes a tool call in a question. TanStack AI's client answers calls of the kind approval itself.
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
		panic(err) // strings and valid JSON always encode
	}
	return text
}
