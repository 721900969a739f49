package work

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/queue"
)

// Measures receives sizes and times as they occur; a nil function is not called. The functions are called from several
// goroutines, in the middle of the work, and must return at once. Values that can be read at any time are in Stats instead.
type Measures struct {
	Committed  func(events int, took time.Duration)         // a transaction
	Replayed   func(events int)                             // a reader has read so many from the database, and is at the live end or has left
	Claimed    func(queued time.Duration)                   // a run has begun after so long in the queue
	FirstEvent func(after time.Duration)                    // a run's worker has emitted its first text, reasoning or tool call, so long after the run was queued
	Ended      func(status data.Status, took time.Duration) // a run is over, so long after it was accepted
	Tool       func(failed bool, took time.Duration)        // a call of a server's tool
	ModelCall  func(c ModelEnd, took time.Duration)         // a model call that a worker has reported while making it
	Tokens     func(u agui.TokenUsage)                      // the usage of a model call
}

// withDefaults replaces nil functions with functions that do nothing.
func (m Measures) withDefaults() Measures {
	if m.Claimed == nil {
		m.Claimed = func(time.Duration) {}
	}
	if m.FirstEvent == nil {
		m.FirstEvent = func(time.Duration) {}
	}
	if m.Ended == nil {
		m.Ended = func(data.Status, time.Duration) {}
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
	// Begin begins an operation inside the operation of ctx. It returns the context of the new operation, and a function
	// that is called once when it has ended.
	Begin(ctx context.Context, op Op) (context.Context, func(End))
	// Parent returns the operation of ctx as a W3C traceparent, "" when it is not traced. A run keeps it for its whole life.
	Parent(ctx context.Context) string
	// Within returns ctx inside the operation that Parent has named, maybe in an earlier process.
	Within(ctx context.Context, parent string) context.Context
}

// OpKind is the kind of an operation.
type OpKind uint8

// The operations, each inside of one before it.
const (
	OpStart OpKind = iota // a request for a run is taken
	OpRun                 // a run from its claim until it waits, ends or gets another owner
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

// End describes the end of an operation.
type End struct {
	Status data.Status // of a run: its status now
	Run    string      // of an accepted request for a run
	Thread string      // likewise
	Err    error       // nil on success
	Code   string      // the error code that clients see, empty on success
	Model  ModelEnd    // of a model
}

// ModelEnd describes the end of a model call. Provider and model are in its usage.
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

// Stats holds an engine's current activity, and its counts since it began.
type Stats struct {
	Queued, Running, Waiting int           // runs
	OldestQueued             time.Duration // how long the first run that may begin has been queued, on all servers
	Lingering                int           // workers and tools that were abandoned and have not returned
	Asked, Said              int64         // bytes in memory of the inputs and of the messages of running runs, small ones not counted

	AbandonedAgents, AbandonedTools int64 // workers and tools that were abandoned so far
	Fenced                          int64 // commits refused because another instance has the database
	Repaired                        int64 // see RepairQueue

	Link bus.Stats // to other servers of the database
}

// Stats returns the engine's current activity and counts.
func (en *Engine) Stats() Stats {
	s := Stats{
		Running: en.countRuns(), Lingering: int(en.exec.Counts.lingering.Load()),
		AbandonedAgents: en.exec.Counts.agents.Load(), AbandonedTools: en.exec.Counts.tools.Load(), Fenced: en.fences.Load(), Repaired: en.repaired.Load(),
	}
	s.Link = en.link.Stats()
	s.Asked, s.Said = en.queue.Bytes()
	s.Queued = en.queue.Queued("", "").All
	ctx, cancel := context.WithTimeout(en.abandoned, time.Second)
	defer cancel()
	if b, err := en.store.Backlog(ctx); err == nil { // otherwise readiness tells
		s.Waiting = b.Waiting
		if !b.Oldest.IsZero() {
			s.OldestQueued = max(time.Since(b.Oldest), 0)
		}
	}
	return s
}

// WaitOf returns why a run is QUEUED or has no slot, or nil. A QUEUED run that is about to begin has no reason, nor has an executing
// one whose tools alone wait. It reads the queue as it is now; a database that does not answer gives no reason.
func (en *Engine) WaitOf(ctx context.Context, run *data.RunHead) *queue.Wait {
	if since, is := en.fleet.Missing(run); is {
		return &queue.Wait{Reason: "no_server", Since: since, Until: since.Add(en.cfg.AgentGone)}
	}
	switch run.Status {
	case data.Queued:
		return en.queue.WaitOf(ctx, run)
	case data.Running:
		if l := en.liveRun(run.Key); l != nil {
			return l.waitOf()
		}
	}
	return nil
}

// logOutcome logs and measures the effects of a decision on runs.
func (en *Engine) logOutcome(it *commit.Item) {
	out := it.Out
	for i := range out.Moves {
		m := &out.Moves[i]
		run := &m.Run
		who := append(make([]slog.Attr, 0, 8),
			slog.String("run", run.ID), slog.String("thread", out.Name), slog.String("user", run.User), slog.String("project", run.Project),
			slog.String("agent", run.WorkflowID))
		if finish, ok := it.Command.(*decide.Finish); ok && finish.Run == run.Key {
			who = append(who, slog.Group("", TraceOf(finish.Trace)...))
		} else if l := en.liveRun(run.Key); l != nil { // others are not read for it
			who = append(who, slog.Group("", TraceOf(l.input.Trace)...))
		}
		level := slog.LevelInfo
		say := func(what string, more ...slog.Attr) {
			en.log.LogAttrs(context.Background(), level, what, append(who, more...)...)
		}
		switch {
		case m.To == data.Running:
			waited := out.At.Sub(run.QueuedAt)
			en.exec.Measures.Claimed(max(waited, 0))
			say("run starts", slog.Int("generation", run.Generation), slog.String("queued", waited.Round(time.Millisecond).String()))
		case m.To == data.Waiting:
			say("run waits for an answer")
		case m.To.Final():
			took := out.At.Sub(run.CreatedAt)
			en.exec.Measures.Ended(m.To, max(took, 0))
			end := []slog.Attr{slog.String("status", string(m.To)), slog.String("took", took.Round(time.Millisecond).String())}
			what := "run ends"
			if m.To != data.Completed {
				level = LevelNotice
			}
			if e := run.Error; e != nil {
				end = append(end, slog.String("code", e.Code), slog.Any("message", errors.New(data.Clip(e.Message, maxLogged)))) // an error loses the secrets of its URLs
				if finish, ok := it.Command.(*decide.Finish); ok && finish.Node != "" {
					end = append(end, slog.String("node", finish.Node))
				}
				if e.Code != budget.Exceeded {
					what, level = "run fails", slog.LevelWarn
					end = append(end, slog.String("help", cureOf(run)))
				}
			}
			say(what, end...)
		}
	}
}

// LevelNotice is the log's level of intended ends: a cancelled run, and one with an exhausted budget.
const LevelNotice = slog.LevelInfo + 2

const maxLogged = 1000 // bytes of an error's message

// cureOf returns advice about a failed run.
func cureOf(run *data.RunHead) string {
	switch run.Error.Code {
	case "timeout":
		return "raise timeouts.run or timeouts.step, or the timeout of the agent or node"
	case "crash_loop":
		return "the run has ended its server, or its agent's program, again and again; the log before each such end shows how"
	case "agent_failed", "panic":
		return "the line \"agent failed\" of this run has the cause"
	case "replay_mismatch":
		return "the worker's code has changed while the run was open, or it decides by something that is not recorded; start the run again"
	}
	return "baton watch " + run.ID + " shows what the run has done"
}

// about returns a logger that names a run, its user, project, thread and trace on each line: the names of runs and threads are
// unique only with their user. It reads the run, so it is for rare lines.
func (en *Engine) about(head *data.RunHead) *slog.Logger {
	run, err := en.store.Run(en.abandoned, head.Key)
	if err != nil {
		return en.log.With("run", head.ID, "user", head.User, "project", head.Project, "threadKey", head.ThreadKey)
	}
	return about(en.log, &run)
}

// about returns a logger that names the same of a run that was read.
func about(log *slog.Logger, run *data.Run) *slog.Logger {
	var in Input
	_ = json.Unmarshal(run.Input, &in) // without a trace if it cannot be read
	return log.With("run", run.ID, "user", run.User, "project", run.Project, "thread", run.ThreadID).With(TraceOf(in.Trace)...)
}

// log returns a logger that names the same.
func (l *live) log() *slog.Logger {
	log := l.cfg.Log.With("run", l.run.ID, "thread", l.span.Thread.ID, "user", l.run.User, "project", l.run.Project)
	return log.With(TraceOf(l.input.Trace)...)
}

// TraceOf returns the trace_id of a traceparent as lines of the log have it, nothing for none.
func TraceOf(parent string) []any {
	if id := traceID(parent); id != "" {
		return []any{"trace_id", id}
	}
	return nil
}

// traceID returns the trace in a traceparent, "" for none.
func traceID(parent string) string {
	if parts := strings.Split(parent, "-"); len(parts) == 4 && len(parts[1]) == 32 {
		return parts[1]
	}
	return ""
}

// op returns an operation of the run.
func (l *live) op(kind OpKind, name, id string) Op {
	return Op{Kind: kind, Name: name, ID: id, Run: l.run.ID, Thread: l.span.Thread.ID, Project: l.run.Project}
}

// untrace ends the run's own operation.
func (l *live) untrace() {
	l.mu.Lock()
	end := End{Status: l.became}
	l.mu.Unlock()
	if end.Status == data.Failed {
		end.Code = "failed"
	}
	l.traced(end)
}

// endOf returns the end of an operation that err has failed. Waiting for an answer is no failure.
func endOf(err error) End {
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

// trace begins the operation of a worker or a tool. The returned context has the trace parent for requests to other servers.
func trace(ctx context.Context, by Tracer, op Op) (context.Context, func(End)) {
	ctx, end := by.Begin(ctx, op)
	if parent := by.Parent(ctx); parent != "" {
		ctx = plugins.WithTraceParent(ctx, parent)
	}
	return ctx, end
}

// KeepsPrompts implements host.ModelWatcher.
func (s *step) KeepsPrompts() bool { return s.l.prompts != nil }

// BeginModelCall reports a worker's model call to the tracer, the measures and the log, and stores its prompt. If the run accepts no
// more events, its closers report the end of the call.
func (s *step) BeginModelCall(ctx context.Context, p *plugins.Prompt) (context.Context, func(plugins.ModelCall, *plugins.ModelAnswer, error)) {
	began := time.Now()
	ctx, end := s.l.cfg.Tracer.Begin(ctx, s.l.op(OpModel, "", ""))
	state := agui.ModelCall{ID: data.NewID(), Status: agui.ModelStarted}
	a := &asking{step: s, prompt: data.Prompt{
		PromptResult: data.PromptResult{Status: state.Status}, RunKey: s.l.run.Key, ID: state.ID, Step: s.w.Step, StartedAt: began,
	}}
	open := s.emitOwn(state.Event(), func() []data.Row { return a.begin(p) })
	if !open {
		s.l.mu.Lock()
		a.over()
		s.l.mu.Unlock()
	}
	return plugins.WithModelCall(ctx, state.ID), func(c plugins.ModelCall, answer *plugins.ModelAnswer, err error) {
		call := ModelEnd{c, err}
		end(End{Err: err, Model: call})
		s.l.cfg.Measures.ModelCall(call, time.Since(began))
		if !open {
			return
		}
		state.Status, state.Error, state.FinishReason = agui.ModelFinished, refusal(err), data.Plain(data.Clip(c.FinishReason, 200))
		if state.Error != nil {
			state.Status = agui.ModelFailed
		}
		if c.Usage != (agui.TokenUsage{Provider: c.Usage.Provider, Model: c.Usage.Model}) {
			state.Usage = &agui.AddUsage(nil, c.Usage)[0] // within bounds
		}
		s.emitOwn(state.Event(), func() []data.Row { return a.ended(&state, &c, answer) })
	}
}

// refusal returns a model's error as clients see it: all of a *plugins.Error, and no text of any other error.
func refusal(err error) *agui.OutputError {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*plugins.Error](err); ok && e.Code != "" {
		return &agui.OutputError{Code: data.Plain(data.Clip(e.Code, 200)), Message: data.Plain(data.Clip(e.Message, maxText)), Retryable: e.Retryable}
	}
	return &agui.OutputError{Code: "failed", Message: "The model's answer did not come"}
}
