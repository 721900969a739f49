package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/monitor"
)

// claiming prepares the claim of a queued run for which was reserved.
func (en *Engine) claiming(ctx context.Context, head *model.RunHead, reserved *reservation) (*commit.Item, error) {
	th, err := en.store.Thread(ctx, head.ThreadKey)
	if err != nil {
		return nil, model.Gone(err, decide.ErrThreadNotFound)
	}
	run, err := en.store.Run(ctx, head.Key)
	if err != nil {
		return nil, model.Gone(err, decide.ErrRunNotFound)
	}
	if run.Status != model.Queued {
		return nil, decide.ErrNotClaimed
	}
	queued, err := en.store.Queued(ctx, run.Key)
	if err != nil {
		return nil, err
	}
	l := en.newLive(&run)
	if l.unfit != nil {
		return nil, fmt.Errorf("%w: %w", errUnfit, l.unfit)
	}
	l.reserved = reserved
	return l.claiming(ctx, &th, &run, queued)
}

// claiming prepares the claim: the events that open the span, numbered behind the thread's last.
func (l *live) claiming(ctx context.Context, th *model.Thread, run *model.Run, queued []model.Message) (*commit.Item, error) {
	en := l.en
	l.span = en.nextSpan(th, run, th.LastEventID, th.LastSeq)
	c := &decide.Claim{
		Thread: th.Key, Run: run.Key, Instance: en.cfg.Instance, Span: l.span.row,
		Basis: decide.BasisOf(&th.ThreadHead, &run.RunHead, lastKey(queued)),
	}
	it := &commit.Item{}
	if err := l.open(ctx, it, th, run, queued); err != nil {
		return nil, err
	}
	c.Shows, c.Rows, c.Events = l.span.began.shows, it.Rows, it.Events
	claim := &commit.Item{Run: l.span.run, Records: it.Records, Ticks: it.Ticks, Command: c, Takes: true, Then: l.begins}
	for i := range it.Events {
		claim.Bytes += len(it.Events[i].Payload)
	}
	if run.Answered {
		claim.Began = l.executions()
	}
	return claim, nil
}

// open stages what opens the span: RUN_STARTED with the messages that are new, what the run does to the thread when it
// begins, or what its answers amount to when it goes on.
func (l *live) open(ctx context.Context, it *commit.Item, th *model.Thread, run *model.Run, queued []model.Message) error {
	if run.Answered { // the worker is called again with the input it had; it meets what came meanwhile at its next Next
		spans, err := l.en.store.Spans(ctx, run.Key)
		if err != nil {
			return err
		}
		if err := l.load(ctx, l.en.store, run, spans); err != nil {
			return err
		}
		l.inbox.Store(int64(len(queued)))
		asked, err := l.en.store.Interrupts(ctx, run.Key)
		if err != nil {
			return err
		}
		if err := l.span.started(it, run, nil, answersIn(asked), l.input.Trace); err != nil {
			return err
		}
		return l.answered(it, asked)
	}
	l.span.began = began{state: th.State, upTo: l.span.row.First}
	if run.Generation > 1 { // its steps are numbered behind those of earlier ones
		steps, err := l.en.store.Steps(ctx, run.Project, run.Key, 0, 1)
		if err != nil {
			return err
		}
		l.nodes.count = steps.Total
	}
	it.Rows = append(it.Rows, l.nodes.reset(run)...)
	if edited := l.input.Edited; edited != nil && run.Generation == 1 {
		m := model.Message{ThreadKey: th.Key, RunKey: run.Key, ContextItemIDs: run.ContextItemIDs, Message: *edited}
		queued = slices.Concat([]model.Message{m}, queued)
	}
	first, rest := fitting(queued, l.en.cfg.FrameBytes)
	l.inbox.Store(int64(len(rest))) // it meets them at its next Next, or goes once more for them
	if err := l.span.started(it, run, first, nil, l.input.Trace); err != nil {
		return err
	}
	if err := l.prepare(ctx, it, th, run); err != nil {
		return err
	}
	return l.enterAgent(it, run, first)
}

// enterAgent begins the step of a run of one agent together with its span, so that both are one commit. That takes a user's
// message among those that the run brings: what else it may be asked the thread tells, which is read later.
func (l *live) enterAgent(it *commit.Item, run *model.Run, first []model.Message) error {
	asked := slices.ContainsFunc(first, func(m model.Message) bool { return m.Role == agui.RoleUser })
	if run.Agent == "" || !asked {
		return nil
	}
	_, err := l.enter(it, l.nodes.graph.Nodes[0], cmp.Or(Query(log.Contents(first)), run.InputQuery))
	return err
}

// fitting splits messages into those that fit into one RUN_STARTED of so many bytes, which are a worker's input, and the rest, which only
// appended messages can make: a request's own fit.
func fitting(msgs []model.Message, event int) (first, rest []model.Message) {
	size := 0
	for i := range msgs {
		if size += len(msgs[i].Stored()); size > log.MaxMessages(event) && i > 0 { // one alone is as large as an event may be
			return msgs[:i], msgs[i:]
		}
	}
	return msgs, nil
}

// begins makes the run live and executes it, as it was decided.
func (l *live) begins(out *decide.Decided) {
	en := l.en
	l.run.RunHead = out.Run
	l.offer = en.offers.hold()
	ctx, traced := en.tracer.Begin(en.tracer.Within(en.abandoned, l.input.Trace), l.op(OpRun, l.run.WorkflowID, ""))
	l.traced = traced
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.plugins = l.offer.plugins.For(l.run.Project)
	l.t = en.cfg.Logs.Hold(l.span.thread.Key, l.span.thread.ID)
	l.t.Begin(l.span.last) // what the claim wrote is stored, and what the last owner had written
	l.reserved.settle(l.span.fold.Grown())
	en.queue.nudge()
	en.liveRuns.Add(1)
	en.running.Add(1)
	en.mu.Lock()
	en.live[l.run.Key] = l
	en.mu.Unlock()
	go l.loop() // Shutdown waits for en.running
}

// executions are those of workers that go on when the run becomes live: of steps that were left running, and
// of sub-agents that are open.
func (l *live) executions() []monitor.Execution {
	var all []monitor.Execution
	for _, st := range l.nodes.steps {
		if agent := l.nodes.graph.Agent(st.NodeID); agent != "" && st.Status == model.Running {
			all = append(all, monitor.Execution{ID: st.ID, Agent: agent})
		}
	}
	for id := range l.journal.open {
		if m := l.journal.call(id); m.Agent != "" && l.span.ver.SubagentOpen(id) {
			all = append(all, monitor.Execution{ID: id, Agent: m.Agent})
		}
	}
	return all
}

// prepare applies what the run's first generation does to the thread: hidden messages and another state.
func (l *live) prepare(ctx context.Context, it *commit.Item, th *model.Thread, run *model.Run) error {
	hides, state, err := l.rolledBack(ctx, run, th.State)
	if err != nil {
		return err
	}
	if run.Generation == 1 {
		if l.input.RewindTo != "" {
			msgs, err := l.en.store.MessagesByID(ctx, th.Key, []string{l.input.RewindTo})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(msgs, func(m model.Message) bool {
				return m.ID == l.input.RewindTo && m.State == model.MessageConsumed
			})
			if i < 0 { // another run has hidden it while this one was queued
				return decide.ErrUnknownMessage
			}
			hides = append(hides, model.Hide{ThreadKey: th.Key, FromSeq: msgs[i].Seq + 1})
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
	l.span.began.state = state
	if len(hides) == 0 && string(state) == string(th.State) {
		return nil
	}
	return l.span.stage(it, agui.StateSnapshot{Snapshot: state})
}

// rolledBack says what to hide of the runs that the run has made room by rolling back, and the state before the oldest of
// them.
func (l *live) rolledBack(ctx context.Context, run *model.Run, state json.RawMessage) ([]model.Hide, json.RawMessage, error) {
	if !run.RollBack {
		return nil, state, nil
	}
	var hides []model.Hide
	oldest := int64(math.MaxInt64)
	for _, r := range run.Replaces {
		spans, err := l.en.store.Spans(ctx, r.RunKey)
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(spans, func(s model.Span) bool { return s.Generation == r.Generation })
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

// rewound stages the MESSAGES_SNAPSHOT that tells clients what is left, with what this run brings. A message that stays keeps
// the results of its calls, wherever they stand.
func (l *live) rewound(ctx context.Context, it *commit.Item, th *model.Thread, hides []model.Hide) error {
	rows, err := l.en.store.Messages(ctx, th.Key, 0, log.LatestMessages)
	if err != nil {
		return err
	}
	hidden := func(m model.Message) bool {
		return slices.ContainsFunc(hides, func(h model.Hide) bool {
			return (h.RunKey == 0 || h.RunKey == m.RunKey) && (h.FromSeq == 0 || m.Seq >= h.FromSeq) && m.EventID >= h.FromEvent
		})
	}
	called := make(map[string]bool)
	for i := range rows {
		for _, c := range rows[i].ToolCalls {
			called[c.ID] = called[c.ID] || !hidden(rows[i])
		}
	}
	var before []model.Row // what the run brings stays
	for i := range hides {
		before = append(before, &hides[i])
	}
	left := make([]model.Message, 0, len(rows))
	for i := range rows {
		switch m := rows[i]; {
		case !hidden(m):
			left = append(left, m)
		case m.Role == agui.RoleTool && called[m.ToolCallID]:
			left = append(left, m)
			before = append(before, &m) // is shown again
		}
	}
	for i := range left {
		if key := left[i].RunKey; key != 0 && key != l.run.Key && !slices.Contains(l.span.began.shows, key) {
			l.span.began.shows = append(l.span.began.shows, key)
		}
	}
	it.Rows = append(before, it.Rows...)
	msgs := append(log.Contents(left), l.span.fold.Messages()...) // what this run brings
	return l.span.stage(it, agui.MessagesSnapshot{Messages: log.Newest(msgs, l.en.cfg.FrameBytes)})
}

// answered opens the span of an answer: the steps that waited go on, and what a client answered for its
// own tools becomes their results.
func (l *live) answered(it *commit.Item, all []model.Interrupt) error {
	var owed []string
	for _, m := range l.journal.calls() {
		owed = append(owed, m.CallID)
	}
	for i := range all {
		if all[i].Frontend && all[i].Status == model.InterruptAnswered {
			owed = append(owed, all[i].ID)
		}
	}
	l.span.ver.Owe(owed...)
	for _, st := range l.nodes.resume() {
		stepRow, nodeRow := *st, *l.nodes.rows[st.NodeID]
		it.Rows = append(it.Rows, &stepRow, &nodeRow)
		if err := l.span.stage(it, agui.StepStarted{Base: agui.Base{Agent: l.nodes.graph.Worker(st.NodeID)}, StepName: st.Name}); err != nil {
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
func (l *live) take(it *commit.Item, in *model.Interrupt) error {
	if in.Status != model.InterruptAnswered {
		return nil
	}
	in.Status = model.InterruptResolved
	it.Rows = append(it.Rows, in)
	if !in.Frontend {
		return nil
	}
	m := l.journal.find(in.Step, in.Place)
	var a taken
	var out agui.ToolOutput
	if m == nil || json.Unmarshal(in.Payload, &a) != nil || json.Unmarshal(m.Output, &out) != nil {
		return fmt.Errorf("frontend call %s has no record", in.ID)
	}
	delete(l.span.calls, in.ID)
	return l.span.stage(it, agui.ToolCallResult{
		MessageID: cmp.Or(a.MessageID, NewID()), ToolCallID: in.ID, Content: out.ResultSummary, Output: &out,
	})
}
