package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/span"
)

// execution executes one node of a run.
type execution struct {
	l     *Live
	limit context.Context // done when the run has to end
	n     *graph.Node
	in    plugins.Input
	items string     // of a map as a whole, for the approval
	st    *data.Step // of the attempt
	s     *step      // likewise
}

// execute executes the node, again after retryable failures, until it has a result. The result is empty if the run has to end.
func (x *execution) execute() nodeResult {
	if x.n.Whole() {
		var err error
		if x.items, err = x.unfold(); err != nil {
			return x.unbegun(err)
		}
		if x.items == "" {
			return nodeResult{}
		}
	}
	pause, longest := orDefault(x.n.Retry.Initial, 500*time.Millisecond), orDefault(x.n.Retry.Max, 30*time.Second)
	for {
		err := x.begin()
		switch {
		case errors.Is(err, errNodeOver):
			return nodeResult{}
		case err != nil:
			return x.unbegun(err)
		}
		r := x.attempt()
		if r.interrupted {
			continue
		}
		if !x.again(r) {
			return r
		}
		t := time.NewTimer(commit.Spread(pause))
		pause = min(2*pause, longest)
		select {
		case <-t.C:
		case <-x.limit.Done():
			t.Stop()
			return nodeResult{}
		}
	}
}

// unbegun returns the result of a node of which an execution cannot begin.
func (x *execution) unbegun(err error) nodeResult {
	r := nodeResult{failed: x.l.explain(x.n.ID, err)}
	x.l.out.mu.Lock()
	defer x.l.out.mu.Unlock()
	if r.caught = x.l.out.span.Gate() == nil && x.limit.Err() == nil && x.n.Catches(r.failed); r.caught {
		x.l.out.put(x.l.out.nodes.FailNode(x.n.ID, r.failed))
	}
	return r
}

// errNodeOver means that a map has ended before its item.
var errNodeOver = errors.New("the node has ended")

// begin opens the node's next execution, or continues the one that a crash or a question left open.
func (x *execution) begin() error {
	x.l.out.mu.Lock()
	defer x.l.out.mu.Unlock()
	if x.l.out.span.Gate() != nil {
		return x.l.out.span.Gate()
	}
	if x.l.out.nodes.Over(x.n) {
		return errNodeOver
	}
	x.in.Interruptions = x.l.out.interruptions
	if x.st = x.l.out.nodes.Open(x.n); x.st != nil {
		if x.st.Status == data.Waiting { // it has rested
			x.l.out.nodes.Go(x.st)
			x.l.out.put(x.l.out.nodes.Rows(x.st)...)
		}
		return nil
	}
	query, err := x.items, error(nil)
	if !x.n.Whole() {
		now := x.l.out.nodes.Scene(x.in.Query, x.l.out.span.State(), x.n)
		x.l.out.mu.Unlock()
		query, err = now.Query(x.limit, x.n)
		x.l.out.mu.Lock()
	}
	if err != nil {
		return err
	}
	if x.l.out.span.Gate() != nil {
		return x.l.out.span.Gate()
	}
	if query == x.in.Query {
		query = data.Shown(query)
	}
	it := x.l.out.item()
	if x.st, err = x.l.out.enter(it, x.n, query); err == nil {
		x.l.cfg.Commits.Add(it)
	}
	return err
}

func (x *execution) attempt() nodeResult {
	ctx, cancel := calls.WithTimeout(x.l.ctx, x.timeout())
	defer cancel()
	x.s = newStep(ctx, x.l, x.st.Number, x.n.ID, x.n.Worker())
	x.s.approves = x.n.Approval && x.n.Tool != ""
	x.s.approver, x.s.message = x.n.Approver, x.message
	in := x.in
	in.Node, in.Execution = x.n.ID, x.st.Execution
	if x.l.run.Agent == "" {
		in.Workflow = x.l.run.WorkflowID
	}
	if x.st.Input != data.Shown(in.Query) { // otherwise the step has the run's query; the row may hold only its beginning
		in.Query = x.st.Input
	}
	x.l.out.mu.Lock()
	delete(x.l.out.naps, x.st.Number)
	x.l.out.mu.Unlock()
	x.l.Rests.Enter(x.st.Number)
	out, err := x.call(ctx, in)
	x.l.Rests.Leave(x.st.Number)
	if x.limit.Err() != nil {
		return nodeResult{}
	}
	if err != nil && errors.Is(context.Cause(ctx), calls.ErrTimeout) {
		err = calls.ErrTimeout
	}
	if why, ok := errors.AsType[*plugins.Interrupted](err); ok {
		if err = x.s.interrupt(why); err == nil {
			return nodeResult{interrupted: true}
		}
	}
	if err == nil && x.n.Rounds() > 0 {
		err = x.judge(&out)
	}
	return x.close(out, err)
}

// judge decides whether the output of a round ends the node.
func (x *execution) judge(out *nodeOutput) error {
	over, err := x.scene().Over(x.limit, x.n, out.json)
	if err != nil || over {
		return err
	}
	if out.again = x.st.Round < x.n.Rounds(); !out.again {
		out.json, err = x.n.Cut(out.json)
	}
	return err
}

// scene returns the values on which the node's expressions are evaluated.
func (x *execution) scene() *plan.Scene {
	x.l.out.mu.Lock()
	defer x.l.out.mu.Unlock()
	return x.l.out.nodes.Scene(x.in.Query, x.l.out.span.State(), x.n)
}

// message returns the question of the node or its approval, "" for the default.
func (x *execution) message() (string, error) { return x.scene().Message(x.limit, x.n) }

// await waits for the time or the event of the node's wait, once: it is over before the node is executed again.
func (x *execution) await(ctx context.Context) (got plugins.Received, err error) {
	if !x.n.Waits() || x.st.Execution > 1 || x.st.Round > 1 {
		return got, nil
	}
	u := plugins.Use{Place: journal.WaitPlace}
	if x.n.Wait.Event != "" {
		return x.s.Wait(ctx, u, plugins.Wait{Event: x.n.Wait.Event, For: cmp.Or(x.n.Wait.Within, plugins.LongestWait)})
	}
	m, err := x.s.em.memo(u)
	if err != nil {
		return got, err
	}
	var wait plugins.Wait
	if m.Output == nil {
		if wait.Until, err = x.scene().Until(x.limit, x.n); err != nil {
			return got, err
		}
	}
	return x.s.Wait(ctx, u, wait)
}

// timeout returns how long one execution of a node may take, as set by the workflow or else by the agent.
func (x *execution) timeout() time.Duration {
	limit := x.l.cfg.StepTimeout
	if a, ok := x.l.plugins.Agent(x.n.Agent); ok {
		limit = orDefault(a.Info().Timeout, limit)
	}
	return orDefault(x.n.Timeout, limit)
}

// ask asks the node's question, or returns its answer.
func (x *execution) ask() (nodeOutput, error) {
	m, err := x.s.em.memo(plugins.Use{Place: journal.AskPlace})
	if err != nil {
		return nodeOutput{}, err
	}
	if _, err := x.s.approval(m, "", x.n.Approver, func() (agui.Interrupt, error) {
		message, err := x.message()
		return agui.Interrupt{
			Reason: "input_required", Message: message, ResponseSchema: x.n.Ask.Schema, Metadata: data.MustJSON(map[string]any{"nodeId": x.n.ID}),
		}, err
	}); err != nil {
		return nodeOutput{}, err
	}
	var given journal.Given
	if err := json.Unmarshal(m.Output, &given); err != nil {
		return nodeOutput{}, err
	}
	out, err := x.scene().Answered(x.limit, x.n, given.Answer, given.By)
	return nodeOutput{text: data.Clip(graph.Answer(out), data.MaxShown), json: out, skips: out == nil}, err
}

// call waits, and runs the node's worker or tool. A worker that has not returned when the grace after its timeout ends is abandoned.
func (x *execution) call(ctx context.Context, in plugins.Input) (nodeOutput, error) {
	if x.n.Whole() {
		return nodeOutput{}, x.s.approveAgent(in.Query)
	}
	got, err := x.await(ctx)
	switch {
	case err != nil:
		return nodeOutput{}, err
	case x.n.Wait.Event != "":
		out := graph.Waited(got)
		return nodeOutput{text: data.Clip(graph.Answer(out), data.MaxShown), json: out}, nil
	case x.n.Agent == "" && x.n.Tool == "" && x.n.Ask == nil:
		return nodeOutput{}, nil
	}
	if x.n.Ask != nil {
		return x.ask()
	}
	if x.n.Tool != "" {
		out, err := x.s.toolNode(ctx, x.n.Tool, json.RawMessage(in.Query))
		if err == nil && out.Status == agui.StatusFailure {
			why := cmp.Or(out.Error, &agui.OutputError{Code: "tool_failed", Message: out.ResultSummary})
			err = &plugins.Error{Code: why.Code, Message: why.Message, Retryable: why.Retryable}
		}
		return nodeOutput{text: out.ResultSummary, json: graph.ToolResult(x.l.plugins, x.n.Tool, data.MustJSON(out), &out), made: out.ToolCallArgs}, err
	}
	agent, ok := x.l.plugins.Agent(x.n.Agent)
	if !ok {
		return nodeOutput{}, &plugins.Error{Code: "agent_gone", Message: fmt.Sprintf("There is no agent %q any more", x.n.Agent)}
	}
	if x.n.Approval {
		if err := x.s.approveAgent(in.Query); err != nil {
			return nodeOutput{}, err
		}
	}
	s := x.s
	out, err := calls.Do(ctx, x.limit, &x.l.calls, calls.Agent, x.n.Agent, func() (agui.WorkerOutput, error) {
		ctx, end := observe.Begin(ctx, x.l.cfg.Tracer, x.l.op(observe.OpAgent, x.n.Agent, ""))
		out, err := plugins.Execute(ctx, agent, s, in)
		end(endOf(err))
		return out, err
	})
	raw, jsonErr := data.JSON(&out)
	if jsonErr != nil { // raw members may be invalid JSON
		return nodeOutput{}, cmp.Or(err, fmt.Errorf("output: %w", jsonErr))
	}
	if len(raw) > span.AnswerBytes(x.l.cfg.FrameBytes) {
		raw = data.MustJSON(span.Bounded(&out, x.l.cfg.FrameBytes))
	}
	return nodeOutput{text: data.Clip(out.Answer, data.MaxShown), json: raw}, err
}

// close ends an execution: it writes the step and node rows together with the event that ends the step. If the run is over with it, the
// end of the run writes them.
func (x *execution) close(out nodeOutput, err error) nodeResult {
	x.l.out.mu.Lock()
	defer x.l.out.mu.Unlock()
	if x.l.out.span.Gate() != nil {
		return nodeResult{failed: &agui.OutputError{Code: span.CodeInterrupted, Message: x.l.out.span.Gate().Error()}}
	}
	it := x.l.out.item()
	if err == nil {
		err = x.s.em.refused
	}
	it.Rows = append(it.Rows, x.l.out.takeOwed()...)
	for _, ev := range x.s.em.takeHeld() {
		if stageErr := x.l.out.stage(it, &x.s.em, ev); stageErr != nil && err == nil {
			err = stageErr
		}
	}
	x.s.w.Ended = true
	x.l.out.turn.Broadcast()
	var r nodeResult
	if n := x.l.out.naps[x.st.Number]; n != nil && errors.Is(err, plugins.ErrWaiting) {
		r.rests = &resting{x, n}
		if !x.l.out.journal.Asks(x.st.Number) {
			x.rest(it)
			return r
		}
	}
	switch {
	case errors.Is(err, plugins.ErrWaiting):
		x.l.out.nodes.Wait(x.st)
		r.waiting = true
	case err != nil:
		r.failed = x.l.explain(x.s.w.Agent, err)
		r.caught = x.n.Catches(r.failed)
		x.l.out.nodes.Fail(x.st, r.failed, x.again(r))
	default:
		x.l.out.nodes.Complete(x.st, data.Plain(out.text), out.json)
		switch {
		case out.again: // the run goes on with it as with a node that has become ready
			x.l.out.nodes.Repeat(x.st)
		case out.skips:
			x.l.out.nodes.Skip(x.n)
		}
		x.l.out.progressed(it)
	}
	if out.made != nil && x.st.Status.Final() { // a person may have edited it
		x.st.Input = data.Plain(string(out.made))
	}
	left := agui.WorkerOutput{Status: agui.StatusSuccess}
	if r.failed != nil {
		left = agui.WorkerOutput{Status: agui.StatusFailed, Error: r.failed}
	}
	stageErr := x.s.em.closeOpen(it, left, !r.waiting)
	if stageErr == nil && !r.waiting { // the end of the span closes waiting steps
		stageErr = x.l.out.span.Stage(it, agui.StepFinished{Base: agui.Base{Agent: x.s.w.Agent}, StepName: x.st.Name})
	}
	if stageErr != nil && !x.l.out.span.Exceeded() { // a run that has exceeded a limit is closed as a whole
		x.l.log().Error("step could not be closed", "error", stageErr)
	}
	it.Rows = append(it.Rows, x.l.out.nodes.Rows(x.st)...)
	if x.l.run.Agent != "" && !r.waiting && !x.again(r) {
		x.l.out.closed = it
		return r
	}
	x.l.cfg.Commits.Add(it)
	if r.failed != nil && x.n.Tolerates(r.failed) && !x.again(r) {
		r.failed = nil
	}
	return r
}

// again reports whether the node is executed once more after a result.
func (x *execution) again(r nodeResult) bool {
	return r.failed != nil && x.n.Retries(r.failed, x.st.Execution)
}

// nodeOutput is the output of a node, as its step shows it and as later nodes see it.
type nodeOutput struct {
	text string
	json json.RawMessage
	made json.RawMessage // the arguments of a tool's call, nil unless they are an object

	again bool // another round follows
	skips bool // the node is skipped
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
