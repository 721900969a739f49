package work

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// Measures are told of sizes and times as they come about; those that are nil are told nothing. They are called where it
// happens, from several goroutines, and return at once. What can be looked up at any time is in Stats instead.
type Measures struct {
	Committed  func(events int, took time.Duration)          // a transaction
	Replayed   func(events int)                              // a reader has got so many from the database, and is at the live end or has left
	Claimed    func(queued time.Duration)                    // a run has begun, after so long in the queue
	FirstEvent func(after time.Duration)                     // a run's worker has shown its first event, so long after the run was queued
	Ended      func(status model.Status, took time.Duration) // a run is over, so long after it was accepted
	Tool       func(failed bool, took time.Duration)         // a call of a server's tool
	ModelCall  func(c ModelEnd, took time.Duration)          // a call of a model that a worker has told of while it was made
	Tokens     func(u agui.TokenUsage)                       // what a call of a model took
}

// withDefaults puts what does nothing in the place of what is nil.
func (m Measures) withDefaults() Measures {
	if m.Claimed == nil {
		m.Claimed = func(time.Duration) {}
	}
	if m.FirstEvent == nil {
		m.FirstEvent = func(time.Duration) {}
	}
	if m.Ended == nil {
		m.Ended = func(model.Status, time.Duration) {}
	}
	if m.Tool == nil {
		m.Tool = func(bool, time.Duration) {}
	}
	if m.ModelCall == nil {
		m.ModelCall = func(ModelEnd, time.Duration) {}
	}
	if m.Tokens == nil {
		m.Tokens = func(agui.TokenUsage) {}
	}
	return m
}

// Tracer follows runs from the request to the calls of models and tools. It is an interface so that no trace library is
// needed here; transports/telemetry/traces implements it. Its methods are called from several goroutines.
type Tracer interface {
	// Begin is told that an operation begins inside of that of ctx. It returns the context of what is done in it, and
	// what is called once when it has ended.
	Begin(ctx context.Context, op Op) (context.Context, func(End))
	// Parent names the operation of ctx as a W3C traceparent, "" when it is not traced. A run keeps it for its whole life.
	Parent(ctx context.Context) string
	// Within returns ctx inside the operation that Parent has named, maybe in an earlier process.
	Within(ctx context.Context, parent string) context.Context
}

// OpKind says what an operation is.
type OpKind uint8

// The operations, each inside of one before it.
const (
	OpStart OpKind = iota // a request for a run is taken
	OpRun                 // a run from its claim until it waits, ends or is another's
	OpAgent               // a worker executes: a node's, or a sub-agent
	OpTool                // a server's tool is called
	OpModel               // a model is called
)

// Op is an operation that begins.
type Op struct {
	Kind    OpKind
	Name    string // of the agent, workflow or tool; empty for a model
	Run     string
	Thread  string
	Project string
	ID      string // of the sub-agent's invocation or of the tool call, empty for others
}

// End is how an operation has ended.
type End struct {
	Status model.Status // of a run: what it is now
	Run    string       // of a request for a run that was taken, and
	Thread string       // its thread
	Err    error        // nil when it went well
	Code   string       // what clients are told has failed, empty when it went well
	Model  ModelEnd     // of a model
}

// ModelEnd is how a call of a model has ended. Provider and model are in its usage.
type ModelEnd struct {
	plugins.ModelCall
	Err error
}

// untraced traces nothing.
type untraced struct{}

func (untraced) Begin(ctx context.Context, _ Op) (context.Context, func(End)) {
	return ctx, func(End) {}
}
func (untraced) Parent(context.Context) string                        { return "" }
func (untraced) Within(ctx context.Context, _ string) context.Context { return ctx }

// Stats is what an engine is doing, and what it has counted since it began.
type Stats struct {
	Queued, Running, Waiting int           // runs
	OldestQueued             time.Duration // since when the first of those that wait for a slot has been queued
	Lingering                int           // workers and tools that were abandoned and have not returned
	Asked, Said              int64         // bytes in memory of what running ones are asked, and of the messages they have made, those with little apart

	AbandonedAgents, AbandonedTools int64 // workers and tools for which nobody waits any more
	Fenced                          int64 // commits that were refused as another instance has the database
}

// Stats returns what the engine is doing.
func (en *Engine) Stats() Stats {
	s := Stats{
		Running: int(en.liveRuns.Load()), Lingering: int(en.abandonments.lingering.Load()),
		AbandonedAgents: en.abandonments.agents.Load(), AbandonedTools: en.abandonments.tools.Load(), Fenced: en.fences.Load(),
	}
	s.Asked, s.Said = en.admission.bytes()
	s.Queued, s.Waiting, s.OldestQueued = en.queue.stats(time.Now())
	return s
}

// decide has a command decided, and tells what has become of the thread's runs.
func (en *Engine) decide(it *commit.Item) error {
	if it.Run != nil {
		it.Owner = quota.OwnerOf(it.Run.Project, it.Run.User)
	}
	err := en.commits.Decide(it)
	if err == nil && it.Out != nil {
		en.tell(it.Out)
	}
	return err
}

// DeleteAll has the next parts of several deletions decided, as many in one transaction as are queued together. It returns for each
// whether parts are left, and its error.
func (en *Engine) DeleteAll(list []*decide.Delete) (left []bool, errs []error) {
	left, errs = make([]bool, len(list)), make([]error, len(list))
	var decided sync.WaitGroup
	decided.Add(len(list))
	for i, cmd := range list {
		it := &commit.Item{Command: cmd}
		it.Done = append(it.Done, func(err error) {
			defer decided.Done()
			if errs[i] = err; err == nil {
				left[i] = it.Out.Removed.Left
			}
		})
		en.commits.Add(it)
	}
	decided.Wait()
	return left, errs
}

// tell logs and measures what a decision has made of runs.
func (en *Engine) tell(out *decide.Decided) {
	for i := range out.Moves {
		m := &out.Moves[i]
		run := &m.Run
		who := append(make([]slog.Attr, 0, 8),
			slog.String("run", run.ID), slog.String("thread", out.Name), slog.String("user", run.User), slog.String("project", run.Project),
			slog.String("agent", run.WorkflowID))
		say := func(what string, more ...slog.Attr) {
			en.log.LogAttrs(context.Background(), slog.LevelInfo, what, append(who, more...)...)
		}
		switch {
		case m.To == model.Running:
			waited := out.At.Sub(run.QueuedAt)
			en.measures.Claimed(max(waited, 0))
			say("run starts", slog.Int("generation", run.Generation), slog.String("queued", waited.Round(time.Millisecond).String()))
		case m.To == model.Waiting:
			say("run waits for an answer")
		case m.To.Final():
			took := out.At.Sub(run.CreatedAt)
			en.measures.Ended(m.To, max(took, 0))
			end := []slog.Attr{slog.String("status", string(m.To)), slog.String("took", took.Round(time.Millisecond).String())}
			if run.Error != nil {
				end = append(end, slog.String("code", run.Error.Code))
			}
			say("run ends", end...)
		}
	}
}

// about is a logger whose lines say which run they are about, and whose: users name runs and threads themselves. It reads the thread's name, which is for lines that are rare.
func (en *Engine) about(run *model.RunHead) *slog.Logger {
	log := en.log.With("run", run.ID, "user", run.User, "project", run.Project)
	if th, err := en.store.Thread(en.abandoned, run.ThreadKey); err == nil {
		return log.With("thread", th.ID)
	}
	return log.With("threadKey", run.ThreadKey)
}

// log is a logger whose lines say as much.
func (l *live) log() *slog.Logger {
	return l.en.log.With("run", l.run.ID, "thread", l.span.thread.ID, "user", l.run.User, "project", l.run.Project)
}

// op is an operation of the run.
func (l *live) op(kind OpKind, name, id string) Op {
	return Op{Kind: kind, Name: name, ID: id, Run: l.run.ID, Thread: l.span.thread.ID, Project: l.run.Project}
}

// untrace ends the run's own operation.
func (l *live) untrace() {
	l.mu.Lock()
	end := End{Status: l.became}
	l.mu.Unlock()
	if end.Status == model.Failed {
		end.Code = "failed"
	}
	l.traced(end)
}

// ended is the end of an operation that err has failed, which waiting for an answer does not.
func (l *live) ended(err error) End {
	switch shown, ok := errors.AsType[*plugins.Error](err); {
	case err == nil, errors.Is(err, plugins.ErrWaiting):
		return End{}
	case ok:
		return End{Err: err, Code: shown.Code}
	case errors.Is(err, errTimeout):
		return End{Err: err, Code: "timeout"}
	}
	return End{Err: err, Code: "failed"}
}

// trace tells that a worker or a tool begins, which learns in ctx what to tell the servers that it asks.
func (en *Engine) trace(ctx context.Context, op Op) (context.Context, func(End)) {
	ctx, end := en.tracer.Begin(ctx, op)
	if parent := en.tracer.Parent(ctx); parent != "" {
		ctx = plugins.WithTraceParent(ctx, parent)
	}
	return ctx, end
}

// BeginModelCall tells that a worker calls a model: those who measure, and the log. A run that takes no more events has its
// closers tell how the call has ended.
func (s *step) BeginModelCall(ctx context.Context) (context.Context, func(plugins.ModelCall, error)) {
	began := time.Now()
	ctx, end := s.l.en.tracer.Begin(ctx, s.l.op(OpModel, "", ""))
	told := agui.ModelCall{ID: NewID(), Status: agui.ModelStarted}
	open := s.tell(told.Event())
	return ctx, func(c plugins.ModelCall, err error) {
		call := ModelEnd{c, err}
		end(End{Err: err, Model: call})
		s.l.en.measures.ModelCall(call, time.Since(began))
		if !open {
			return
		}
		told.Status, told.Error, told.FinishReason = agui.ModelFinished, refusal(err), Plain(clip(c.FinishReason, 200))
		if told.Error != nil {
			told.Status = agui.ModelFailed
		}
		if c.Usage != (agui.TokenUsage{}) {
			told.Usage = &agui.AddUsage(nil, c.Usage)[0] // within bounds
		}
		s.tell(told.Event())
	}
}

// refusal is what clients are told of a model that has failed: all of a *plugins.Error.
func refusal(err error) *agui.OutputError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*plugins.Error](err); ok && e.Code != "" {
		return &agui.OutputError{Code: Plain(clip(e.Code, 200)), Message: Plain(clip(e.Message, maxText)), Retryable: e.Retryable}
	}
	return &agui.OutputError{Code: "failed", Message: "The model's answer did not come"}
}
