package monitor

import (
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
)

// Run is a run whose records are observed. Who makes them has one for as long as it has the run.
type Run struct {
	Key           int64
	Project, User string
	ID, ThreadID  string // as its events name them
	Agent         string // or the workflow

	feed *feed // the project's, from when this process executes the run; used by Observe alone
}

// Execution is one execution of a worker: of a node, or as a sub-agent.
type Execution struct {
	ID    string // of the step, or of the sub-agent's invocation
	Agent string
	began time.Time
}

// watched is a run with an open span, as monitors know it.
type watched struct {
	key             int64
	user            string
	agent           string // of the run: an agent or a workflow
	runID, threadID string
	began           time.Time // when this process has met it
	running         []Execution
	calls           map[string]*call
	told            string // the error that was last shown of one of its executions
	gone            bool   // it is removed: nothing of it is shown any more
}

// call is a tool call whose result has not come.
type call struct {
	agent, tool string
	args        []string
	size        int
}

// maxArgs is how much of a call's arguments a monitor shows.
const maxArgs = 1 << 20

// Item is what one item of a commit has stored of a run.
type Item struct {
	Run     *Run // nil when the item is about none
	Records []*log.Record
	Ticks   []Tick
	Takes   bool        // this process executes the run from now on, and
	Began   []Execution // what of it goes on
	Leaves  bool        // the run is over, or another's
}

// Tick is where among an item's records an execution of a node's worker begins, comes to wait or ends.
type Tick struct {
	At     int // how many of the records go before it
	Step   string
	Agent  string
	When   time.Time
	Status model.Status      // that of the step from now on
	Err    *agui.OutputError // with Failed
}

// Observe tells the project's monitors what an item has stored. It is called by one goroutine, and waits for no reader.
func (m *Feeds) Observe(it *Item) {
	f := m.of(it)
	if f == nil {
		return
	}
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
	gone := f.empty()
	f.mu.Unlock()
	if gone {
		m.drop(f)
	}
}

// Forget has monitors show nothing any more of a project's run that is removed, or with run 0 of all runs of a user's thread.
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

// of returns the feed that an item is for, locked, or nil when the item tells a monitor nothing.
func (m *Feeds) of(it *Item) *feed {
	switch {
	case it.Run == nil:
		return nil
	case it.Run.feed != nil: // it stays while the run is there
		it.Run.feed.mu.Lock()
		return it.Run.feed
	case len(it.Records) > 0 || it.Takes:
		return m.lock(it.Run.Project)
	}
	return nil
}

// cut says with which error an item that ends a run cuts short what the run is executing, "" for none.
func (it *Item) cut() string {
	if !it.Leaves || len(it.Records) == 0 {
		return ""
	}
	return failureOf(it.Records[len(it.Records)-1].Event)
}

// failureOf is what a run's end says of its failure, "" when it has not failed.
func failureOf(ev agui.Event) string {
	if e, ok := agui.Project(ev, agui.Seed).(agui.RunError); ok {
		return e.Message
	}
	return ""
}

// run returns a run with an open span, nil for one that this process has not seen begin.
func (f *feed) run(key int64) *watched {
	if f.latest == nil || f.latest.key != key {
		f.latest = f.runs[key]
	}
	return f.latest
}

// takeUp notes a run that this process executes from now on, and what of it goes on.
func (f *feed) takeUp(r *Run, began []Execution) {
	r.feed = f
	run := f.run(r.Key)
	if run == nil { // its span was begun by an earlier process
		run = f.open(&watched{key: r.Key, user: r.User, runID: r.ID, threadID: r.ThreadID})
	}
	run.agent = r.Agent
	for _, x := range began {
		f.begin(run, x.ID, x.Agent, run.began)
	}
}

func (f *feed) open(run *watched) *watched {
	run.began = time.Now()
	f.runs[run.key] = run
	f.latest = run
	return run
}

// leave forgets a run, and that it is executing anything.
func (f *feed) leave(run *watched) {
	if run == nil {
		return
	}
	for _, x := range run.running {
		f.rest(run, x.Agent)
	}
	delete(f.runs, run.key)
	f.latest = nil
	run.running, run.calls = nil, nil // its notices keep it
}

func (f *feed) tick(r *Run, t *Tick) {
	run := f.run(r.Key)
	if run == nil {
		return // it has ended already
	}
	switch t.Status {
	case model.Running:
		f.begin(run, t.Step, t.Agent, t.When)
	case model.Waiting:
		f.pause(run, t.Step)
	case model.Failed:
		f.end(run, t.Step, t.When, t.Err.Message)
	default:
		f.end(run, t.Step, t.When, "")
	}
}

// record shows what an event tells. cut is why executions that end with it have failed, "" when they have not.
func (f *feed) record(r *Run, rec *log.Record, cut string) {
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

// met notes a run whose first event in this process is rec.
func (f *feed) met(r *Run, rec *log.Record) *watched {
	base := rec.Event.Common()
	run := &watched{key: rec.RunKey, user: r.User, agent: base.Agent, runID: base.RunID, threadID: base.ThreadID}
	return f.open(run)
}

// call follows a tool call: its arguments are shown once they are complete.
func (f *feed) call(run *watched, rec *log.Record) {
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
			run.calls[ev.ToolCallID] = &call{agent: c.agent, tool: c.tool} // the notice alone has use for the arguments
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

// subagent follows the executions of sub-agents. What a remote agent tells of its own is not executed here: it
// bears the remote agent's name.
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

// finish shows the end of a run, after the ends of what it was executing. A failure that one of its executions
// has told already is not told again.
func (f *feed) finish(run *watched, rec *log.Record) {
	failure, now := failureOf(rec.Event), time.Now()
	for len(run.running) > 0 {
		f.end(run, run.running[len(run.running)-1].ID, now, failure)
	}
	if f.ring != nil {
		n := f.add(run, run.agent, rec.Size())
		n.rec, n.took = rec, now.Sub(run.began)
		if failure != "" && failure != run.told {
			n.kind, n.failure = failed, failure
		}
	}
	f.leave(run)
}

func (f *feed) begin(run *watched, id, agent string, when time.Time) {
	run.running = append(run.running, Execution{id, agent, when})
	i, known := f.agents.index[agent]
	if !known {
		return
	}
	if f.working[i]++; f.working[i] == 1 && f.ring != nil {
		f.add(run, agent, 0).turns(i, statusRunning)
	}
}

// take removes an execution from those that are running.
func (run *watched) take(id string) (x Execution, ok bool) {
	for i, x := range slices.Backward(run.running) { // the latest one ends first, as a rule
		if x.ID == id {
			run.running = slices.Delete(run.running, i, i+1)
			return x, true
		}
	}
	return Execution{}, false
}

// pause notes that an execution has come to wait: it goes on in the answer's span.
func (f *feed) pause(run *watched, id string) {
	if x, ok := run.take(id); ok {
		f.rest(run, x.Agent)
	}
}

// end shows how an execution has ended: with an error unless failure is "".
func (f *feed) end(run *watched, id string, when time.Time, failure string) {
	x, ok := run.take(id)
	if !ok {
		return
	}
	if failure != "" {
		run.told = failure
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

// rest notes that one execution of an agent less is running.
func (f *feed) rest(run *watched, agent string) {
	i, known := f.agents.index[agent]
	if !known {
		return
	}
	if f.working[i]--; f.working[i] == 0 && f.ring != nil {
		f.add(run, agent, 0).turns(i, statusIdle)
	}
}
