package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func isNotFound(err error) bool {
	var e *runtime.Error
	return errors.As(err, &e) && e.Kind == runtime.KindNotFound
}

// checkLog checks a log and folds it.
func (c *checker) checkLog(v *view) *folded {
	f := newFolded()
	s := &spans{w: c.world, v: v, results: make(map[string]int), calls: make(map[string]string), owed: make(map[string]string)}
	last := int64(0)
	for i := range v.log {
		e := &v.log[i]
		if e.id != 0 {
			if isReset(e.ev) {
				last = e.id
				s.reset()
				continue
			}
			if e.id != last+1 {
				c.find(RuleIDs, "thread %s: event %d follows %d", v.name, e.id, last)
			}
			last = e.id
			s.add(e)
		}
		f.add(e.id, e.ev)
	}
	s.end()
	return f
}

// spans checks that a log is a sequence of spans.
type spans struct {
	w       *world
	v       *view
	run     string            // of the open span; "" between spans
	waits   string            // the run whose span ended in WAITING; "" if none
	texts   map[string]bool   // open in the span, like the following ones
	calls   map[string]string // the run of each started call
	args    map[string]bool   // calls with open arguments
	bare    map[string]bool   // those that have none yet
	steps   map[string]bool
	subs    map[string]bool
	reasons map[string]bool
	models  map[string]bool
	results map[string]int    // number of each call's results
	owed    map[string]string // calls without a result, with their runs
}

// reset drops the state that may belong to removed events.
func (s *spans) reset() { s.run, s.waits = "", "" }

func (s *spans) bad(rule Rule, e *event, format string, args ...any) {
	s.w.find(rule, "thread %s, event %d %s of %s: %s", s.v.name, e.id, e.ev.Type(), short(e.run), fmt.Sprintf(format, args...))
}

func (s *spans) add(e *event) {
	if _, ok := e.ev.(agui.RunStarted); ok {
		if s.run != "" {
			s.bad(RuleSpan, e, "the span of %s is open", short(s.run))
		}
		if s.waits != "" && s.waits != e.run {
			s.bad(RuleTurn, e, "run %s waits", short(s.waits))
		}
		s.run = e.run
		s.texts, s.args, s.bare, s.steps = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
		s.subs, s.reasons, s.models = map[string]bool{}, map[string]bool{}, map[string]bool{}
		return
	}
	switch {
	case s.run == "":
		s.bad(RuleSpan, e, "no span is open")
		return
	case s.run != e.run:
		s.bad(RuleSpan, e, "it stands in the span of %s", short(s.run))
	}
	switch ev := e.ev.(type) {
	case agui.RunFinished:
		s.close(e, ev.Outcome)
	case agui.RunError:
		s.close(e, agui.Outcome{})
	case agui.TextMessageStart:
		if len(s.texts) > 0 {
			s.bad(RuleSpan, e, "another text is open")
		}
		s.open(e, s.texts, ev.MessageID)
	case agui.TextMessageContent:
		s.within(e, s.texts, ev.MessageID)
		if ev.Delta == "" {
			s.bad(RuleSpan, e, "the delta is empty")
		}
	case agui.TextMessageEnd:
		s.shut(e, s.texts, ev.MessageID)
		if ev.Output == nil {
			s.bad(RuleSpan, e, "it has no output")
		}
	case agui.ReasoningMessageStart:
		s.open(e, s.reasons, ev.MessageID)
	case agui.ReasoningMessageContent:
		s.within(e, s.reasons, ev.MessageID)
	case agui.ReasoningMessageEnd:
		s.shut(e, s.reasons, ev.MessageID)
	case agui.StepStarted:
		s.open(e, s.steps, ev.StepName)
	case agui.StepFinished:
		s.shut(e, s.steps, ev.StepName)
	case agui.SubagentStarted:
		s.open(e, s.subs, ev.SubagentRunID)
	case agui.SubagentFinished:
		s.shut(e, s.subs, ev.SubagentRunID)
	case agui.SubagentError:
		s.shut(e, s.subs, ev.SubagentRunID)
	case agui.Custom:
		s.model(e, ev)
	default:
		s.call(e)
	}
}

// model checks the events of model calls.
func (s *spans) model(e *event, ev agui.Custom) {
	switch c, ok := agui.ModelCallOf(ev); {
	case !ok:
	case c.Status == agui.ModelStarted:
		s.open(e, s.models, c.ID)
	default:
		s.shut(e, s.models, c.ID)
	}
}

// call checks the events of tool calls.
func (s *spans) call(e *event) {
	switch ev := e.ev.(type) {
	case agui.ToolCallStart:
		if _, again := s.calls[ev.ToolCallID]; again {
			s.bad(RuleCall, e, "the call %s was begun before", short(ev.ToolCallID))
		}
		s.calls[ev.ToolCallID] = e.run
		s.owed[ev.ToolCallID] = e.run
		s.open(e, s.args, ev.ToolCallID)
		s.open(e, s.bare, ev.ToolCallID)
	case agui.ToolCallArgs:
		s.within(e, s.args, ev.ToolCallID)
		delete(s.bare, ev.ToolCallID)
	case agui.ToolCallEnd:
		s.shut(e, s.args, ev.ToolCallID)
		if s.bare[ev.ToolCallID] {
			s.bad(RuleCall, e, "the call has no arguments")
		}
	case agui.ToolCallResult:
		_, begun := s.calls[ev.ToolCallID]
		s.results[ev.ToolCallID]++
		switch {
		case !begun && !s.v.cut:
			s.bad(RuleCall, e, "the call %s was never begun", short(ev.ToolCallID))
		case s.results[ev.ToolCallID] > 1:
			s.bad(RuleCall, e, "the call %s has a result already", short(ev.ToolCallID))
		case s.args[ev.ToolCallID]:
			s.bad(RuleSpan, e, "the call's arguments are open")
		}
		if made, ok := s.w.ledger.madeWith(ev.ToolCallID); ok && ev.Output.ToolCallArgs != nil && string(ev.Output.ToolCallArgs) != made {
			s.bad(RuleApproval, e, "it tells of the arguments %s, and the call was made with %s", ev.Output.ToolCallArgs, made)
		}
		delete(s.owed, ev.ToolCallID)
	}
}

func (s *spans) open(e *event, set map[string]bool, id string) {
	if set[id] {
		s.bad(RuleSpan, e, "%s is open already", short(id))
	}
	set[id] = true
}

func (s *spans) within(e *event, set map[string]bool, id string) {
	if !set[id] {
		s.bad(RuleSpan, e, "%s is not open", short(id))
	}
}

func (s *spans) shut(e *event, set map[string]bool, id string) {
	s.within(e, set, id)
	delete(set, id)
}

// close checks a span's terminal event: everything is closed, and only calls for which the span waits have no result.
func (s *spans) close(e *event, o agui.Outcome) {
	for what, set := range map[string]map[string]bool{
		"text": s.texts, "call": s.args, "step": s.steps, "sub-agent": s.subs, "reasoning": s.reasons, "model": s.models,
	} {
		for id := range set {
			s.bad(RuleSpan, e, "the %s %s is open", what, short(id))
		}
	}
	waited := slices.Clone(o.PendingToolCallIDs)
	for i := range o.Interrupts {
		waited = append(waited, o.Interrupts[i].ToolCallID)
	}
	if o.Type != agui.OutcomeInterrupt && len(waited) == 0 {
		for id, run := range s.owed {
			if run == e.run {
				s.bad(RuleCall, e, "the call %s has no result", short(id))
				delete(s.owed, id)
			}
		}
	}
	s.run, s.waits = "", ""
	if len(waited) > 0 {
		s.waits = e.run
	}
}

// end checks the end of the log: open entities belong to a run that goes on.
func (s *spans) end() {
	status := make(map[string]runtime.Status)
	for i := range s.v.runs {
		status[s.v.runs[i].ID] = s.v.runs[i].Status
	}
	if s.run != "" && status[s.run].Final() {
		s.w.find(RuleSpan, "thread %s: the span of %s, which is %s, has no end", s.v.name, short(s.run), status[s.run])
	}
	for id, run := range s.owed {
		if status[run].Final() {
			s.w.find(RuleCall, "thread %s: the call %s of %s, which is %s, has no result", s.v.name, short(id), short(run), status[run])
		}
	}
}

// checkSnapshots compares the snapshots that servers have shown of a thread with its log. Where events were removed meanwhile it cannot.
func (c *checker) checkSnapshots(v *view) {
	if v.cut || c.h.Does(doDelete, doRetire, "rewind", string(runtime.RollbackRuns)) || c.h.Room != nil {
		return
	}
	for _, s := range c.readers.shots() {
		if s.conv != v.th.ConversationID {
			continue
		}
		f := newFolded()
		for i := range v.log {
			if e := &v.log[i]; e.id <= s.After {
				f.add(e.id, e.ev)
			}
		}
		got := []string{}
		for i := range s.Messages {
			if m := &s.Messages[i]; m.Role != agui.RoleReasoning {
				got = append(got, line(m))
			}
		}
		want := f.lines()
		slices.Sort(got) // a snapshot has results directly behind their calls
		slices.Sort(want)
		if !slices.Equal(got, want) || !sameJSON(s.State, f.state) {
			c.find(RuleSnapshot, "%s shows thread %s at event %d as\n   %v, state %s\n   and its log says\n   %v, state %s", s.by, v.name, s.After, got, s.State, want, f.state)
		}
	}
}

// checkRows compares the rows with the folded log.
func (c *checker) checkRows(v *view, f *folded) {
	var rows []runtime.Message
	for _, msgs := range v.messages {
		for i := range msgs {
			if msgs[i].State == runtime.MessageConsumed {
				rows = append(rows, msgs[i])
			}
		}
	}
	slices.SortFunc(rows, func(a, b runtime.Message) int { return int(a.Seq - b.Seq) })
	for i := 1; i < len(rows); i++ {
		if rows[i].Seq == rows[i-1].Seq {
			c.find(RuleRows, "thread %s: two messages have the seq %d", v.name, rows[i].Seq)
		}
	}
	got, want := lines(rows), f.lines()
	if v.cut { // snapshots in place of removed events put results directly behind their calls
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		c.find(RuleRows, "thread %s:\n   rows %v\n   log  %v", v.name, got, want)
	}
	c.checkPairs(v, rows)
	c.checkSaidOnce(v, rows)
	var shown []runtime.Message
	for i := range rows {
		if rows[i].Role != agui.RoleReasoning && rows[i].Role != agui.RoleActivity {
			shown = append(shown, rows[i])
		}
	}
	if got, want := lines(v.history), lines(shown); !slices.Equal(got, want) {
		c.find(RuleRows, "thread %s:\n   history %v\n   rows    %v", v.name, got, want)
	}
	if raw := string(v.th.State); len(raw) == 0 || raw[0] != '{' {
		c.find(RuleState, "thread %s: the state is %s, which is no object", v.name, raw)
	}
	running := slices.ContainsFunc(v.runs, func(r runtime.Run) bool { return r.Status == runtime.Running })
	if !running && !sameJSON(v.th.State, f.state) {
		c.find(RuleState, "thread %s: the row says %s, the log %s", v.name, v.th.State, f.state)
	}
}

// checkPairs checks that every shown call of an ended run has its result and vice versa. A client may send any message,
// also the result of another thread's call.
func (c *checker) checkPairs(v *view, rows []runtime.Message) {
	open := make(map[int64]bool)
	for i := range v.runs {
		open[v.runs[i].Key] = !v.runs[i].Status.Final()
	}
	called, answered := make(map[string]bool), make(map[string]bool)
	for i := range rows {
		for _, call := range rows[i].ToolCalls {
			called[call.ID] = true
		}
		answered[rows[i].ToolCallID] = true
	}
	for i := range rows {
		for _, call := range rows[i].ToolCalls {
			if !answered[call.ID] && !open[rows[i].RunKey] {
				c.find(RuleCall, "thread %s shows the call %s without its result", v.name, short(call.ID))
			}
		}
		if id := rows[i].ToolCallID; id != "" && !called[id] && !strings.HasPrefix(rows[i].ID, "client-") {
			c.find(RuleCall, "thread %s shows the result of %s without its call", v.name, short(id))
		}
	}
}

// checkSaidOnce checks that texts of a Do that was interrupted or retried appear once. It skips Dos that run in
// parallel, whose texts cannot be told apart.
func (c *checker) checkSaidOnce(v *view, rows []runtime.Message) {
	said := make(map[string]bool)
	for i := range rows {
		text := rows[i].Content
		if rows[i].Role != agui.RoleAssistant || !strings.HasPrefix(text, thought) || strings.Contains(text, "go/") {
			continue
		}
		if said[text] {
			c.find(RuleSaid, "thread %s: %q is shown twice", v.name, text)
		}
		said[text] = true
	}
}

// lines returns messages for comparison, without reasoning, of which the log does not show an interruption.
func lines(rows []runtime.Message) []string {
	list := []string{}
	for i := range rows {
		if rows[i].Role != agui.RoleReasoning {
			list = append(list, line(&rows[i].Message))
		}
	}
	return list
}

func line(m *agui.Message) string {
	words := []string{fmt.Sprintf("%s %s %q", m.Role, short(m.ID), clip(m.Text(), 60))}
	for _, c := range m.ToolCalls {
		words = append(words, "calls", short(c.ID), c.Arguments)
	}
	if m.ToolCallID != "" {
		words = append(words, "of", short(m.ToolCallID))
	}
	return strings.Join(words, " ")
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// isReset reports whether ev replaces removed events.
func isReset(ev agui.Event) bool {
	c, ok := ev.(agui.Custom)
	return ok && c.Name == "log-reset"
}

// checkStatuses compares the runs' rows with their last spans.
func (c *checker) checkStatuses(v *view) {
	last := make(map[string]*event)
	closed := make(map[string]*event)
	for i := range v.log {
		e := &v.log[i]
		if e.id == 0 || e.run == "" || isReset(e.ev) {
			continue
		}
		last[e.run] = e
		if isEnd(e.ev) {
			closed[e.run] = e
		}
	}
	for i := range v.runs {
		r := &v.runs[i]
		e := closed[r.ID]
		says := "no span"
		if e != nil {
			says = outcome(e.ev)
		}
		ok := true
		switch stripped := c.mayBeStripped(r) && e == nil; {
		case stripped:
			continue
		case r.Status.Final() && r.ClosedEvent > 0 && e == nil:
			c.find(RuleKept, "run %s is %s, closed by event %d, and its events are gone", short(r.ID), r.Status, r.ClosedEvent)
		}
		switch r.Status {
		case runtime.Completed:
			ok = says == "success"
		case runtime.Failed:
			ok = says == "error"
		case runtime.Cancelled:
			ok = says == "cancelled" || r.ClosedEvent == 0 && e == nil || r.Generation > 1
		case runtime.Waiting:
			ok = says == "waiting" || r.Parked()
		}
		if !ok {
			c.find(RuleStatus, "run %s is %s, and its log says %s", short(r.ID), r.Status, says)
		}
		if r.Status.Final() && e != nil && last[r.ID] != e {
			c.find(RuleStatus, "run %s is %s, and %s follows its terminal event", short(r.ID), r.Status, last[r.ID].ev.Type())
		}
		if r.Status.Final() && e != nil && r.ClosedEvent != e.id {
			c.find(RuleStatus, "run %s is closed by event %d, and its row says %d", short(r.ID), e.id, r.ClosedEvent)
		}
	}
}

// checkWoken checks that each run that was parked has gone on or ended.
func (c *checker) checkWoken(v *view) {
	parked := make(map[string]bool)
	for i := range v.log {
		e := &v.log[i]
		if e.id == 0 || e.run == "" || isReset(e.ev) {
			continue
		}
		switch woken := isCustom(e.ev, agui.WokenEvent); {
		case woken != parked[e.run] && woken:
			c.find(RuleWoken, "run %s is woken by event %d, and was not parked", short(e.run), e.id)
		case isCustom(e.ev, agui.ParkedEvent):
			parked[e.run] = true
			continue
		}
		parked[e.run] = false
	}
}

func isCustom(ev agui.Event, name string) bool {
	c, ok := ev.(agui.Custom)
	return ok && c.Name == name
}

// checkSteps checks the rows of steps and nodes.
func (c *checker) checkSteps(v *view) {
	for i := range v.runs {
		r := &v.runs[i]
		page, err := c.p.rt.Runs.Steps(c.ctx, ownerOf(r), r.ID, "", 0, 500)
		steps := page.Rows
		if err != nil {
			c.find(RuleSteps, "the steps of %s cannot be read: %v", short(r.ID), err)
		}
		for j := range steps {
			if steps[j].Number != j+1 {
				c.find(RuleSteps, "step %d of %s has the number %d", j+1, short(r.ID), steps[j].Number)
			}
			if twice := slices.ContainsFunc(steps[:j], func(s runtime.Step) bool { return sameExecution(&s, &steps[j]) }); twice {
				c.find(RuleSteps, "step %d of %s is execution %d of %s, as one before it", j+1, short(r.ID), steps[j].Execution, steps[j].NodeID)
			}
			if r.Status.Final() && !steps[j].Status.Final() {
				c.find(RuleSteps, "run %s is %s, and its step %d is %s", short(r.ID), r.Status, steps[j].Number, steps[j].Status)
			}
		}
		nodes, err := c.p.rt.Runs.Nodes(c.ctx, ownerOf(r), r.ID)
		if err != nil {
			c.find(RuleSteps, "the nodes of %s cannot be read: %v", short(r.ID), err)
		}
		for j := range nodes {
			if n := &nodes[j]; r.Status.Final() && !n.Status.Final() && n.Status != runtime.Pending {
				c.find(RuleSteps, "run %s is %s, and its node %s is %s", short(r.ID), r.Status, n.NodeID, n.Status)
			} else if n.NodeID == mapNode && n.Status == runtime.Completed {
				c.checkItems(r, n, steps)
			}
		}
	}
}

// checkItems checks the items of a completed map, in the last generation that has begun.
func (c *checker) checkItems(r *runtime.Run, n *runtime.Node, steps []runtime.Step) {
	done, begun := make(map[string]int), steps[len(steps)-1].Generation
	for i := range steps {
		if st := &steps[i]; st.NodeID == n.NodeID && st.Generation == begun && st.Status == runtime.Completed {
			done[st.Item.Key]++
		}
	}
	if n.Map.Items != 3 || n.Map.Done+n.Map.Failed != 3 || n.Map.Done != len(done) {
		c.find(RuleItems, "run %s: the map has %+v, and these steps of items have completed: %v", short(r.ID), *n.Map, done)
	}
	for key, times := range done {
		if times > 1 {
			c.find(RuleItems, "run %s: the item %s has completed %d times in generation %d", short(r.ID), key, times, begun)
		}
	}
}

func sameExecution(a, b *runtime.Step) bool {
	return a.Generation == b.Generation && a.Name == b.Name && a.Round == b.Round && a.Execution == b.Execution
}

// outcome returns a terminal event's outcome of its run.
func outcome(ev agui.Event) string {
	f, ok := ev.(agui.RunFinished)
	switch {
	case !ok:
		return "error"
	case f.Outcome.Type == agui.OutcomeCancelled:
		return "cancelled"
	case f.Outcome.Type == agui.OutcomeInterrupt || len(f.Outcome.PendingToolCallIDs) > 0:
		return "waiting"
	}
	return "success"
}
