package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/span"
)

// TakeOver makes this instance the owner of a run, and executes it if it returns true. It fails a run that cannot be executed or has crashed
// too often.
func TakeOver(ctx context.Context, cfg *Config, run *data.Run, reserved *queue.Reservation) (begins bool, err error) {
	l, it, err := readBack(ctx, cfg, run, fromLog)
	if err != nil {
		return false, fail(ctx, cfg, run, fromRows, unreadable, err, nil)
	}
	if l.Unfit != nil {
		return false, fail(ctx, cfg, run, fromLog, Illegible, l.Unfit, nil)
	}
	if cfg.Engine.Declines(l) {
		return false, queue.ErrElsewhere
	}
	if run.Attempt > cfg.MaxAttempts {
		return false, fail(ctx, cfg, run, fromLog, outputError(crashLoop(run.Attempt)), nil, nil)
	}
	l.out.mu.Lock()
	if err = l.out.wakes(it); err == nil {
		err = (&repair{l: l, it: it}).interrupt()
	}
	l.out.mu.Unlock()
	if err != nil {
		return false, fail(ctx, cfg, run, fromRows, unreadable, err, nil)
	}
	l.Rests.Reserved, l.out.spoke = reserved, true
	c := &decide.TakeOver{
		Thread: run.ThreadKey, Run: run.Key, From: run.Owner, Instance: cfg.Instance, Last: l.out.span.Last() - int64(len(it.Events)), Attempt: run.Attempt,
		Rows: it.Rows, Events: it.Events,
	}
	if run.Status == data.Queued {
		c.Queued, c.Caps, c.Appended = &data.Name{Project: run.Project, User: run.User}, cfg.Caps, int(l.Inbox.Load())
	}
	err = cfg.Engine.Decide(&commit.Item{Owner: l.out.owner(), Records: it.Records, Command: c, Then: l.begins})
	if err == nil && c.Queued == nil { // a woken run starts, as its decision has logged
		l.log().Info("run is taken over", "agent", run.WorkflowID, "from", run.Owner, "attempt", run.Attempt)
	}
	if err == nil || commit.Unwritten(err) {
		return err == nil, err
	}
	return false, fail(ctx, cfg, run, fromLog, unstored, err, nil)
}

// codeUnstored is the code of a run with events that could not be stored.
const codeUnstored = "storage_error"

// The errors of runs that cannot go on.
var (
	Illegible  = &agui.OutputError{Code: "definition_invalid", Message: "What the run was started with cannot be read any more"}
	unreadable = &agui.OutputError{Code: "unreadable", Message: "The run's log could not be read back"}
	unstored   = &agui.OutputError{Code: codeUnstored, Message: "The run's events could not be stored"} // the database refuses their data
)

// source is the origin of the events that end a run's span. A run that has lost its events in memory, or could not store them, ends by its
// log, which knows the open entities. If the log cannot be read or closed, a terminal event ends the run without it, whatever is open.
type source bool

const fromLog, fromRows source = true, false

// fail ends a RUNNING run that is not executed here as failed, with the first source that serves. because is the error that caused it, or nil: an
// error which only means that nothing can be written now is returned, and the run does not fail. then is called after the commit; it may be nil.
func fail(ctx context.Context, cfg *Config, run *data.Run, from source, e *agui.OutputError, because error, then func()) error {
	if because != nil {
		if commit.Unwritten(because) || ctx.Err() != nil {
			return because
		}
		About(cfg.Log, run).Error("run fails", "code", e.Code, "error", because)
	}
	l, it, err := readBack(ctx, cfg, run, from)
	if err != nil {
		if from == fromLog {
			return fail(ctx, cfg, run, fromRows, unreadable, err, then)
		}
		return err
	}
	err = l.endReadBack(it, FailedWith(e), then)
	switch {
	case err == nil, from == fromRows:
		return err
	case e.Code != codeUnstored: // once more with the log: viewers would show for ever the entities that an end without it leaves open
		return fail(ctx, cfg, run, fromLog, unstored, err, then)
	}
	return fail(ctx, cfg, run, fromRows, e, err, then)
}

// EndOrphan ends a RUNNING run that is not executed here.
func EndOrphan(ctx context.Context, cfg *Config, run *data.Run, e Ending) error {
	if e.err != nil {
		return fail(ctx, cfg, run, fromLog, e.err, nil, nil)
	}
	l, it, err := readBack(ctx, cfg, run, fromLog)
	if err != nil {
		return err
	}
	return l.endReadBack(it, e, nil)
}

// endReadBack ends a run that was read back, with the events that close its spans first.
func (l *Live) endReadBack(it *commit.Item, e Ending, then func()) error {
	if err := l.out.stageClosers(it, e); err != nil {
		return err
	}
	it.Rows = append(it.Rows, l.out.nodes.Settle(e.status, e.err)...)
	err := l.finish(e, it, l.run.Owner, then)
	if errors.Is(err, decide.ErrCancelAsked) {
		if e, err = l.cancelledElsewhere(l.run.Owner); err == nil {
			err = l.endReadBack(it, e, then)
		}
	}
	return err
}

// failBroken fails a live run with events that could not be stored.
func (l *Live) failBroken(ctx context.Context) error {
	run, err := commit.RetryUnavailable(ctx, func() (data.Run, error) { return l.cfg.Store.Run(ctx, l.run.Key) })
	if err != nil {
		return err
	}
	return fail(ctx, l.cfg, &run, fromLog, unstored, nil, func() { l.cfg.Engine.Forget(l) })
}

// readBack makes the live form of a RUNNING run from a source, and an item with the events that this has staged.
func readBack(ctx context.Context, cfg *Config, run *data.Run, from source) (l *Live, it *commit.Item, err error) {
	l, err = commit.RetryUnavailable(ctx, func() (*Live, error) {
		it = &commit.Item{}
		th, err := cfg.Store.Thread(ctx, run.ThreadKey)
		if err != nil {
			return nil, err
		}
		spans, err := cfg.Store.Spans(ctx, run.Key)
		if err != nil {
			return nil, err
		}
		l := New(cfg, run)
		l.out.asked = true // it may have asked
		if from == fromRows {
			return l, l.readRows(ctx, &th, run, spans, it)
		}
		return l, l.readLog(ctx, &th, run, spans)
	})
	return l, it, err
}

// readRows reads a RUNNING run from its rows alone: in its open span, or else in a new one that it stages.
// A state that the span has changed is as it was before the span.
func (l *Live) readRows(ctx context.Context, th *data.Thread, run *data.Run, spans []data.Span, it *commit.Item) error {
	last, err := l.cfg.Store.LastEventID(ctx, th.Key)
	if err != nil {
		return err
	}
	seq, err := l.cfg.Store.LastSeq(ctx, th.Key)
	if err != nil {
		return err
	}
	n := len(spans)
	open := n > 0 && spans[n-1].Last == 0
	if open {
		l.out.span = span.Open(l.cfg.FrameBytes, th, &spans[n-1], last, seq)
		_ = l.out.span.Ver.Add(agui.RunStarted{})
	} else {
		l.out.span = span.Next(l.cfg.FrameBytes, th, run, last, seq)
	}
	if err := l.load(ctx, run, spans); errors.Is(err, data.ErrUnavailable) {
		return err // any other error is about the rows, which stay as they are
	}
	if open {
		return l.out.span.Stage(it, agui.StateSnapshot{Snapshot: l.out.span.State()})
	}
	row := l.out.span.Row
	it.Rows = append(it.Rows, &row)
	return l.out.span.Started(it, run, nil, nil, observe.TraceID(l.Input.Trace))
}

// readLog reads a RUNNING run from its log and rows, with all entities that its last owner left open.
func (l *Live) readLog(ctx context.Context, th *data.Thread, run *data.Run, spans []data.Span) error {
	if len(spans) == 0 || spans[len(spans)-1].Last != 0 {
		return errors.New("a running run has no open span")
	}
	last := &spans[len(spans)-1]
	l.out.span = span.Open(l.cfg.FrameBytes, th, last, last.First-1, th.LastSeq)
	if err := l.load(ctx, run, spans); err != nil {
		return err
	}
	asked, err := l.cfg.Store.Interrupts(ctx, run.Key)
	if err != nil {
		return err
	}
	for i := range asked {
		in := &asked[i]
		if in.Status == data.InterruptAnswered { // the next span uses it
			in.Status, in.Payload = data.InterruptOpen, nil
			l.out.journal.Reopen(in)
		}
		if in.Status == data.InterruptOpen {
			l.out.journal.Add(in)
		}
	}
	if n, err := l.cfg.Store.Queued(ctx, run.Key); err == nil {
		l.Inbox.Store(int64(len(n)))
	} else {
		return err
	}
	return l.out.span.Replay(ctx, l.cfg.Store, l.out.journal.Owed)
}

// repair stages the end of the work that a crash has cut short in a run that is taken over, or in a step of a live run.
type repair struct {
	l  *Live
	it *commit.Item
	em *emitter // nil for a run that is taken over
}

// isCut reports whether the crash has cut short the entity of an event.
func (r *repair) isCut(ev agui.Event) bool { return r.em == nil || r.l.out.span.Owns(r.em.w, ev) }

// isCutAt reports whether the crash has cut a memo's place short.
func (r *repair) isCutAt(m *data.Memo) bool {
	return r.em == nil || m.Step == r.em.w.Step && strings.HasPrefix(m.Place, r.em.w.Within)
}

// interrupt closes the entities that a crash has cut short, so that the steps can go on: unfinished messages are ended and hidden, calls that may not
// be repeated get the result interrupted, and the output of a Do that is to be repeated is retracted. Nodes' steps and the sub-agents of CallAgent go
// on. A worker opens anew the sub-agents that it has announced itself. l.out.mu is held.
func (r *repair) interrupt() error {
	l, it := r.l, r.it
	thoughts := make(map[string]bool)
	var unended []string
	for _, ev := range l.out.span.Ver.Closers() {
		if !r.isCut(ev) || r.staysOpen(ev) {
			continue
		}
		switch e := ev.(type) {
		case agui.SubagentFinished:
			ev = agui.SubagentError{Base: e.Base, Message: "The agent was interrupted", Code: span.CodeInterrupted}
		case agui.TextMessageEnd:
			e.Output = &agui.WorkerOutput{
				Status: agui.StatusFailed, Answer: l.out.span.Fold.Text(e.MessageID),
				Error: &agui.OutputError{Code: span.CodeInterrupted, Message: "The message was interrupted", Retryable: true},
			}
			ev, unended = e, append(unended, e.MessageID)
		case agui.ReasoningMessageEnd:
			thoughts[e.MessageID], unended = true, append(unended, e.MessageID)
		}
		if err := l.out.stage(it, r.em, ev); err != nil {
			return err
		}
	}
	l.out.span.HideCompleted(it, thoughts)
	for _, id := range l.out.span.Ver.Unanswered() {
		m := l.out.journal.Call(id)
		if r.em != nil && !l.out.span.Owns(r.em.w, agui.ToolCallStart{ToolCallID: id}) && (m == nil || !r.isCutAt(m)) {
			continue
		}
		if m != nil && m.Tool != "" && (l.isRepeatable(m) || !l.plugins.Settled(m.Tool)) { // the call itself decides when it is opened again
			continue
		}
		if err := l.out.failCall(it, r.em, id); err != nil {
			return err
		}
	}
	shown, recorded := l.out.journal.Repeats(func(m *data.Memo) bool { return r.isCutAt(m) && l.out.nodes.Goes(m.Step) })
	return l.out.span.RetractRepeated(it, unended, shown, recorded)
}

// staysOpen reports whether ev would end a step or a sub-agent whose worker is called again after a crash.
func (r *repair) staysOpen(ev agui.Event) bool {
	switch e := ev.(type) {
	case agui.StepFinished:
		return e.SubagentRunID == "" && r.l.out.nodes.HasStep(e.StepName)
	case agui.SubagentFinished:
		m := r.l.out.journal.Call(e.SubagentRunID)
		return m != nil && m.Agent != ""
	}
	return false
}

// isRepeatable reports whether an open tool call can be made after a crash: it has not begun, its tool is idempotent, or the call has
// stored a value from which it resumes. l.out.mu is held.
func (l *Live) isRepeatable(m *data.Memo) bool {
	tool, ok := l.plugins.Tool(m.Tool)
	return !m.Begun || ok && tool.Info().Idempotent || l.out.journal.Kept(m.Step, plugins.Use{Place: m.Place}) != nil
}

// A worker that returns plugins.Interrupted is called again as after a crash of the server, but alone: the other workers of its run go on.

// interrupt closes what a worker has left open, so that it can be called again with its records. It fails if the run has ended, or has
// crashed too often.
func (s *step) interrupt(why *plugins.Interrupted) error {
	l := s.l
	l.out.source.Room()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if err := l.out.span.Closed(s.w); err != nil {
		return err
	}
	s.em.takeHeld() // as after a crash: what they end is repeated
	s.w.Ended = true
	l.out.turn.Broadcast()
	it := l.out.item()
	defer l.cfg.Commits.Add(it) // numbered events are written, also before one that is refused
	if err := l.crash(it, s.w.Agent, why); err != nil {
		return err
	}
	it.Rows = append(it.Rows, l.out.takeOwed()...)
	return (&repair{l: l, it: it, em: &s.em}).interrupt()
}

// crash counts the interruption of a worker or a tool. It fails once the run has crashed too often. l.out.mu is held.
func (l *Live) crash(it *commit.Item, plugin string, why *plugins.Interrupted) error {
	l.out.interruptions++
	if why.Counts {
		l.run.Attempt++
		it.Rows = append(it.Rows, &data.RunCrashes{Key: l.run.Key, Attempt: l.run.Attempt})
	}
	if l.run.Attempt > l.cfg.MaxAttempts {
		l.log().Warn("run is given up", "plugin", plugin, "reason", why.Reason, "attempt", l.run.Attempt)
		return crashLoop(l.run.Attempt)
	}
	l.log().Warn("worker is called again", "plugin", plugin, "reason", why.Reason, "attempt", l.run.Attempt)
	return nil
}

func crashLoop(attempts int) *plugins.Error {
	return &plugins.Error{Code: "crash_loop", Message: fmt.Sprintf("The run was given up after %d crashes", attempts)}
}

// again counts the interruption of the call's tool, and reports whether the tool is called again.
func (c *toolCall) again(info *plugins.Info, why *plugins.Interrupted) bool {
	l := c.s.l
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.out.span.Gate() != nil || !info.Idempotent && (c.guard || !l.isRepeatable(c.m)) {
		return false
	}
	it := l.out.item()
	defer l.cfg.Commits.Add(it)
	return l.crash(it, info.Name, why) == nil
}
