package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// dispatch claims queued runs as slots become free. It ends when the runtime stops.
func (rt *Runtime) dispatch() {
	for {
		select {
		case <-rt.quit:
			return
		case <-rt.queue.signal:
		}
		for _, head := range rt.queue.claimable(rt.slots.take) {
			rt.claim(head)
		}
	}
}

// claim queues the claim of a thread's first run, for which a slot was taken.
func (rt *Runtime) claim(head Run) {
	rt.com.add(&item{
		op:    func(ctx context.Context, tx Tx, out *outcome) error { return rt.claimFirst(ctx, tx, head, out) },
		wants: Wanted{Threads: []int64{head.ThreadKey}, Runs: []int64{head.Key}},
		done: []func(error){func(err error) {
			if err != nil {
				rt.slots.free(&head)
				rt.queue.nudge()
			}
			if err != nil && !unwritten(err) {
				rt.log.Error("run cannot be claimed", "run", head.ID, "error", err)
				rt.com.add(&item{op: func(ctx context.Context, tx Tx, out *outcome) error { return rt.failQueued(ctx, tx, head.Key, out) }})
			}
		}},
	})
}

// unwritten reports whether an op was refused or could not be written by this instance: its data is not at fault.
func unwritten(err error) bool {
	_, refused := errors.AsType[*Error](err)
	return refused || errors.Is(err, ErrFenced) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDiskFull)
}

// failQueued fails a QUEUED run whose claim cannot be written, so that it does not hold up its thread. What it
// was to take is hidden.
func (rt *Runtime) failQueued(ctx context.Context, tx Tx, key int64, out *outcome) error {
	run, err := tx.Run(ctx, key)
	if err != nil {
		return gone(err)
	}
	if run.Status != Queued {
		return errNotClaimed
	}
	th, err := tx.LockThread(run.ThreadKey)
	if err != nil {
		return err
	}
	last, seq, err := ends(ctx, tx, &th)
	if err != nil {
		return err
	}
	spans, err := tx.Spans(ctx, run.Key)
	if err != nil {
		return err
	}
	queued, err := tx.Queued(ctx, run.Key)
	if err != nil {
		return err
	}
	it := &item{}
	for i := range queued {
		queued[i].State = MessageHidden
		it.rows = append(it.rows, &queued[i])
	}
	w := newWriter(&th, run.Key, run.ID, last, seq)
	if err := w.started(it, &run, nil); err != nil {
		return err
	}
	e := ending{status: Failed, err: &agui.OutputError{Code: "internal", Message: "The run could not be started"}}
	terminal, err := rt.terminal(ctx, tx, &run, e)
	if err != nil {
		return err
	}
	if err := w.stage(it, terminal); err != nil {
		return err
	}
	if err := withdraw(ctx, tx, run.Key); err != nil {
		return err
	}
	now := tx.Now()
	finish(&run, e, now, w.last)
	run.Answered = false
	th.LastEventID, th.UpdatedAt = w.last, now
	span := Span{
		RunKey: run.Key, N: len(spans) + 1, ThreadKey: th.Key, RunID: run.ID, Generation: run.Generation,
		First: last + 1, Last: w.last, State: th.State,
	}
	out.recs, out.evs, out.thread = it.recs, it.evs, th.Key
	if err := tx.Put(append(it.rows, &run, &span, &th)...); err != nil {
		return err
	}
	return rt.afterRun(ctx, tx, th.Key, out, nil)
}

// errNotClaimed means that the thread's first run is another by now, or must wait.
var errNotClaimed = refuse(KindConflict, "not_claimed", "The run cannot be claimed now")

// claimFirst claims head if it is still the first of its thread and no run stands in its way.
func (rt *Runtime) claimFirst(ctx context.Context, tx Tx, head Run, out *outcome) error {
	th, err := tx.LockThread(head.ThreadKey)
	if err != nil {
		return threadGone(err)
	}
	open, err := tx.OpenRuns(ctx, th.Key)
	if err != nil {
		return err
	}
	i := firstQueued(open)
	if rt.Stopping() || i < 0 || open[i].Key != head.Key {
		return errNotClaimed
	}
	for j := range open[:i] {
		if open[j].Status == Running {
			return errNotClaimed
		}
		blocked, err := asksSomebody(ctx, tx, open[j].Key)
		if err != nil {
			return err
		}
		if blocked {
			return errNotClaimed
		}
		// Only a client's tools are waited for, and the thread moves on without them.
		if err := rt.cancelIdle(ctx, tx, &open[j], &th, out); err != nil {
			return err
		}
	}
	l, err := rt.claimTx(ctx, tx, &open[i], &th, out, nil)
	if err != nil {
		return err
	}
	return rt.afterRun(ctx, tx, th.Key, out, l.start)
}

func firstQueued(open []Run) int {
	for i := range open {
		if open[i].Status == Queued {
			return i
		}
	}
	return -1
}

// asksSomebody reports whether a waiting run has an open question.
func asksSomebody(ctx context.Context, r Reader, runKey int64) (bool, error) {
	all, err := r.Interrupts(ctx, runKey)
	if err != nil {
		return false, err
	}
	for i := range all {
		if all[i].Status == interruptOpen && !all[i].Frontend {
			return true, nil
		}
	}
	return false, nil
}

// fresh is what a claim knows of a run that the same transaction has created, as claimed already.
type fresh struct {
	newThread bool
	queued    []Message
}

// claimTx makes a QUEUED run RUNNING and opens its span. What it returns is started after the commit.
func (rt *Runtime) claimTx(ctx context.Context, tx Tx, run *Run, th *Thread, out *outcome, known *fresh) (*live, error) {
	l := rt.newLive(run)
	if l.unfit != nil {
		return nil, l.unfit
	}
	last, seq := th.LastEventID, int64(0)
	var spans []Span
	var queued []Message
	var err error
	if known == nil || !known.newThread {
		if last, seq, err = ends(ctx, tx, th); err != nil {
			return nil, err
		}
	}
	if known != nil {
		queued = known.queued
		if known.newThread {
			l.first = queued
		}
	} else {
		if spans, err = tx.Spans(ctx, run.Key); err != nil {
			return nil, err
		}
		if queued, err = tx.Queued(ctx, run.Key); err != nil {
			return nil, err
		}
	}
	l.w = newWriter(th, run.Key, l.spanName(run), last, seq)
	l.span = Span{
		RunKey: run.Key, N: len(spans) + 1, ThreadKey: th.Key, RunID: l.w.runID,
		Generation: run.Generation, First: l.w.last + 1, State: th.State,
	}
	it := &item{}
	answered := run.Answered
	if answered {
		if err := l.load(ctx, tx, run, spans); err != nil {
			return nil, err
		}
	} else {
		l.began = began{state: th.State, upTo: l.span.First}
		if err := l.reset(ctx, tx, it, len(spans) > 0); err != nil {
			return nil, err
		}
	}
	first, rest := fitting(queued)
	if answered { // the worker is called again with the input it had
		first, rest = nil, queued
	}
	l.inbox.Store(int64(len(rest))) // it meets them at its next Next, or goes once more for them
	if err := l.w.started(it, run, first); err != nil {
		return nil, err
	}
	if len(spans) == 0 {
		if err := l.prepare(ctx, tx, it, th); err != nil {
			return nil, err
		}
	}
	if answered {
		if err := l.answered(ctx, tx, it); err != nil {
			return nil, err
		}
	}
	rows := slices.Concat(it.rows, []Row{&l.span})
	if known == nil {
		rt.claimed(run, tx.Now())
		rows = append(rows, run)
	}
	l.run = *run
	if err := tx.Put(rows...); err != nil {
		return nil, err
	}
	out.recs = append(out.recs, it.recs...)
	out.evs = append(out.evs, it.evs...)
	out.live, out.began = l, l.executions()
	return l, nil
}

// fitting splits messages into those that fit into one RUN_STARTED, which are a worker's input, and the rest, which only
// appended messages can make: a request's own fit.
func fitting(msgs []Message) (first, rest []Message) {
	size := 0
	for i := range msgs {
		if size += len(msgs[i].AppendJSON(nil, agui.Stored)); size > maxMessages {
			return msgs[:i], msgs[i:]
		}
	}
	return msgs, nil
}

// claimed makes a run's row this instance's.
func (rt *Runtime) claimed(run *Run, now time.Time) {
	run.Status, run.Owner, run.Answered, run.FinishedAt = Running, rt.instance, false, nil
	if run.StartedAt == nil {
		run.StartedAt = &now
	}
}

func (l *live) spanName(run *Run) string {
	if l.input.SpanName != "" {
		return l.input.SpanName
	}
	return run.ID
}

// start makes the run live and executes it. It is called after the claim was committed.
func (l *live) start() {
	rt := l.rt
	l.ctx, l.cancel = context.WithCancelCause(rt.abandoned)
	l.t = rt.hold(l.w.thread.Key, l.w.thread.ID)
	l.t.mu.Lock()
	l.t.known, l.t.busy = true, true
	l.t.changes++
	l.t.committed = max(l.t.committed, l.w.last) // what the claim wrote is stored, and what the last owner had written
	l.t.mu.Unlock()
	rt.liveRuns.Add(1)
	rt.running.Add(1)
	rt.mu.Lock()
	rt.live[l.run.Key] = l
	rt.mu.Unlock()
	go l.loop() // Shutdown waits for rt.running
}

// ends returns the ids of the thread's last event and of its last message.
func ends(ctx context.Context, r Reader, th *Thread) (last, seq int64, err error) {
	if last, err = r.LastEventID(ctx, th.Key); err != nil {
		return 0, 0, err
	}
	seq, err = r.LastSeq(ctx, th.Key)
	return max(last, th.LastEventID), seq, err
}

// reset gives a generation that begins its nodes. Its steps are numbered behind those of earlier ones.
func (l *live) reset(ctx context.Context, r Reader, it *item, restarted bool) error {
	if restarted {
		if err := l.countSteps(ctx, r); err != nil {
			return err
		}
	}
	for _, n := range l.graph.nodes {
		node := &Node{RunKey: l.run.Key, NodeID: n.ID, Status: Pending}
		l.nodes[n.ID] = node
		if len(l.graph.nodes) > 1 || restarted { // a lone node's first row comes with its step
			row := *node
			it.rows = append(it.rows, &row)
		}
	}
	return nil
}

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

// prepare applies what the run's input does to the thread: hidden messages and another state.
func (l *live) prepare(ctx context.Context, tx Tx, it *item, th *Thread) error {
	in := &l.input
	hidden := false
	if in.RollBack != nil {
		if err := tx.HideMessages(th.Key, in.RollBack.Runs, 0); err != nil {
			return err
		}
		hidden = true
	}
	if in.RewindTo != "" {
		msgs, err := tx.MessagesByID(ctx, th.Key, []string{in.RewindTo})
		if err != nil {
			return err
		}
		if len(msgs) > 0 && msgs[0].Seq > 0 {
			if err := tx.HideMessages(th.Key, nil, msgs[0].Seq+1); err != nil {
				return err
			}
			hidden = true
		}
	}
	if hidden {
		if err := l.rewound(ctx, tx, it, th); err != nil {
			return err
		}
	}
	state := in.begins(th.State)
	l.began.state = state
	if !hidden && string(state) == string(th.State) {
		return nil
	}
	return l.w.stage(it, agui.StateSnapshot{Snapshot: state})
}

// rewound stages the MESSAGES_SNAPSHOT that tells clients what is left, with what this run brings.
func (l *live) rewound(ctx context.Context, tx Tx, it *item, th *Thread) error {
	left, err := tx.Messages(ctx, th.Key, 0, promptMessages)
	if err != nil {
		return err
	}
	msgs := append(contents(left), l.w.fold.Messages()...) // what this run brings
	return l.w.stage(it, agui.MessagesSnapshot{Messages: newest(msgs)})
}

// contents are the messages of rows, as clients keep them.
func contents(rows []Message) []agui.Message {
	msgs := make([]agui.Message, len(rows))
	for i := range rows {
		msgs[i] = rows[i].Message
	}
	return inOrder(msgs)
}

// newest returns the newest messages that fit into one event.
func newest(msgs []agui.Message) []agui.Message {
	size := 0
	for i, m := range slices.Backward(msgs) {
		if size += len(m.AppendJSON(nil, agui.Stored)); size > maxMessages {
			return msgs[i+1:]
		}
	}
	return msgs
}

// load reads what the run's generation has come to: where it began, its nodes, steps, records and messages.
func (l *live) load(ctx context.Context, r Reader, run *Run, spans []Span) error {
	for _, s := range spans {
		if s.Generation == run.Generation {
			l.began = began{state: s.State, upTo: s.First}
			if s.N == 1 {
				l.began.state = l.input.begins(s.State)
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
		l.memos[memoKey{m.Step, m.Name, m.N}] = m
		if tool, ok := callName(m.Name); ok && m.CallID != "" {
			l.calls[m.CallID] = tool
		}
	}
	return l.loadMessages(ctx, r, run)
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
	for _, n := range l.graph.nodes {
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
		msgs, _, err := r.RunMessages(ctx, run.Key, after, promptMessages)
		if err != nil {
			return err
		}
		for i := range msgs {
			if after = msgs[i].Key; msgs[i].State == MessageConsumed {
				l.w.messages[msgs[i].ID] = &msgs[i]
				known = append(known, msgs[i].Message)
			}
		}
		if len(msgs) < promptMessages {
			break
		}
	}
	l.w.fold = fold.New(l.w.thread.State, known)
	return nil
}

// callName returns the tool of a call's memo.
func callName(memo string) (tool string, ok bool) {
	return strings.CutPrefix(memo[strings.LastIndexByte(memo, '/')+1:], "tool:")
}

// answered opens the span of an answer: the steps that waited go on, and what a client answered for its
// own tools becomes their results.
func (l *live) answered(ctx context.Context, tx Tx, it *item) error {
	var owed []string
	for _, m := range l.memos {
		if _, ok := callName(m.Name); ok && !m.Done {
			owed = append(owed, m.CallID)
		}
	}
	all, err := tx.Interrupts(ctx, l.run.Key)
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
		it.rows = append(it.rows, &stepRow, &nodeRow)
		if err := l.w.stage(it, agui.StepStarted{Base: agui.Base{Agent: l.graph.worker(st.NodeID)}, StepName: st.Name}); err != nil {
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
func (l *live) take(it *item, in *Interrupt) error {
	if in.Status != interruptAnswered {
		return nil
	}
	in.Status = interruptResolved
	it.rows = append(it.rows, in)
	if !in.Frontend {
		return nil
	}
	m := l.memos[memoKey{in.Step, in.Name, in.N}]
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

func (g *graph) worker(node string) string {
	for _, n := range g.nodes {
		if n.ID == node {
			return n.worker()
		}
	}
	return node
}

// needed reports whether a node needs the one named id.
func (g *graph) needed(id string) bool {
	for _, n := range g.nodes {
		if slices.Contains(n.Needs, id) {
			return true
		}
	}
	return false
}
