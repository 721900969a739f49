package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/history"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/tail"
)

// Live is a RUNNING run of this instance. Its workers emit through it. Every ending shuts the gate first, so that no event can follow.
type Live struct {
	cfg         *Config
	t           *tail.Tail
	offer       *offer.Offer   // held from begins until the last worker has returned
	plugins     *host.Registry // the plugins of the offer that the run's project may use
	Input       Input          // of the request; it is not changed
	Unfit       error          // why the run cannot be executed; it can still be ended
	clientTools *clientTools
	ctx         context.Context
	cancel      context.CancelCauseFunc
	traced      func(observe.End) // ends the run's operation; set by begins
	over        chan struct{}     // closed once the run has ended here
	run         *data.Run         // as claimed; out.mu guards its Attempt and Usage
	out         writer            // of all that it does
	spending    spending

	Rests   calls.Rests
	History *history.History // what its workers get of the thread
	calls   calls.Group      // that have not returned
	dead    atomic.Bool      // broken was called
	Inbox   atomic.Int64     // messages that wait for Next

	signals   atomic.Int64  // how often Signal was called
	signalled chan struct{} // has a value after Signal

	agentPlaces, callPlaces calls.Places
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

// New makes the live form of a run, without the contents of its log and rows. It sets Unfit when the stored input is no
// longer legible: a run that only ends does not need it.
func New(cfg *Config, run *data.Run) *Live {
	l := &Live{
		cfg: cfg, run: new(*run), offer: cfg.Offers.Current(),
		agentPlaces: calls.Places{Most: maxSubagents}, callPlaces: calls.Places{Most: plugins.MaxCalls},
		over: make(chan struct{}), signalled: make(chan struct{}, 1), Rests: calls.Rests{Queue: cfg.Queue},
		calls: calls.Group{Counts: &cfg.Counts, Grace: cfg.Grace},
	}
	l.calls.Log, l.spending.out, l.History = l.log, &l.out, history.New(cfg.Logs, cfg.Store, l.out.learn)
	l.run.Input, l.run.Definition = nil, nil // input and graph have their contents
	l.out.open(cfg, l.run, l.broken)
	if err := json.Unmarshal(run.Input, &l.Input); err != nil {
		l.Unfit = fmt.Errorf("input of run %s: %w", run.ID, err)
	}
	l.clientTools = newClientTools(l.Input.Tools)
	l.plugins = l.offer.Plugins.For(run.Project)
	g, err := l.offer.Graphs.Of(run)
	if err != nil {
		g, l.Unfit = new(graph.Graph), err
	}
	l.out.nodes = plan.New(g)
	l.out.nodes.Now = l.out.now
	return l
}

// Head returns the run as it was claimed. It must not be changed.
func (l *Live) Head() *data.RunHead { return &l.run.RunHead }

// Signal has the workers that wait for events look for them.
func (l *Live) Signal() {
	l.signals.Add(1)
	select {
	case l.signalled <- struct{}{}:
	default:
	}
}

// Drop stops the workers and writes nothing to the log: the run belongs to another instance, or to the next start.
func (l *Live) Drop(cause error) {
	l.out.mu.Lock()
	l.out.shut(cause)
	l.out.mu.Unlock()
	l.cancel(cause)
}

// broken is called when the database has refused the run's events because of their data. The log ends before them, and the run ends there as failed.
func (l *Live) broken(err error) {
	if l.dead.Swap(true) {
		return
	}
	l.log().Error("run fails: its events could not be stored", "error", err)
	l.out.source.Lose()
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
	if err := l.out.span.LoadBeginning(ctx, l.cfg.Store, run, spans, l.Input.State); err != nil {
		return err
	}
	records, err := l.cfg.Store.Memos(ctx, run.Key, run.Generation)
	if err != nil {
		return err
	}
	if err := l.out.nodes.Load(ctx, l.cfg.Store, run, records); err != nil {
		return err
	}
	l.out.journal.Load(records)
	return l.out.span.LoadMessages(ctx, l.cfg.Store, run, spans, records)
}

// About returns a logger that names the same of a run that was read.
func About(log *slog.Logger, run *data.Run) *slog.Logger {
	var in Input
	_ = json.Unmarshal(run.Input, &in) // without a trace if it cannot be read
	return log.With("run", run.ID, "user", run.User, "project", run.Project, "thread", run.ThreadID).With(observe.TraceOf(in.Trace)...)
}

func (l *Live) log() *slog.Logger {
	log := l.cfg.Log.With("run", l.run.ID, "thread", l.out.span.Thread.ID, "user", l.run.User, "project", l.run.Project)
	return log.With(observe.TraceOf(l.Input.Trace)...)
}

func (l *Live) op(kind observe.OpKind, name, id string) observe.Op {
	return observe.Op{Kind: kind, Name: name, ID: id, Run: l.run.ID, Thread: l.out.span.Thread.ID, Project: l.run.Project}
}

// endOf returns the end of an operation that err has failed. Waiting for an answer is no failure.
func endOf(err error) observe.End {
	switch shown, ok := errors.AsType[*plugins.Error](err); {
	case err == nil, errors.Is(err, plugins.ErrWaiting):
		return observe.End{}
	case ok:
		return observe.End{Err: err, Code: shown.Code}
	case errors.Is(err, calls.ErrTimeout):
		return observe.End{Err: err, Code: "timeout"}
	}
	return observe.End{Err: err, Code: "failed"}
}
