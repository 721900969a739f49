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

// Run is a run that Observe sees. Its owner keeps one for the run's lifetime.
type Run struct {
	Key           int64
	Project, User string
	ID, ThreadID  string // as its events name them
	Agent         string // or the workflow

	feed *feed // set while this process executes the run; used by Observe only
}

// Execution is one execution of a worker, for a node or as a sub-agent.
type Execution struct {
	ID    string // id of the step or of the sub-agent's invocation
	Agent string
	began time.Time
}

// watched is a feed's knowledge of a run with an open span.
type watched struct {
	key             int64
	user            string
	agent           string // the run's agent or workflow
	runID, threadID string
	began           time.Time // when this process first saw it
	running         []Execution
	calls           map[string]*call
	shownError      string // the execution error that was shown last
	gone            bool   // removed: show no more notices of it
}

// call is a tool call without a result yet.
type call struct {
	agent, tool string
	args        []string
	size        int
}

// maxArgs is the size of a call's arguments in a monitor.
const maxArgs = 1 << 20

// Item is the part of a commit about one run.
type Item struct {
	Run     *Run // nil for none
	Records []*tail.Record
	Ticks   []Tick
	Takes   bool        // this process executes the run from now on
	Began   []Execution // executions that it continues
	Leaves  bool        // the run has ended or moved to another instance
}

// Tick is a change of a node's execution between an item's records: it begins, waits or ends.
type Tick struct {
	At     int // number of preceding records
	Step   string
	Agent  string
	When   time.Time
	Status data.Status       // the step's new status
	Err    *agui.OutputError // if Failed
}

// Observe shows a committed item to the project's monitors. One goroutine calls it. It never waits for a reader. After Share it does
// nothing.
func (m *Feeds) Observe(it *Item) {
	if m.source != nil {
		return // the logs are read
	}
	f := m.of(it)
	if f == nil {
		return
	}
	f.show(it)
	gone := f.empty()
	f.mu.Unlock()
	if gone {
		m.drop(f)
	}
}

// show adds an item to the feed. The caller holds f.mu.
func (f *feed) show(it *Item) {
	last, cut, ticks := f.last, it.cut(), it.Ticks
	for i, rec := range it.Records {
		for ; len(ticks) > 0 && ticks[0].At <= i; ticks = ticks[1:] {
			f.tick(it.Run, &ticks[0])
		}
		f.record(it.Run, rec, cut)
	}
	for i := range ticks {
		f.tick(it.Run, &ticks[i])
	}
	switch {
	case it.Takes:
		f.takeUp(it.Run, it.Began)
	case it.Leaves:
		f.leave(f.run(it.Run.Key))
	}
	if f.readers > 0 && f.last > last {
		close(f.wake)
		f.wake = make(chan struct{})
	}
}

// Forget stops notices of a removed run, or with run 0 of all runs of a removed thread.
func (m *Feeds) Forget(project, user, thread string, run int64) {
	m.mu.Lock()
	f := m.feeds[project]
	if f == nil {
		m.mu.Unlock()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.mu.Unlock()
	for offset := f.first; f.ring != nil && offset <= f.last; offset++ {
		if r := f.ring[offset%window].run; r != nil && (r.key == run || run == 0 && r.user == user && r.threadID == thread) {
			r.gone = true
		}
	}
}

// forgetRemoved is Forget for the runs behind a notice that other instances have removed. It reports whether the database has answered.
func (m *Feeds) forgetRemoved(f *feed, id string) bool {
	left := make(map[int64]bool)
	f.mu.RLock()
	if after, resumes := f.position(id); resumes {
		for offset := after + 1; offset <= f.last; offset++ {
			if r := f.ring[offset%window].run; r != nil && !r.gone {
				left[r.key] = true
			}
		}
	}
	f.mu.RUnlock()
	if len(left) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(m.source.ended, removedTimeout)
	defer cancel()
	heads, err := m.source.store.Heads(ctx, slices.Collect(maps.Keys(left)))
	if err != nil {
		return false
	}
	for i := range heads {
		delete(left, heads[i].Key)
	}
	for key := range left {
		m.Forget(f.project, "", "", key)
	}
	return true
}

// removedTimeout is how long a reader that comes back waits for the database.
const removedTimeout = 5 * time.Second

// of returns the item's feed, locked, or nil if no monitor needs the item.
func (m *Feeds) of(it *Item) *feed {
	switch {
	case it.Run == nil:
		return nil
	case it.Run.feed != nil: // the run keeps its feed alive
		it.Run.feed.mu.Lock()
		return it.Run.feed
	case len(it.Records) > 0 || it.Takes:
		return m.lock(it.Run.Project)
	}
	return nil
}

// cut returns the error for executions that the run's end interrupts, "" if none.
func (it *Item) cut() string {
	if !it.Leaves || len(it.Records) == 0 {
		return ""
	}
	return failureOf(it.Records[len(it.Records)-1].Event)
}

// failureOf returns the error of a run's end, "" if it has not failed.
func failureOf(ev agui.Event) string {
	if e, ok := agui.Project(ev, agui.Seed).(agui.RunError); ok {
		return e.Message
	}
	return ""
}

// run returns a run with an open span, nil if this process has not seen its start.
func (f *feed) run(key int64) *watched {
	if f.latest == nil || f.latest.key != key {
		f.latest = f.runs[key]
	}
	return f.latest
}

// takeUp adds a run that this process executes from now on, and its continued executions.
func (f *feed) takeUp(r *Run, began []Execution) {
	r.feed = f
	run := f.run(r.Key)
	if run == nil { // an earlier process began the span
		run = f.open(&watched{key: r.Key, user: r.User, runID: r.ID, threadID: r.ThreadID})
	}
	run.agent = r.Agent
	for _, x := range began {
		f.begin(run, x.ID, x.Agent, cmpTime(x.began, run.began))
	}
}

func (f *feed) open(run *watched) *watched {
	run.began = time.Now()
	f.runs[run.key] = run
	f.latest = run
	return run
}

// leave removes a run and its executions.
func (f *feed) leave(run *watched) {
	if run == nil {
		return
	}
	for _, x := range run.running {
		f.rest(run, x.Agent)
	}
	delete(f.runs, run.key)
	f.latest = nil
	run.running, run.calls = nil, nil // notices may still refer to run
}

func (f *feed) tick(r *Run, t *Tick) {
	run := f.run(r.Key)
	if run == nil {
		return // already ended
	}
	switch t.Status {
	case data.Running:
		f.begin(run, t.Step, t.Agent, t.When)
	case data.Waiting:
		f.pause(run, t.Step)
	case data.Failed:
		f.end(run, t.Step, t.When, t.Err.Message)
	default:
		f.end(run, t.Step, t.When, "")
	}
}

// record shows an event. cut is the error of executions that end with it, "" if they succeed.
func (f *feed) record(r *Run, rec *tail.Record, cut string) {
	run := f.run(rec.RunKey)
	if run == nil {
		run = f.met(r, rec)
	}
	switch rec.Event.(type) {
	case agui.TextMessageContent, agui.TextMessageStart, agui.TextMessageEnd, agui.RunStarted:
		if f.ring != nil {
			f.put(nil, run, rec, rec.Size())
		}
	case agui.ToolCallStart, agui.ToolCallArgs, agui.ToolCallEnd, agui.ToolCallResult:
		f.call(run, rec)
	case agui.SubagentStarted, agui.SubagentFinished, agui.SubagentError:
		f.subagent(run, rec.Event, cut)
	case agui.RunFinished, agui.RunError:
		f.finish(run, rec)
	}
}

// met adds a run whose first event in this process is rec.
func (f *feed) met(r *Run, rec *tail.Record) *watched {
	base := rec.Event.Common()
	run := &watched{key: rec.RunKey, user: r.User, agent: base.Agent, runID: base.RunID, threadID: base.ThreadID}
	return f.open(run)
}

// call tracks a tool call. Its arguments are shown once they are complete.
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
	if f.ring == nil {
		return
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
func (f *feed) subagent(run *watched, ev agui.Event, cut string) {
	switch ev := ev.(type) {
	case agui.SubagentStarted:
		if ev.Agent == ev.Name {
			f.begin(run, ev.SubagentRunID, ev.Name, time.Now())
		}
	case agui.SubagentFinished:
		if ev.Outcome != nil { // it waits
			f.pause(run, ev.SubagentRunID)
			return
		}
		f.end(run, ev.SubagentRunID, time.Now(), cut)
	case agui.SubagentError:
		f.end(run, ev.SubagentRunID, time.Now(), ev.Message)
	}
}

// finish shows the ends of a run's executions and then its own. It does not repeat an error that an execution has
// shown.
func (f *feed) finish(run *watched, rec *tail.Record) {
	failure, now := failureOf(rec.Event), time.Now()
	for len(run.running) > 0 {
		f.end(run, run.running[len(run.running)-1].ID, now, failure)
	}
	if f.ring != nil {
		n := f.add(run, run.agent, rec.Size())
		n.rec, n.took = rec, now.Sub(run.began)
		if failure != "" && failure != run.shownError {
			n.kind, n.failure = failed, failure
		}
	}
	f.leave(run)
}

func (f *feed) begin(run *watched, id, agent string, when time.Time) {
	if slices.ContainsFunc(run.running, func(x Execution) bool { return x.ID == id }) {
		return // it was known before the event was read
	}
	run.running = append(run.running, Execution{id, agent, when})
	i, known := f.agents.index[agent]
	if !known {
		return
	}
	if f.working[i]++; f.working[i] == 1 && f.ring != nil {
		f.add(run, agent, 0).turns(i, statusRunning)
	}
}

// take removes a running execution.
func (run *watched) take(id string) (x Execution, ok bool) {
	for i, x := range slices.Backward(run.running) { // the latest usually ends first
		if x.ID == id {
			run.running = slices.Delete(run.running, i, i+1)
			return x, true
		}
	}
	return Execution{}, false
}

// pause records that an execution waits. It continues in the span of the answer.
func (f *feed) pause(run *watched, id string) {
	if x, ok := run.take(id); ok {
		f.rest(run, x.Agent)
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
	if f.ring != nil {
		n := f.add(run, x.Agent, len(failure))
		n.kind, n.failure, n.took = complete, failure, when.Sub(x.began)
		if failure != "" {
			n.kind = failed
		}
	}
	f.rest(run, x.Agent)
}

// rest counts an agent's running executions down.
func (f *feed) rest(run *watched, agent string) {
	i, known := f.agents.index[agent]
	if !known {
		return
	}
	if f.working[i]--; f.working[i] == 0 && f.ring != nil {
		f.add(run, agent, 0).turns(i, statusIdle)
	}
}
