package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// fate is a caller's knowledge of its request's result.
type fate string

const (
	done    fate = "done"
	refused fate = "refused"
	unknown fate = "unknown" // no answer, or outcome_unknown
)

// reply is the answer to a caller's request.
type reply struct {
	step Step
	fate fate
	err  error
	from time.Time // time of the request
	at   time.Time // time of the answer

	caller runtime.Caller
	thread int
	run    string // the run's first name
	name   string // the run's name in the request
	as     string // the run's name in the reply
	conv   string // of a start
	msg    string // id of an appended message
}

// callers make the requests of a history and record their replies.
type callers struct {
	*servers
	readers *readers
	numbers atomic.Int64 // of events

	mu      sync.Mutex // guards the fields below
	replies []*reply
	retired []retirement
	final   []*view // at the end
}

func newCallers(h *History, db *database) *callers {
	s := newServers(h, db)
	return &callers{servers: s, readers: &readers{servers: s}}
}

// fateOf classifies errors: a refused request has changed nothing.
func fateOf(p *process, err error) fate {
	var e *runtime.Error
	switch {
	case p.dead.Load():
		return unknown
	case err == nil:
		return done
	case errors.As(err, &e) && (e.Kind != runtime.KindUnavailable || e.Code == "stopping"):
		return refused
	}
	return unknown
}

func title(s *Step) string { return fmt.Sprint("title ", s.N) }

// users are the callers. Their threads have the same names.
var users = []runtime.Caller{
	runtime.MustCaller("p", "u", runtime.RoleUser),
	runtime.MustCaller("p", "v", runtime.RoleUser),
	runtime.MustCaller("q", "u", runtime.RoleUser),
}

// threadsEach is the number of threads of a user.
const threadsEach = 2

// otherThread returns the n-th thread of a thread's owner, counted from that one.
func otherThread(thread, n int) int {
	first := thread - (thread-1)%threadsEach
	return first + (thread-first+n)%threadsEach
}

// place returns a thread's owner and name.
func place(thread int) (runtime.Caller, string) {
	return users[(thread-1)/threadsEach], fmt.Sprint("t", (thread-1)%threadsEach+1)
}

// perform performs one caller's steps.
func (c *callers) perform(steps []Step) {
	for i := range steps {
		s := &steps[i]
		c.sleep(time.Duration(s.After))
		if s.Times < 2 {
			c.step(s)
			continue
		}
		var wg sync.WaitGroup
		for n := range s.Times {
			wg.Go(func() {
				c.nap("again", s.N, n)
				one := *s
				if s.Apart {
					one.Thread = otherThread(s.Thread, n)
				}
				c.step(&one)
			})
		}
		wg.Wait()
	}
}

func (c *callers) step(s *Step) {
	if p := c.server("step", s.N); p != nil {
		c.stepAt(p, s)
	}
}

func (c *callers) stepAt(p *process, s *Step) {
	r := &reply{step: *s, thread: s.Thread, from: time.Now()}
	if s.Run != 0 {
		of := c.known(s.Run)
		if of == nil {
			return // the run may not exist
		}
		r.run, r.name, r.thread = of.run, cmp.Or(of.as, of.run), of.thread
	}
	thread := ""
	r.caller, thread = place(max(r.thread, 1))
	if s.Run != 0 && (s.Do == doRestart || s.Do == doCrash || s.Do == doStop) {
		p = c.executing(p, r)
	}
	if s.Foreign {
		r.caller = users[(r.thread/threadsEach+1)%len(users)]
	}
	switch s.Do {
	case doStart:
		c.start(p, r)
	case doAppend:
		var msg runtime.Message
		msg, r.err = p.rt.Append(c.ctx, r.caller, r.name, runtime.AppendRequest{Content: text(s), Idempotency: c.key(r.caller, s)})
		r.msg = msg.ID
	case doEvent:
		r.msg = fmt.Sprintf("%d.%d", s.N, c.numbers.Add(1))
		_, r.err = p.rt.SendEvent(c.ctx, r.caller, r.name, runtime.EventRequest{Name: "e", Payload: mustJSON(r.msg), Idempotency: c.key(r.caller, s)})
	case doCancel:
		_, r.err = p.rt.Cancel(c.ctx, r.caller, r.name)
	case doAnswer, doReply:
		c.answer(p, r)
	case doDelete:
		r.err = p.rt.Delete(c.ctx, r.caller, r.name)
	case doClear:
		r.err = p.rt.DeleteThread(c.ctx, r.caller, thread)
	case doWipe:
		r.err = p.rt.DeleteUser(c.ctx, r.caller, r.caller.User())
	case doTitle:
		to := title(s)
		_, r.err = p.rt.UpdateThread(c.ctx, r.caller, thread, runtime.ThreadPatch{Title: &to})
	default:
		c.operate(p, s)
		return
	}
	r.fate, r.at = fateOf(p, r.err), time.Now()
	if s.Foreign && r.fate != unknown && !isNotFound(r.err) && !errors.Is(r.err, runtime.ErrStopping) {
		c.find(RuleForeign, "%s %d of %s/%s got at run %s: %v", s.Do, s.N, r.caller.Project(), r.caller.User(), short(r.run), r.err)
	}
	if (s.Do == doClear || s.Do == doWipe) && r.err != nil && !isNotFound(r.err) {
		r.fate = unknown // deletions go in parts, so some rows may be gone
	}
	if s.Do == doDelete && r.fate == done {
		c.noteGone(r.run)
	}
	c.mu.Lock()
	c.replies = append(c.replies, r)
	c.mu.Unlock()
	c.note("%d %s %s: %s%s", s.N, s.Do, orThread(r), r.fate, because(r.err))
}

// executing returns the process that executes the run of a step, p if there is none.
func (c *callers) executing(p *process, r *reply) *process {
	run, err := p.rt.Runs.Get(c.ctx, r.caller, r.name)
	if err == nil {
		p = cmp.Or(c.executor(&run), p)
	}
	return p
}

// executor returns the process that executes a run, or nil.
func (c *callers) executor(run *runtime.Run) *process {
	for _, p := range c.serving() {
		if run.Status == runtime.Running && run.Owner == p.instance {
			return p
		}
	}
	return nil
}

// operate performs steps that are not requests.
func (c *callers) operate(p *process, s *Step) {
	switch s.Do {
	case doRead:
		c.others.Go(func() { c.readers.follow(s) })
	case doLook:
		c.look(p, s)
	case doSnapshot:
		c.readers.snapshot(p, s)
	case doRetire:
		c.expire(p, s)
	case doSeal:
		c.seal(p, s)
	case doCrash:
		c.kill(p)
	case doRestart:
		c.restart(p)
	case doStop:
		c.pause(p, time.Duration(s.By), nil)
	case doClock:
		c.moveClock(time.Duration(s.By))
		c.note("the database's clock moves by %v", time.Duration(s.By))
	}
}

func orThread(r *reply) string {
	if r.run != "" {
		return "run " + short(r.run)
	}
	return fmt.Sprint("thread ", r.thread)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ", " + err.Error()
}

// known returns the reply to the step that started or renamed a run.
func (c *callers) known(n int) *reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.replies {
		if r.step.N == n && (r.step.Do == doStart && r.run != "" || r.as != "" && r.fate == done) {
			return r
		}
	}
	return nil
}

func (c *callers) key(of runtime.Caller, s *Step) *runtime.Idempotency {
	if s.Key == 0 {
		return nil
	}
	return &runtime.Idempotency{Scope: fmt.Sprint(of.Project(), " ", of.User(), " ", s.Do, " key ", s.Key), BodyHash: fmt.Sprint("body ", s.N)}
}

// text returns the message of a step.
func text(s *Step) string { return fmt.Sprintf("m%d: %s", s.N, s.Script) + padding(s.Pad) }

func (c *callers) start(p *process, r *reply) {
	s := &r.step
	_, thread := place(r.thread)
	req := runtime.StartRequest{
		ThreadID: thread, BodyHash: fmt.Sprint("body ", s.N), Multitask: runtime.Multitask(s.Multitask), Idempotency: c.key(r.caller, s),
		Messages: []agui.Message{{ID: fmt.Sprint("m", s.N), Role: agui.RoleUser, Content: text(s)}},
		Tools:    []agui.Tool{{Name: "front"}},
	}
	if s.Agent == flow {
		req.WorkflowID = flow
	} else {
		req.Agent = s.Agent
	}
	if s.Key == 0 {
		req.RunID = fmt.Sprint("r", cmp.Or(s.Name, s.N))
		r.run, r.name = req.RunID, req.RunID
	}
	if s.State {
		req.State = fmt.Appendf(nil, `{"from":%d}`, s.N)
	}
	if s.Rewind {
		req.RewindTo = c.firstMessage(p, r.thread)
	}
	started, err := p.rt.StartRun(c.ctx, r.caller, req)
	r.err = err
	if err != nil {
		return
	}
	r.run, r.name, r.conv = started.RunID, started.RunID, started.ConversationID
	if _, name := place(r.thread); name != started.ThreadID { // that of another caller, with the same key
		r.thread = otherThread(r.thread, 1)
	}
	if s.N%2 == 0 {
		c.others.Go(func() { c.readers.watch(p, started) })
	}
}

// firstMessage returns the id of a message that the thread shows, "" if none is found quickly.
func (c *callers) firstMessage(p *process, thread int) string {
	caller, name := place(thread)
	h, err := p.rt.Threads.History(c.ctx, caller, name, nil)
	if err != nil {
		return ""
	}
	msgs, err := p.rt.Threads.HistoryMessages(c.ctx, h, 0, 2)
	if err != nil || len(msgs.Rows) == 0 {
		return ""
	}
	return msgs.Rows[len(msgs.Rows)-1].ID
}

// leaves returns how many of the open questions, in the order of their places, a step leaves open.
func (s *Step) leaves(open int) int {
	if s.Choice%4 == 3 && open > 1 {
		return 1
	}
	return 0
}

// answer answers a run's questions, with variations: yes, no, edited arguments, or one question left open.
func (c *callers) answer(p *process, r *reply) {
	open, err := p.rt.Runs.Interrupts(c.ctx, r.caller, r.name)
	if err != nil {
		r.err = err
		return
	}
	choice := r.step.Choice
	slices.SortFunc(open, func(a, b agui.Interrupt) int { return cmp.Compare(a.Message, b.Message) })
	open = open[r.step.leaves(len(open)):]
	var entries []agui.ResumeEntry
	var msgs []agui.Message
	for i := range open {
		q := &open[i]
		e := agui.ResumeEntry{InterruptID: q.ID, Status: "resolved"}
		switch q.ToolCallID {
		case "":
			if choice%4 == 1 {
				c.ledger.decline(q.Message)
				e.Status = "cancelled"
			}
			e.Payload = answerTo(q.Message, r.step.Pad)
		case q.ID: // a frontend call
			if r.step.Do == doReply {
				msgs = append(msgs, agui.Message{ID: "client-" + q.ID, Role: agui.RoleTool, ToolCallID: q.ID, Content: "client did " + short(q.ID)})
				continue
			}
			e.Payload = mustJSON("client did " + short(q.ID))
		default:
			e.Payload = c.approve(q, choice+i)
		}
		entries = append(entries, e)
	}
	if r.step.Do == doReply {
		req := runtime.StartRequest{Agent: alone, Resume: entries, Messages: msgs, Multitask: runtime.RejectRun}
		if _, req.ThreadID = place(r.thread); choice%2 == 1 {
			r.as = fmt.Sprint("r", r.step.N)
			req.RunID = r.as
		}
		if _, r.err = p.rt.StartRun(c.ctx, r.caller, req); r.err == nil && r.as != "" {
			run, err := p.rt.Runs.Get(c.ctx, r.caller, r.as)
			r.run = run.ID // a new run, if no question was open any more
			if err != nil {
				r.as = "" // unknown
			}
		}
		return
	}
	_, r.err = p.rt.Resume(c.ctx, r.caller, r.name, entries)
}

func (c *callers) approve(q *agui.Interrupt, choice int) json.RawMessage {
	var asked struct{ Input struct{ Place string } }
	_ = json.Unmarshal(q.Metadata, &asked)
	var a approval
	switch choice % 3 {
	case 0:
		a = approval{approved: true}
	case 1:
		a = approval{approved: true, edited: string(mustJSON(map[string]any{"edited": choice, "place": asked.Input.Place}))}
	}
	c.ledger.answered(q.ToolCallID, a)
	yes := map[string]any{"approved": a.approved}
	if a.edited != "" {
		yes["editedArgs"] = json.RawMessage(a.edited)
	}
	return mustJSON(yes)
}

// mustJSON encodes values that always encode.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// look checks the invariants of a thread's rows.
func (c *callers) look(p *process, s *Step) {
	caller, name := place(s.Thread)
	th, err := p.rt.Threads.Get(c.ctx, caller, name)
	if err != nil {
		return
	}
	page, err := p.rt.Runs.List(c.ctx, caller, runtime.RunFilter{ThreadKey: th.Key, Limit: 500})
	if err != nil {
		return
	}
	runs := page.Rows
	c.checkActive(runs)
	for i := range runs {
		c.checkClosed(p, th, &runs[i])
	}
}

// checkClosed checks that the event in a run's ClosedEvent can be read.
func (c *callers) checkClosed(p *process, th runtime.Thread, r *runtime.Run) {
	if !r.Status.Final() || r.ClosedEvent == 0 || c.h.Does(doDelete, doClear, doWipe, doRetire) {
		return
	}
	cur, err := p.rt.Logs.Read(c.ctx, th, r.ClosedEvent-1, true)
	var refusal *runtime.Error
	if errors.As(err, &refusal) && refusal.Kind == runtime.KindInvalid {
		c.find(RuleStatus, "run %s is %s, closed by event %d, and the log ends before it", short(r.ID), r.Status, r.ClosedEvent)
	}
	if err != nil {
		return
	}
	defer cur.Close()
	if cur.Waits() {
		return // stored but not shown yet
	}
	recs, err := cur.Next(c.ctx)
	if err == nil && (recs[0].ID != r.ClosedEvent || !recs[0].Terminal()) {
		c.find(RuleStatus, "run %s is %s, closed by event %d, which is %s %d", short(r.ID), r.Status, r.ClosedEvent, recs[0].Event.Type(), recs[0].ID)
	}
}

func (c *callers) checkActive(runs []runtime.Run) {
	active := ""
	for i := range runs {
		if r := &runs[i]; r.Status == runtime.Running || r.Status == runtime.Waiting {
			if active != "" {
				c.find(RuleActive, "%s is %s beside %s", short(r.ID), r.Status, active)
			}
			active = fmt.Sprintf("%s, which is %s", short(r.ID), r.Status)
		}
	}
}
