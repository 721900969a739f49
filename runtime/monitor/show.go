package monitor

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// execution is one execution of a worker, for a node or as a sub-agent.
type execution struct {
	id    string // of the step or of the sub-agent's invocation
	agent string
	began time.Time
}

// watched is a run in one of its spans.
type watched struct {
	key        int64
	generation int
	user       string
	agent      string            // the run's agent or workflow
	workers    map[string]string // the agents of its nodes
	ended      map[int]bool      // numbers of steps whose ends were shown
	runID      string            // as events name it
	threadID   string
	began      time.Time
	running    []execution
	calls      map[string]*call
	shownError string // the execution error that was shown last
	gone       bool   // removed: show no more notices of it
}

// call is a tool call without a result yet.
type call struct {
	agent, tool string
	args        []string
	size        int
}

// maxArgs is the size of a call's arguments in a monitor.
const maxArgs = 1 << 20

// update calls change with f.mu held and then wakes the readers, unless the feed is shut.
func (f *feed) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return
	}
	last := f.last
	change()
	if f.readers > 0 && f.last > last {
		close(f.wake)
		f.wake = make(chan struct{})
	}
}

// ends say how executions have ended.
type ends struct {
	steps    []data.Step     // of the run, if a record finishes one
	failure  string          // the error of the span's end, "" without
	closers  int             // records before those that close what the failure cuts
	returned map[string]bool // with failure, the sub-agents that have returned before
}

// show adds records of a span.
func (f *feed) show(run *watched, recs []*tail.Record, ends ends) {
	for i, rec := range recs {
		f.record(run, rec, i >= ends.closers, &ends)
	}
}

// closes reports whether an event closes something, as those do that precede the end of a run.
func closes(ev agui.Event) bool {
	switch ev.(type) {
	case agui.TextMessageEnd, agui.ToolCallEnd, agui.ToolCallResult, agui.StepFinished, agui.SubagentFinished, agui.SubagentError,
		agui.ReasoningMessageEnd, agui.ReasoningEnd:
		return true
	}
	return false
}

// Forget stops notices of a removed run, or with run 0 of all runs of a removed thread.
func (m *Feeds) Forget(project, user, thread string, run int64) {
	m.mu.Lock()
	f := m.feeds[project]
	m.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for offset := f.first; offset <= f.last; offset++ {
		if r := f.ring[offset%window].run; r.key == run || run == 0 && r.user == user && r.threadID == thread {
			r.gone = true
		}
	}
}

// forgetRemoved stops notices behind a notice of runs that are gone from the database. It reports whether the database has answered.
func (f *feed) forgetRemoved(id string) bool {
	left := make(map[int64]bool)
	f.mu.RLock()
	if after, resumes := f.position(id); resumes {
		for offset := after + 1; offset <= f.last; offset++ {
			if r := f.ring[offset%window].run; !r.gone {
				left[r.key] = true
			}
		}
	}
	f.mu.RUnlock()
	if len(left) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(f.m.ended, removedTimeout)
	defer cancel()
	heads, err := f.m.store.Heads(ctx, slices.Collect(maps.Keys(left)))
	if err != nil {
		return false
	}
	for i := range heads {
		delete(left, heads[i].Key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for offset := f.first; offset <= f.last; offset++ {
		if r := f.ring[offset%window].run; left[r.key] {
			r.gone = true
		}
	}
	return true
}

// removedTimeout is how long a reader that comes back waits for the database.
const removedTimeout = 5 * time.Second

// failureOf returns the error of a run's end, "" if it has not failed.
func failureOf(ev agui.Event) string {
	if e, ok := agui.Project(ev, agui.Seed).(agui.RunError); ok {
		return e.Message
	}
	return ""
}

// leave removes a run's executions.
func (f *feed) leave(run *watched) {
	for _, x := range run.running {
		f.rest(run, x.agent)
	}
	run.running, run.calls = nil, nil // notices may still refer to run
}

// record shows an event. It may be cut by the run's failure.
func (f *feed) record(run *watched, rec *tail.Record, cut bool, ends *ends) {
	switch ev := rec.Event.(type) {
	case agui.TextMessageContent, agui.TextMessageStart, agui.TextMessageEnd, agui.RunStarted:
		f.put(nil, run, rec, rec.Size())
	case agui.ToolCallStart, agui.ToolCallArgs, agui.ToolCallEnd, agui.ToolCallResult:
		f.call(run, rec)
	case agui.SubagentStarted, agui.SubagentFinished, agui.SubagentError:
		f.subagent(run, rec.Event, cut, ends)
	case agui.StepStarted:
		if agent := run.workers[data.NodeOf(ev.StepName)]; agent != "" && ev.SubagentRunID == "" {
			f.begin(run, ev.StepName, agent, timeOf(ev))
		}
	case agui.StepFinished:
		if run.workers[data.NodeOf(ev.StepName)] != "" && ev.SubagentRunID == "" {
			f.finishStep(run, &ev, ends.steps)
		}
	case agui.RunFinished, agui.RunError:
		f.finish(run, rec)
	}
}

// finishStep shows the end of a step. The event has its time; its result is in its row.
func (f *feed) finishStep(run *watched, ev *agui.StepFinished, steps []data.Step) {
	when, failure := timeOf(ev), ""
	at := slices.IndexFunc(steps, func(st data.Step) bool { return st.Name == ev.StepName && !run.ended[st.Number] })
	if at >= 0 {
		st := &steps[at]
		if st.CompletedAt == nil || st.CompletedAt.After(when.Add(time.Millisecond)) { // it has gone on since
			f.pause(run, ev.StepName)
			return
		}
		run.ended[st.Number] = true
		switch {
		case st.Status == data.Cancelled:
			return // the end of the run ends it
		case st.Error != nil:
			failure = st.Error.Message
		}
	}
	f.end(run, ev.StepName, when, failure)
}

func timeOf(ev agui.Event) time.Time { return time.UnixMilli(ev.Common().Timestamp) }

// call records an event of a tool call. Viewers see the arguments when the call has all of them.
func (f *feed) call(run *watched, rec *tail.Record) {
	var c *call
	shown, agent, size := silent, rec.Event.Common().Agent, rec.Size()
	switch ev := rec.Event.(type) {
	case agui.ToolCallStart:
		c = &call{agent: agent, tool: ev.ToolCallName}
		if run.calls == nil {
			run.calls = make(map[string]*call)
		}
		run.calls[ev.ToolCallID] = c
	case agui.ToolCallArgs:
		c = run.calls[ev.ToolCallID]
		if c != nil && c.size < maxArgs {
			c.args = append(c.args, ev.Delta)
			c.size += len(ev.Delta)
		}
	case agui.ToolCallEnd:
		if c = run.calls[ev.ToolCallID]; c != nil {
			shown, size = toolStart, c.size
			run.calls[ev.ToolCallID] = &call{agent: c.agent, tool: c.tool} // drops the arguments, which only the notice needs
		}
	case agui.ToolCallResult:
		c, shown = run.calls[ev.ToolCallID], toolEnd
		delete(run.calls, ev.ToolCallID)
	}
	switch {
	case agent == "" && c != nil:
		agent = c.agent
	case agent == "":
		agent = run.agent
	}
	n := f.add(run, agent, size)
	if n.rec, n.kind = rec, shown; shown != silent {
		n.call = c
	}
}

// subagent tracks executions of sub-agents. A remote agent's own sub-agents, which bear its name, do not execute here.
func (f *feed) subagent(run *watched, ev agui.Event, cut bool, ends *ends) {
	switch ev := ev.(type) {
	case agui.SubagentStarted:
		if ev.Agent == ev.Name {
			f.begin(run, ev.SubagentRunID, ev.Name, timeOf(ev))
		}
	case agui.SubagentFinished:
		if ev.Outcome != nil { // it waits
			f.pause(run, ev.SubagentRunID)
			return
		}
		failure := ""
		if cut && !ends.returned[ev.SubagentRunID] {
			failure = ends.failure
		}
		f.end(run, ev.SubagentRunID, timeOf(ev), failure)
	case agui.SubagentError:
		f.end(run, ev.SubagentRunID, timeOf(ev), ev.Message)
	}
}

// finish shows the ends of a run's executions and then its own. It does not repeat an error that an execution has
// shown.
func (f *feed) finish(run *watched, rec *tail.Record) {
	failure, when := failureOf(rec.Event), timeOf(rec.Event)
	for len(run.running) > 0 {
		f.end(run, run.running[len(run.running)-1].id, when, failure)
	}
	n := f.add(run, run.agent, rec.Size())
	n.rec, n.took = rec, when.Sub(run.began)
	if failure != "" && failure != run.shownError {
		n.kind, n.failure = failed, failure
	}
	f.leave(run)
}

func (f *feed) begin(run *watched, id, agent string, when time.Time) {
	if slices.ContainsFunc(run.running, func(x execution) bool { return x.id == id }) {
		return // it was known before the event was read
	}
	run.running = append(run.running, execution{id, agent, when})
	i, known := slices.BinarySearch(f.agents, agent)
	if !known {
		return
	}
	if f.working[i]++; f.working[i] == 1 {
		f.add(run, agent, 0).turns(i, statusRunning)
	}
}

// take removes a running execution.
func (run *watched) take(id string) (x execution, ok bool) {
	for i, x := range slices.Backward(run.running) { // the latest usually ends first
		if x.id == id {
			run.running = slices.Delete(run.running, i, i+1)
			return x, true
		}
	}
	return execution{}, false
}

// pause records that an execution waits. It continues in the span of the answer.
func (f *feed) pause(run *watched, id string) {
	if x, ok := run.take(id); ok {
		f.rest(run, x.agent)
	}
}

// end shows the end of an execution, which has failed unless failure is "".
func (f *feed) end(run *watched, id string, when time.Time, failure string) {
	x, ok := run.take(id)
	if !ok {
		return
	}
	if failure != "" {
		run.shownError = failure
	}
	n := f.add(run, x.agent, len(failure))
	n.kind, n.failure, n.took = complete, failure, when.Sub(x.began)
	if failure != "" {
		n.kind = failed
	}
	f.rest(run, x.agent)
}

// rest counts an agent's running executions down.
func (f *feed) rest(run *watched, agent string) {
	i, known := slices.BinarySearch(f.agents, agent)
	if !known {
		return
	}
	if f.working[i]--; f.working[i] == 0 {
		f.add(run, agent, 0).turns(i, statusIdle)
	}
}
