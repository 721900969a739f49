package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/prompts"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/span"
	"github.com/batonrun/baton/runtime/tail"
)

// Live is a RUNNING run of this instance. Its workers emit through it. Every ending shuts the gate first, so that no event
// can follow.
type Live struct {
	cfg         *Config
	t           *tail.Tail
	source      *commit.Source // shut with the gate
	offer       *offer.Offer   // held from begins until the last worker has returned
	plugins     *host.Registry // the plugins of the offer that the run's project may use
	input       Input
	unfit       error // why the run cannot be executed; it can still be ended
	clientTools *clientTools
	ctx         context.Context
	cancel      context.CancelCauseFunc
	traced      func(observe.End) // ends the run's operation; set by begins
	over        chan struct{}     // closed once the run has ended here

	rests   calls.Rests
	history history
	calls   calls.Group  // that have not returned
	dead    atomic.Bool  // broken was called
	asked   atomic.Bool  // it has asked a question, or waits for a client's tool
	Inbox   atomic.Int64 // messages that wait for Next

	agentPlaces, callPlaces calls.Places

	mu      sync.Mutex   // guards the fields below, of run only Attempt and Usage
	run     data.Run     // as claimed otherwise
	turn    sync.Cond    // the open text message has ended, or the gate is shut
	spare   *commit.Item // for the next queued item, nil for a new one
	span    *span.Span
	journal *journal.Journal
	nodes   *plan.Plan
	became  data.Status     // the status after end; "" before, or when another owner has the run
	prompts *prompts.Writer // nil if prompts are not kept
	asking  []*asking       // calls of models that are under way
	owed    []data.Row      // rows of held events; written with the next item of any step
	closed  *commit.Item    // the end of a single agent's execution, which is written with the end of the run
	mark    string          // the owner that the release of the run is to leave behind; "" for none
	spoke   bool            // a worker has emitted a visible event since the claim, or an earlier process had claimed the run

	interruptions int // of its workers and tools since its last record
	spending      budget.RunUse

	working  int  // Dos with a running function, or a result that is not stored yet
	atRecord bool // a worker waits at a record until the run is released
	released int  // how often the run was released since its last record
}

// Input holds the parts of a request that a run needs for its whole life.
type Input struct {
	State          json.RawMessage         `json:"state,omitempty"` // replaces the thread's when the run starts
	Tools          []agui.Tool             `json:"tools,omitempty"`
	Context        []agui.Context          `json:"context,omitempty"`
	ForwardedProps json.RawMessage         `json:"forwardedProps,omitempty"`
	RewindTo       string                  `json:"rewindTo,omitempty"` // hide the messages after this one
	HideFrom       int64                   `json:"hideFrom,omitempty"` // hide the message of this seq and all later ones
	Edited         *agui.Message           `json:"edited,omitempty"`   // replaces the thread's message of this id when the run starts
	Kept           []plan.Kept             `json:"kept,omitempty"`     // nodes that the run does not execute in its first generation, by the beginning of their steps
	Resumed        *Resumed                `json:"resumed,omitempty"`  // a step that the run begins in the middle of, in its first generation
	Overrides      *plugins.ModelOverrides `json:"overrides,omitempty"`
	Trace          string                  `json:"trace,omitempty"` // the operation that the run belongs to: see Tracer.Parent
}

// JSON returns the input as a run's row stores it.
func (in *Input) JSON() json.RawMessage {
	text, err := data.JSON(in) // a state keeps its size
	if err != nil {
		panic(err) // its raw members were checked
	}
	return text
}

// New makes the live form of a run, without the contents of its log and rows. It sets unfit when the stored input is no
// longer legible: a run that only ends does not need it.
func New(cfg *Config, run *data.Run) *Live {
	l := &Live{
		cfg: cfg, run: *run, offer: cfg.Offers.Current(),
		agentPlaces: calls.Places{Most: maxSubagents}, callPlaces: calls.Places{Most: plugins.MaxCalls},
		journal: journal.New(), over: make(chan struct{}), rests: calls.Rests{Queue: cfg.Queue},
		history: history{turn: make(chan struct{}, 1)}, calls: calls.Group{Counts: &cfg.Counts, Grace: cfg.Grace},
	}
	l.calls.Log, l.released = l.log, run.Releases()
	l.run.Input, l.run.Definition = nil, nil // input and graph have their contents
	l.turn.L = &l.mu
	if !cfg.NoPrompts {
		l.prompts = prompts.New(run)
	}
	l.source = cfg.Commits.Source(l.owner(), l.broken)
	if err := json.Unmarshal(run.Input, &l.input); err != nil {
		l.unfit = fmt.Errorf("input of run %s: %w", run.ID, err)
	}
	l.clientTools = newClientTools(l.input.Tools)
	l.plugins = l.offer.Plugins.For(run.Project)
	g, err := l.offer.Graphs.Of(run)
	if err != nil {
		g, l.unfit = new(graph.Graph), err
	}
	l.nodes = plan.New(g)
	return l
}

// Unfit returns the reason why the run cannot be executed, or nil.
func (l *Live) Unfit() error { return l.unfit }

// Head returns the run as it was claimed. It must not be changed.
func (l *Live) Head() *data.RunHead { return &l.run.RunHead }

// Trace returns the operation that the run belongs to: see Tracer.Parent.
func (l *Live) Trace() string { return l.input.Trace }

// WaitOf returns why an executing run has no slot, or nil.
func (l *Live) WaitOf() *queue.Wait { return l.rests.Wait() }

func (l *Live) owner() quota.Owner { return quota.OwnerOf(l.run.Project, l.run.User) }

func (l *Live) item() *commit.Item {
	return &commit.Item{Source: l.source, Thread: l.t.Key()}
}

// emit waits for room in the commit queue, then calls queue.
func (l *Live) emit(s *step, rows []data.Row, done func(error), evs ...agui.Event) error {
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue(s, rows, done, evs...)
}

// queue stages the step's held events and evs, and queues them with rows in one item, so that a crash keeps all or none. It
// waits for its turn when an event opens a text message. done may be nil. l.mu is held.
func (l *Live) queue(s *step, rows []data.Row, done func(error), evs ...agui.Event) error {
	if slices.ContainsFunc(evs, opensText) {
		if err := l.queue(s, nil, nil); err != nil { // other steps may wait for the held events
			return err
		}
		l.awaitTurn(s)
	}
	if err := l.span.Closed(&s.w); err != nil {
		return err
	}
	if err := s.owed; err != nil {
		s.owed = nil
		return err
	}
	if s.held != nil {
		evs = append(s.takeHeld(), evs...)
		rows = append(s.dos.Shown(), rows...)
	}
	if len(evs)+len(rows) == 0 && done == nil {
		return nil
	}
	it := l.spare
	if it == nil {
		it = l.item()
	}
	it.Rows = append(it.Rows, l.takeOwed()...)
	l.spare = nil
	defer func() {
		if l.cfg.Commits.Add(it) { // numbered events are written, even before an event that is refused
			it.Empty()
			l.spare = it
		}
	}()
	for _, ev := range evs {
		if err := l.stage(it, s, ev); err != nil {
			return err
		}
	}
	for _, row := range rows {
		l.record(it, row)
	}
	if done != nil {
		it.Done = append(it.Done, done)
	}
	if !l.spoke && slices.ContainsFunc(evs, shows) {
		l.spoke = true
		it.Done = append(it.Done, func(err error) {
			if err == nil {
				l.cfg.Measures.FirstEvent(max(time.Since(l.run.QueuedAt), 0))
			}
		})
	}
	return nil
}

// shows reports whether people see output of the worker in ev: its words, or that it calls a tool. A message that begins has no words yet.
func shows(ev agui.Event) bool {
	switch ev.(type) {
	case agui.TextMessageContent, agui.ReasoningMessageContent, agui.ToolCallStart:
		return true
	}
	return false
}

func opensText(ev agui.Event) bool { return ev.Type() == agui.TypeTextMessageStart }

// awaitTurn waits until the step may open a text message, or may emit no more.
func (l *Live) awaitTurn(s *step) {
	for l.span.Closed(&s.w) == nil {
		if l.span.MayOpenText(&s.w) {
			return
		}
		l.turn.Wait()
	}
}

// failCall stages the interrupted result of a call that gets no other, and completes its record. l.mu is held.
func (l *Live) failCall(it *commit.Item, s *step, id string) error {
	result := l.failedCall(id, span.CodeInterrupted)
	if err := l.stage(it, s, result); err != nil {
		return err
	}
	if row := l.journal.Complete(id, &result, l.span.Last()); row != nil {
		it.Rows = append(it.Rows, row)
	}
	return nil
}

// stage stages an event of a step, with the rows that follow from it, or an event of the run if s is nil.
func (l *Live) stage(it *commit.Item, s *step, ev agui.Event) error {
	if s == nil {
		return l.span.Stage(it, ev)
	}
	left := false
	if e, ok := ev.(agui.ToolCallResult); ok {
		left = l.journal.LeftBy(s.w.Step, s.w.Within, e.ToolCallID)
	}
	from := len(it.Rows)
	ev, err := l.span.Emit(it, &s.w, ev, left)
	if err != nil {
		return err
	}
	for _, row := range it.Rows[from:] {
		if m, ok := row.(*data.Message); ok {
			l.prompts.Learn(m)
		}
	}
	l.noteShown(s, ev)
	switch e := ev.(type) {
	case agui.TextMessageEnd:
		l.turn.Broadcast()
	case agui.ToolCallResult:
		if left {
			it.Rows = append(it.Rows, l.journal.Complete(e.ToolCallID, &e, l.span.Last()))
		}
	case agui.Custom:
		if e.Name == agui.ProgressEvent {
			if row := l.nodes.Progress(s.node, e.Value); row != nil {
				it.Rows = append(it.Rows, row)
			}
		}
	}
	return nil
}

// takeOwed removes and returns the rows of held events. l.mu is held.
func (l *Live) takeOwed() []data.Row {
	owed := l.owed
	l.owed = nil
	return owed
}

// put queues rows without events.
func (l *Live) put(rows ...data.Row) {
	it := l.item()
	it.Rows = rows
	l.cfg.Commits.Add(it)
}

// wait calls queue with a done function and waits until the queued item is stored.
func (l *Live) wait(queue func(done func(error)) error) error {
	stored := make(chan error, 1)
	if err := queue(func(err error) { stored <- err }); err != nil {
		return err
	}
	return <-stored
}

// shut lets no event of a worker follow. It reports false when it was called before. l.mu is held.
func (l *Live) shut(cause error) bool {
	if !l.span.Shut(cause) {
		return false
	}
	l.source.Shut()
	l.turn.Broadcast()
	return true
}

// Drop stops the workers and writes nothing to the log: the run belongs to another instance, or to the next start.
func (l *Live) Drop(cause error) {
	l.mu.Lock()
	l.shut(cause)
	l.mu.Unlock()
	l.cancel(cause)
}

// broken is called when the database has refused the run's events because of their data. The log ends before them, and the
// run ends there as failed.
func (l *Live) broken(err error) {
	if l.dead.Swap(true) {
		return
	}
	l.log().Error("run fails: its events could not be stored", "error", err)
	l.source.Lose()
	l.Drop(err)
	l.cfg.Engine.Go(func() { // ends with its commit
		err := l.failBroken(l.cfg.Abandoned)
		settled := func() bool { return errors.Is(err, decide.ErrSettled) || errors.Is(err, data.ErrNotFound) }
		for err != nil && !settled() && l.cfg.Engine.Rest() { // the database may accept it later
			l.log().Error("run could not be failed", "error", err)
			err = l.failBroken(l.cfg.Abandoned)
		}
		if settled() { // it had ended after all, or was deleted
			l.cfg.Engine.Forget(l)
		}
	})
}

// load reads the state of the run's generation: its beginning, nodes, steps, records and messages.
func (l *Live) load(ctx context.Context, run *data.Run, spans []data.Span) error {
	if err := l.span.LoadBeginning(ctx, l.cfg.Store, run, spans, l.input.State); err != nil {
		return err
	}
	if err := l.nodes.Load(ctx, l.cfg.Store, run); err != nil {
		return err
	}
	records, err := l.cfg.Store.Memos(ctx, run.Key, run.Generation)
	if err != nil {
		return err
	}
	l.journal.Load(records)
	return l.span.LoadMessages(ctx, l.cfg.Store, run, spans, records)
}

// failedCall returns the result of a call that gets no other. If the call has begun with arguments that a person has edited, the result
// has them: the call may have had its effect. l.mu is held if l is shared.
func (l *Live) failedCall(id, code string) agui.ToolCallResult {
	result := span.FailedCall(id, l.span.Tool(id), code)
	result.Output.ToolCallArgs = span.Args(l.journal.Edited(id))
	return result
}

// stageClosers stages the events that must precede the terminal event of an ending: ends of messages, results of calls except
// those that a waiting run has recorded, retractions, and ends of sub-agents and steps. l.mu is held.
func (l *Live) stageClosers(it *commit.Item, e Ending) error {
	output := e.left()
	if output.Error != nil && l.nodes.Has(data.Failed) {
		output = agui.WorkerOutput{Status: agui.StatusPartialSuccess} // the open entities belong to nodes that were only stopped
	}
	closers := l.span.Ver.Closers()
	outer := slices.IndexFunc(closers, isOuter)
	if outer < 0 {
		outer = len(closers)
	}
	for _, ev := range closers[:outer] {
		if end, ok := ev.(agui.TextMessageEnd); ok {
			out := output
			out.Answer = l.span.Fold.Text(end.MessageID)
			end.Output = &out
			ev = end
		}
		if err := l.span.Stage(it, ev); err != nil {
			return err
		}
	}
	for _, id := range l.span.Ver.Unanswered() {
		if e.status == data.Waiting && l.journal.Call(id) != nil {
			continue
		}
		if err := l.span.Stage(it, l.failedCall(id, e.code())); err != nil {
			return err
		}
	}
	if e.status != data.Waiting {
		if err := l.span.RetractCut(it); err != nil {
			return err
		}
	}
	for _, ev := range closers[outer:] {
		if err := l.span.Stage(it, ev); err != nil {
			return err
		}
	}
	return nil
}
