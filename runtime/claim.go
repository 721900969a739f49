package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/monitor"
)

// dispatch does what threads need so that their runs go on: it claims queued runs as slots become free, and cancels those
// that make room. It ends when the runtime stops.
func (rt *Runtime) dispatch() {
	for {
		select {
		case <-rt.quit:
			return
		case <-rt.queue.signal:
		}
		for _, n := range rt.queue.ready(rt.slots.take) {
			rt.tasks.Go(func() { rt.attend(n) }) // as many as there are slots, and runs that make room
		}
	}
}

// attend does what a thread needs. For a claim a slot was taken.
func (rt *Runtime) attend(n decide.Next) {
	var err error
	if n.Do == decide.ToCancel {
		err = rt.cancelRun(n.Run.ThreadKey, n.Run.Key, n.Run.Generation)
	} else if err = rt.claim(&n.Run); err != nil {
		rt.slots.free(&n.Run)
		rt.queue.nudge()
		if !unwritten(err) {
			rt.log.Error("run cannot be claimed", "run", n.Run.ID, "error", err)
			e := &agui.OutputError{Code: "internal", Message: "The run could not be started"}
			if errors.Is(err, errUnfit) {
				e = illegible()
			}
			err = rt.closeRun(n.Run.ThreadKey, n.Run.Key, ending{status: Failed, err: e})
		}
	}
	switch {
	case errors.Is(err, model.ErrTooSlow), errors.Is(err, model.ErrConflict), errors.Is(err, ErrDiskFull): // the database may be at ease later
		commit.Pause(rt.abandoned, slowly)
		rt.commits.Add(&commit.Item{Command: &decide.Look{Thread: n.Run.ThreadKey}})
	case err != nil && !unwritten(err):
		rt.log.Error("run holds up its thread", "run", n.Run.ID, "error", err)
		if rt.rest() {
			rt.commits.Add(&commit.Item{Command: &decide.Look{Thread: n.Run.ThreadKey}})
		}
	}
}

// rest waits before something is tried again that the database has refused, and reports whether it is worth it.
func (rt *Runtime) rest() bool {
	t := time.NewTimer(refusedPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-rt.quit:
	case <-rt.abandoned.Done():
	}
	return false
}

const refusedPause = 5 * time.Second

// errUnfit means that what a run was started with cannot be read any more.
var errUnfit = errors.New("the run cannot be executed")

// slowly is the attempt from which on pauses are as long as they get.
const slowly = 9

// unwritten reports whether a command was refused or could not be written by this instance: its data is not at fault.
func unwritten(err error) bool {
	_, refused := errors.AsType[*Error](err)
	return refused || errors.Is(err, ErrFenced) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDiskFull) ||
		errors.Is(err, model.ErrTooSlow) || errors.Is(err, model.ErrConflict) || errors.Is(err, context.Canceled)
}

// claim begins or continues the first run of a thread.
func (rt *Runtime) claim(head *RunHead) error {
	for {
		if rt.Stopping() {
			return ErrStopping
		}
		it, err := commit.Patiently(rt.abandoned, func() (*commit.Item, error) { return rt.claiming(rt.abandoned, head) })
		if err != nil {
			return err
		}
		if err := rt.commits.Decide(it); !errors.Is(err, decide.ErrStale) {
			return err
		}
	}
}

// claiming prepares the claim of a queued run.
func (rt *Runtime) claiming(ctx context.Context, head *RunHead) (*commit.Item, error) {
	th, err := rt.store.Thread(ctx, head.ThreadKey)
	if err != nil {
		return nil, threadGone(err)
	}
	run, err := rt.store.Run(ctx, head.Key)
	if err != nil {
		return nil, gone(err)
	}
	if run.Status != Queued {
		return nil, decide.ErrNotClaimed
	}
	queued, err := rt.store.Queued(ctx, run.Key)
	if err != nil {
		return nil, err
	}
	l := rt.newLive(&run)
	if l.unfit != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, l.unfit)
	}
	return l.claiming(ctx, &th, &run, queued)
}

// claiming prepares the claim: the events that open the span, numbered behind the thread's last.
func (l *live) claiming(ctx context.Context, th *Thread, run *Run, queued []Message) (*commit.Item, error) {
	rt := l.rt
	l.w = newWriter(th, run, spanName(run), th.LastEventID, th.LastSeq)
	l.span = Span{
		RunKey: run.Key, N: run.Spans + 1, ThreadKey: th.Key, RunID: l.w.run.ID,
		Generation: run.Generation, First: th.LastEventID + 1, State: th.State,
	}
	c := &decide.Claim{
		Thread: th.Key, Run: run.Key, Instance: rt.instance, Span: l.span,
		Basis: decide.BasisOf(&th.ThreadHead, &run.RunHead, lastKey(queued)),
	}
	it := &commit.Item{}
	if err := l.open(ctx, it, th, run, queued); err != nil {
		return nil, err
	}
	c.Rows, c.Events = it.Rows, it.Events
	return &commit.Item{
		Run: l.w.run, Records: it.Records, Command: c, Takes: true, Began: l.executions(),
		Then: l.begins,
	}, nil
}

// open stages what opens the span: RUN_STARTED with the messages that are new, what the run does to the thread when it
// begins, or what its answers amount to when it goes on.
func (l *live) open(ctx context.Context, it *commit.Item, th *Thread, run *Run, queued []Message) error {
	if run.Answered { // the worker is called again with the input it had; it meets what came meanwhile at its next Next
		spans, err := l.rt.store.Spans(ctx, run.Key)
		if err != nil {
			return err
		}
		if err := l.load(ctx, l.rt.store, run, spans); err != nil {
			return err
		}
		l.inbox.Store(int64(len(queued)))
		if err := l.w.started(it, run, nil); err != nil {
			return err
		}
		return l.answered(ctx, it)
	}
	l.began = began{state: th.State, upTo: l.span.First}
	if err := l.reset(ctx, it, run.Generation > 1); err != nil {
		return err
	}
	first, rest := fitting(queued)
	l.inbox.Store(int64(len(rest))) // it meets them at its next Next, or goes once more for them
	if err := l.w.started(it, run, first); err != nil {
		return err
	}
	return l.prepare(ctx, it, th, run)
}

// fitting splits messages into those that fit into one RUN_STARTED, which are a worker's input, and the rest, which only
// appended messages can make: a request's own fit.
func fitting(msgs []Message) (first, rest []Message) {
	size := 0
	for i := range msgs {
		if size += len(msgs[i].AppendJSON(nil, agui.Stored)); size > log.MaxMessages {
			return msgs[:i], msgs[i:]
		}
	}
	return msgs, nil
}

// spanName is the name that the run has in its next span.
func spanName(run *Run) string { return cmp.Or(run.SpanName, run.ID) }

// begins makes the run live and executes it, as it was decided.
func (l *live) begins(out *decide.Decided) {
	rt := l.rt
	l.run.RunHead = out.Run
	l.ctx, l.cancel = context.WithCancelCause(rt.abandoned)
	l.t = rt.logs.Hold(l.w.thread.Key, l.w.thread.ID)
	l.t.Begin(l.w.last) // what the claim wrote is stored, and what the last owner had written
	rt.liveRuns.Add(1)
	rt.running.Add(1)
	rt.mu.Lock()
	rt.live[l.run.Key] = l
	rt.mu.Unlock()
	go l.loop() // Shutdown waits for rt.running
}

// executions are those of workers that go on when the run becomes live: of steps that were left running, and
// of sub-agents that are open.
func (l *live) executions() []monitor.Execution {
	var all []monitor.Execution
	for _, st := range l.steps {
		if agent := l.graph.Agent(st.NodeID); agent != "" && st.Status == Running {
			all = append(all, monitor.Execution{ID: st.ID, Agent: agent})
		}
	}
	for _, m := range l.memos {
		if m.Agent != "" && !m.Done && m.CallID != "" && l.w.ver.SubagentOpen(m.CallID) {
			all = append(all, monitor.Execution{ID: m.CallID, Agent: m.Agent})
		}
	}
	return all
}

// reset gives a generation that begins its nodes. Its steps are numbered behind those of earlier ones.
func (l *live) reset(ctx context.Context, it *commit.Item, restarted bool) error {
	if restarted {
		if err := l.countSteps(ctx, l.rt.store); err != nil {
			return err
		}
	}
	for _, n := range l.graph.Nodes {
		node := &Node{RunKey: l.run.Key, NodeID: n.ID, Status: Pending}
		l.nodes[n.ID] = node
		if len(l.graph.Nodes) > 1 || restarted { // a lone node's first row comes with its step
			row := *node
			it.Rows = append(it.Rows, &row)
		}
	}
	return nil
}

// page is how many rows or events are read at once.
const page = 500

// countSteps finds the number of the run's last step. Numbers have no gaps, and those behind the count, which is
// bounded, are read.
func (l *live) countSteps(ctx context.Context, r Reader) error {
	_, total, err := r.Steps(ctx, l.run.Key, 0, 1)
	for l.count = total; err == nil; {
		var steps []Step
		if steps, _, err = r.Steps(ctx, l.run.Key, l.count, page); len(steps) == 0 {
			break
		}
		l.count = steps[len(steps)-1].Number
	}
	return err
}

// prepare applies what the run's first generation does to the thread: hidden messages and another state.
func (l *live) prepare(ctx context.Context, it *commit.Item, th *Thread, run *Run) error {
	hides, state, err := l.rolledBack(ctx, run, th.State)
	if err != nil {
		return err
	}
	if run.Generation == 1 {
		if l.input.RewindTo != "" {
			msgs, err := l.rt.store.MessagesByID(ctx, th.Key, []string{l.input.RewindTo})
			if err != nil {
				return err
			}
			if len(msgs) > 0 && msgs[0].Seq > 0 {
				hides = append(hides, model.Hide{ThreadKey: th.Key, FromSeq: msgs[0].Seq + 1})
			}
		}
		if l.input.HideFrom > 0 {
			hides = append(hides, model.Hide{ThreadKey: th.Key, FromSeq: l.input.HideFrom})
		}
		if l.input.State != nil {
			state = l.input.State
		}
	}
	if len(hides) > 0 {
		if err := l.rewound(ctx, it, th, hides); err != nil {
			return err
		}
	}
	l.began.state = state
	if len(hides) == 0 && string(state) == string(th.State) {
		return nil
	}
	return l.w.stage(it, agui.StateSnapshot{Snapshot: state})
}

// rolledBack says what to hide of the runs that the run has made room by rolling back, and the state before the oldest of
// them.
func (l *live) rolledBack(ctx context.Context, run *Run, state json.RawMessage) ([]model.Hide, json.RawMessage, error) {
	if !run.RollBack {
		return nil, state, nil
	}
	var hides []model.Hide
	oldest := int64(math.MaxInt64)
	for _, r := range run.Replaces {
		spans, err := l.rt.store.Spans(ctx, r.RunKey)
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(spans, func(s Span) bool { return s.Generation == r.Generation })
		if i < 0 {
			continue
		}
		hides = append(hides, model.Hide{ThreadKey: run.ThreadKey, RunKey: r.RunKey, FromEvent: spans[i].First})
		if spans[i].First < oldest {
			oldest, state = spans[i].First, spans[i].State
		}
	}
	return hides, state, nil
}

// rewound stages the MESSAGES_SNAPSHOT that tells clients what is left, with what this run brings.
func (l *live) rewound(ctx context.Context, it *commit.Item, th *Thread, hides []model.Hide) error {
	rows, err := l.rt.store.Messages(ctx, th.Key, 0, log.LatestMessages)
	if err != nil {
		return err
	}
	hidden := func(m Message) bool {
		return slices.ContainsFunc(hides, func(h model.Hide) bool {
			return (h.RunKey == 0 || h.RunKey == m.RunKey) && (h.FromSeq == 0 || m.Seq >= h.FromSeq) && m.EventID >= h.FromEvent
		})
	}
	var before []Row // what the run brings stays
	for i := range hides {
		before = append(before, &hides[i])
	}
	it.Rows = append(before, it.Rows...)
	msgs := append(log.Contents(slices.DeleteFunc(rows, hidden)), l.w.fold.Messages()...) // what this run brings
	return l.w.stage(it, agui.MessagesSnapshot{Messages: log.Newest(msgs)})
}

// load reads what the run's generation has come to: where it began, its nodes, steps, records and messages.
func (l *live) load(ctx context.Context, r Reader, run *Run, spans []Span) error {
	for _, s := range spans {
		if s.Generation == run.Generation {
			l.began = began{state: s.State, upTo: s.First}
			if s.N > 1 {
				break
			}
			var err error
			if l.began.state, err = l.begunWith(ctx, r, run, &s); err != nil {
				return err
			}
			break
		}
	}
	if err := l.loadSteps(ctx, r, run); err != nil {
		return err
	}
	memos, err := r.Memos(ctx, run.Key, run.Generation)
	if err != nil {
		return err
	}
	for i := range memos {
		m := &memos[i]
		l.know(m)
		if m.Tool != "" {
			l.calls[m.CallID] = m.Tool
		}
	}
	return l.loadMessages(ctx, r, run)
}

// begunWith is the state that the run's first span began with. What a rollback has restored its log tells: the runs that
// were rolled back may be gone.
func (l *live) begunWith(ctx context.Context, r Reader, run *Run, span *Span) (json.RawMessage, error) {
	switch {
	case l.input.State != nil:
		return l.input.State, nil
	case !run.RollBack:
		return span.State, nil
	}
	stored, err := r.Events(ctx, span.ThreadKey, span.First-1, page)
	if err != nil {
		return nil, err
	}
	for i := range stored {
		switch stored[i].Kind {
		case agui.TypeStateSnapshot:
			ev, err := agui.Decode(stored[i].Payload)
			if snapshot, ok := ev.(agui.StateSnapshot); ok {
				return snapshot.Snapshot, err
			}
			return span.State, err
		case agui.TypeStepStarted:
			return span.State, nil
		}
	}
	return span.State, nil
}

// loadSteps reads the rows of the run's nodes and steps.
func (l *live) loadSteps(ctx context.Context, r Reader, run *Run) error {
	nodes, err := r.Nodes(ctx, run.Key)
	if err != nil {
		return err
	}
	for i := range nodes {
		l.nodes[nodes[i].NodeID] = &nodes[i]
	}
	for _, n := range l.graph.Nodes {
		if l.nodes[n.ID] == nil { // its first row comes with its step
			l.nodes[n.ID] = &Node{RunKey: run.Key, NodeID: n.ID, Status: Pending}
		}
	}
	for after := 0; ; {
		steps, _, err := r.Steps(ctx, run.Key, after, 500)
		if err != nil {
			return err
		}
		for i := range steps {
			l.count = steps[i].Number
			if steps[i].Generation == run.Generation {
				l.steps[steps[i].NodeID] = &steps[i]
			}
		}
		if len(steps) < 500 {
			break
		}
		after = l.count
	}
	return nil
}

// loadMessages gives the writer the messages of the run, so that later events can change them.
func (l *live) loadMessages(ctx context.Context, r Reader, run *Run) error {
	var known []agui.Message
	for after := int64(0); ; {
		msgs, _, err := r.RunMessages(ctx, run.Key, after, log.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs {
			if after = msgs[i].Key; msgs[i].State == MessageConsumed {
				l.w.messages[msgs[i].ID] = &msgs[i]
				known = append(known, msgs[i].Message)
			}
		}
		if len(msgs) < log.LatestMessages {
			break
		}
	}
	l.w.fold = fold.New(l.w.thread.State, known)
	return nil
}

// answered opens the span of an answer: the steps that waited go on, and what a client answered for its
// own tools becomes their results.
func (l *live) answered(ctx context.Context, it *commit.Item) error {
	var owed []string
	for _, m := range l.memos {
		if m.Tool != "" && !m.Done {
			owed = append(owed, m.CallID)
		}
	}
	all, err := l.rt.store.Interrupts(ctx, l.run.Key)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Frontend && all[i].Status == interruptAnswered {
			owed = append(owed, all[i].ID)
		}
	}
	l.w.ver.Owe(owed...)
	for _, st := range l.steps {
		if st.Status != Waiting {
			continue
		}
		st.Status = Running
		node := l.nodes[st.NodeID]
		node.Status = Running
		stepRow, nodeRow := *st, *node
		it.Rows = append(it.Rows, &stepRow, &nodeRow)
		if err := l.w.stage(it, agui.StepStarted{Base: agui.Base{Agent: l.graph.Worker(st.NodeID)}, StepName: st.Name}); err != nil {
			return err
		}
	}
	for i := range all {
		if err := l.take(it, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// take closes an interrupt that was answered. The result of a frontend call is what its memo holds.
func (l *live) take(it *commit.Item, in *Interrupt) error {
	if in.Status != interruptAnswered {
		return nil
	}
	in.Status = interruptResolved
	it.Rows = append(it.Rows, in)
	if !in.Frontend {
		return nil
	}
	m := l.memos[memoKey{in.Step, in.Place}]
	var a frontendAnswer
	var out agui.ToolOutput
	if m == nil || json.Unmarshal(in.Payload, &a) != nil || json.Unmarshal(m.Output, &out) != nil {
		return fmt.Errorf("frontend call %s has no record", in.ID)
	}
	delete(l.calls, in.ID)
	return l.w.stage(it, agui.ToolCallResult{
		MessageID: cmp.Or(a.MessageID, newID()), ToolCallID: in.ID, Content: out.ResultSummary, Output: &out,
	})
}
