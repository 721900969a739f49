package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/monitor"
)

// loop executes the run's graph until it ends, waits or is taken away, and then waits for every worker and
// tool it started: one that ignores its context keeps the run's slot until it returns.
func (l *live) loop() {
	defer l.en.running.Done()
	l.execute()
	l.cancel(plugins.ErrEnded)
	l.untrace()
	grace := time.AfterFunc(l.en.cfg.Grace, l.abandonAll)
	l.workers.Wait()
	grace.Stop()
	l.releaseOffer()
	l.reserved.release()
	l.t.Release()
	l.en.queue.nudge()
}

// nodeResult is how one node ended: completed, waiting, or failed with what clients learn.
type nodeResult struct {
	waiting bool
	failed  *agui.OutputError
}

func (l *live) execute() {
	limit, stop := context.WithTimeoutCause(l.ctx, l.en.cfg.RunTimeout, errTimeout)
	defer stop()
	in, err := l.prompt(limit)
	if limit.Err() != nil {
		l.late()
		return
	}
	if err != nil {
		l.settle(l.failed(&agui.OutputError{Code: "internal", Message: "The run could not be prepared"}), err)
		return
	}
	results := make(chan nodeResult, len(l.nodes.graph.Nodes))
	for running := 0; ; {
		if l.isFull() { // before what its workers make of that
			l.overflow()
			return
		}
		ready, err := l.ready(in.Query)
		if err != nil {
			l.settle(l.failed(l.explain(l.run.WorkflowID, err)), nil)
			return
		}
		for _, n := range ready {
			running++
			l.spawn(func() { results <- l.runNode(n, in) })
		}
		if running == 0 {
			l.settle(l.completed(), nil)
			return
		}
		select {
		case r := <-results:
			running--
			if r.failed != nil && l.ctx.Err() == nil && !l.isFull() {
				l.settle(l.failed(r.failed), nil)
				return
			}
		case <-l.full:
			l.overflow()
			return
		case <-limit.Done():
			l.late()
			return
		}
	}
}

// isFull reports whether a worker had more to say than a span holds.
func (l *live) isFull() bool {
	select {
	case <-l.full:
		return true
	default:
		return false
	}
}

// overflow fails a run that says too much, unless somebody else has ended it.
func (l *live) overflow() {
	if l.ctx.Err() == nil {
		l.mu.Lock()
		why := l.filled
		l.mu.Unlock()
		l.settle(l.failed(&agui.OutputError{Code: why.Code, Message: why.Message, Retryable: why.Retryable}), nil)
	}
}

// late fails a run whose time has passed, unless somebody else has ended it.
func (l *live) late() {
	if l.ctx.Err() == nil {
		l.settle(l.failed(&agui.OutputError{Code: "timeout", Message: "The run did not end in time", Retryable: true}), nil)
	}
}

// settle ends the run's span; that it was ended meanwhile is fine.
func (l *live) settle(e ending, because error) {
	if because != nil {
		l.log().Error("run fails", "error", because)
	}
	if err := l.end(e); err != nil && !errors.Is(err, errSettled) {
		l.log().Error("run could not be settled", "error", err)
	}
}

// spawn runs f on a goroutine that the run accounts for.
func (l *live) spawn(f func()) { l.workers.Go(f) }

// prompt is what the run's workers are asked. It is the same each time the generation is continued.
func (l *live) prompt(ctx context.Context) (plugins.Input, error) {
	in := plugins.Input{
		Query: l.run.InputQuery, State: l.span.began.state, Tools: l.input.Tools, Context: l.input.Context,
		ContextItemIDs: l.run.ContextItemIDs, ForwardedProps: l.input.ForwardedProps,
		ThreadID: l.span.thread.ID, RunID: l.run.ID, User: l.run.User, Project: l.run.Project,
	}
	msgs := l.first
	if msgs == nil {
		var err error
		msgs, err = commit.Patiently(ctx, func() ([]model.Message, error) {
			return l.en.store.Messages(ctx, l.span.thread.Key, l.span.began.upTo, log.LatestMessages)
		})
		if err != nil {
			return in, err
		}
	}
	in.Messages = paired(slices.DeleteFunc(log.Contents(msgs), isNotice))
	if q := Query(in.Messages); q != "" {
		in.Query = q
	}
	return in, nil
}

// isNotice reports whether a worker wrote the system message m. The log records the worker's name in its metadata; system messages
// of a request have none.
func isNotice(m agui.Message) bool {
	var said struct {
		Agent string `json:"agent"`
	}
	return m.Role == agui.RoleSystem && json.Unmarshal(m.Metadata, &said) == nil && said.Agent != ""
}

// paired leaves out of msgs, which stand in order, what model providers refuse: results whose call is not there, as it
// is hidden or too old, calls without a result or whose arguments were cut short, and a second call or result of one id,
// with the messages that hold nothing else.
func paired(msgs []agui.Message) []agui.Message {
	called, answered := make(map[string]bool), make(map[string]bool)
	for i := range msgs {
		for _, c := range msgs[i].ToolCalls {
			called[c.ID] = c.Arguments == "" || json.Valid([]byte(c.Arguments))
		}
		if m := &msgs[i]; m.Role == agui.RoleTool && called[m.ToolCallID] {
			answered[m.ToolCallID] = true
		}
	}
	list := make([]agui.Message, 0, len(msgs))
	for _, m := range msgs {
		if m.Role == agui.RoleTool {
			if !answered[m.ToolCallID] {
				continue
			}
			answered[m.ToolCallID] = false // one is enough
		}
		calls := slices.DeleteFunc(slices.Clone(m.ToolCalls), func(c agui.ToolCall) bool {
			lost := !called[c.ID] || !answered[c.ID]
			called[c.ID] = false
			return lost
		})
		if len(calls) < len(m.ToolCalls) && len(calls) == 0 && m.Content == "" && m.Parts == nil {
			continue
		}
		m.ToolCalls = calls
		list = append(list, m)
	}
	return list
}

// ready returns the nodes that can start now.
func (l *live) ready(query string) ([]*graph.Node, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, skipped, err := l.nodes.ready(query, l.span.state())
	if len(skipped) > 0 {
		l.put(skipped...)
	}
	return start, err
}

// runNode executes a node, again after retryable failures, until it has a result.
func (l *live) runNode(n *graph.Node, in plugins.Input) nodeResult {
	pause := commit.Pauses(orDefault(n.Retry.Initial, 500*time.Millisecond), orDefault(n.Retry.Max, 30*time.Second))
	for {
		st, err := l.begin(n, in)
		if err != nil {
			return nodeResult{failed: l.explain(n.ID, err)}
		}
		r := l.attempt(n, st, in)
		if !again(n, st, r) {
			return r
		}
		t := time.NewTimer(pause.NextBackOff())
		select {
		case <-t.C:
		case <-l.ctx.Done():
			t.Stop()
			return r
		}
	}
}

// again reports whether a node is executed once more after an execution that ended so.
func again(n *graph.Node, st *model.Step, r nodeResult) bool {
	return r.failed != nil && r.failed.Retryable && st.Execution < n.Retry.Attempts
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// begin opens the node's next execution, or returns the one that a crash or a question left open.
func (l *live) begin(n *graph.Node, in plugins.Input) (*model.Step, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate != nil {
		return nil, l.gate
	}
	last := l.nodes.steps[n.ID]
	if last != nil && !last.Status.Final() {
		return last, nil
	}
	query, err := n.Query(in.Query, l.nodes.scope(in.Query, l.span.state()), l.nodes.rows)
	if err != nil {
		return nil, err
	}
	it := l.item()
	st, err := l.enter(it, n, query)
	if err == nil {
		l.en.commits.Add(it)
	}
	return st, err
}

// enter stages the beginning of the node's next execution. l.mu is held.
func (l *live) enter(it *commit.Item, n *graph.Node, query string) (*model.Step, error) {
	st, node := l.nodes.begin(n, &l.run, query)
	stepRow, nodeRow := *st, *node
	it.Rows = append(it.Rows, &stepRow, &nodeRow)
	if n.Agent != "" {
		it.Ticks = append(it.Ticks, monitor.Tick{At: len(it.Records), Step: st.ID, Agent: n.Agent, When: st.StartedAt, Status: model.Running})
	}
	if err := l.span.stage(it, agui.StepStarted{Base: agui.Base{Agent: n.Worker()}, StepName: st.Name}); err != nil {
		return nil, err
	}
	l.nodes.steps[n.ID] = st
	return st, nil
}

// attempt is one execution of a node.
func (l *live) attempt(n *graph.Node, st *model.Step, in plugins.Input) nodeResult {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.timeout(n), errTimeout)
	defer cancel()
	s := newStep(ctx, l, st.Number, n.ID, n.Worker())
	s.approval = n.Approval && n.Tool != ""
	in.Query, in.Node, in.Execution = st.Input, n.ID, st.Execution
	out, err := l.call(ctx, n, s, in)
	if cause := context.Cause(l.ctx); cause != nil {
		s.end()
		return nodeResult{failed: &agui.OutputError{Code: codeCancelled, Message: cause.Error()}}
	}
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		err = errTimeout
	}
	return l.close(s, n, st, out, err)
}

// timeout is how long one execution of a node may take: what the workflow says, or the agent.
func (l *live) timeout(n *graph.Node) time.Duration {
	limit := l.en.cfg.StepTimeout
	if a, ok := l.plugins.Agent(n.Agent); ok {
		limit = orDefault(a.Info().Timeout, limit)
	}
	return orDefault(n.Timeout, limit)
}

// call runs the node's worker or tool. A worker that is still there when the grace after its timeout has
// passed is abandoned.
func (l *live) call(ctx context.Context, n *graph.Node, s *step, in plugins.Input) (nodeOutput, error) {
	if n.Tool != "" {
		out, err := s.toolNode(ctx, n.Tool, json.RawMessage(in.Query))
		if err == nil && out.Status == agui.StatusFailure {
			why := cmp.Or(out.Error, &agui.OutputError{Code: "tool_failed", Message: out.ResultSummary})
			err = &plugins.Error{Code: why.Code, Message: why.Message, Retryable: why.Retryable}
		}
		return nodeOutput{text: out.ResultSummary, json: mustJSON(out), made: out.ToolCallArgs}, err
	}
	agent, ok := l.plugins.Agent(n.Agent)
	if !ok {
		return nodeOutput{}, &plugins.Error{Code: "agent_gone", Message: fmt.Sprintf("There is no agent %q any more", n.Agent)}
	}
	if n.Approval {
		if err := s.approveAgent(in.Query); err != nil {
			return nodeOutput{}, err
		}
	}
	type result struct {
		out agui.WorkerOutput
		err error
	}
	done := make(chan result, 1)
	e := l.send(aWorker, n.Agent, func() {
		ctx, end := l.en.trace(ctx, l.op(OpAgent, n.Agent, ""))
		out, err := plugins.Execute(ctx, agent, s, in)
		end(l.ended(err))
		done <- result{out, err}
	})
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		grace := time.NewTimer(l.en.cfg.Grace)
		defer grace.Stop()
		select {
		case r = <-done:
		case <-l.ctx.Done(): // somebody else ends the run
			r.err = context.Cause(ctx)
		case <-grace.C:
			l.abandon(e)
			r.err = context.Cause(ctx)
		}
	}
	out := &r.out
	raw, err := model.JSON(out)
	if err != nil { // its members may hold anything
		return nodeOutput{}, cmp.Or(r.err, fmt.Errorf("output: %w", err))
	}
	if len(raw) > answerBytes(l.en.cfg.FrameBytes) {
		raw = mustJSON(bounded(out, l.en.cfg.FrameBytes))
	}
	return nodeOutput{text: outputText(r.out), json: raw}, r.err
}

// nodeOutput is what a node gave, as its step shows it and as later nodes see it.
type nodeOutput struct {
	text string
	json json.RawMessage
	made json.RawMessage // the arguments that a tool was called with, nil unless they are an object
}

// close ends an execution: its step and node rows are written with the event that says so.
func (l *live) close(s *step, n *graph.Node, st *model.Step, out nodeOutput, err error) nodeResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate != nil {
		return nodeResult{failed: &agui.OutputError{Code: codeInterrupted, Message: l.gate.Error()}}
	}
	it := l.item()
	if err == nil {
		err = s.owed
	}
	for _, ev := range s.takeHeld() {
		if stageErr := l.stage(it, s, ev); stageErr != nil && err == nil {
			err = stageErr
		}
	}
	s.ended = true
	l.turn.Broadcast()
	now := time.Now()
	node := l.nodes.rows[st.NodeID]
	var r nodeResult
	switch {
	case errors.Is(err, plugins.ErrWaiting):
		st.Status, node.Status = model.Waiting, model.Waiting
		r.waiting = true
	case err != nil:
		r.failed = l.explain(s.agent, err)
		st.Status, st.Error, st.CompletedAt = model.Failed, r.failed, &now
		if !again(n, st, r) { // else the node goes on with its next execution, also after a crash
			node.Status, node.Error, node.CompletedAt = model.Failed, r.failed, &now
		}
	default:
		text := Plain(out.text)
		st.Status, st.Output, st.CompletedAt = model.Completed, &text, &now
		node.Status, node.Output, node.CompletedAt, node.Progress = model.Completed, out.json, &now, 1
		if l.run.Attempt > 0 { // crashes count from one completed node to the next
			l.run.Attempt = 0
			it.Rows = append(it.Rows, &model.RunSettled{Key: l.run.Key})
		}
	}
	if out.made != nil && st.Status.Final() { // a person may have edited it
		st.Input = Plain(string(out.made))
	}
	left := agui.WorkerOutput{Status: agui.StatusSuccess}
	if r.failed != nil {
		left = agui.WorkerOutput{Status: agui.StatusFailed, Error: r.failed}
	}
	stageErr := s.closeOpen(it, left, codeInterrupted, !r.waiting)
	if stageErr == nil && !r.waiting { // the end of the span closes the steps that wait
		stageErr = l.span.stage(it, agui.StepFinished{Base: agui.Base{Agent: s.agent}, StepName: st.Name})
	}
	if stageErr != nil && l.filled == nil { // a run that may say no more is closed as a whole
		l.log().Error("step could not be closed", "error", stageErr)
	}
	if n.Agent != "" {
		it.Ticks = append(it.Ticks, monitor.Tick{At: len(it.Records), Step: st.ID, Agent: n.Agent, When: now, Status: st.Status, Err: r.failed})
	}
	stepRow, nodeRow := *st, *node
	it.Rows = append(it.Rows, &stepRow, &nodeRow)
	l.en.commits.Add(it)
	return r
}

// outputText is what a step's row shows of its output.
func outputText(out agui.WorkerOutput) string { return clip(out.Answer, 64<<10) }
