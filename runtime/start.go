package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

// Multitask says what a request does to the runs its thread has already.
type Multitask string

// The ways; the zero value means EnqueueRun.
const (
	EnqueueRun    Multitask = "enqueue"   // wait for its turn
	RejectRun     Multitask = "reject"    // refuse with thread_busy
	InterruptRuns Multitask = "interrupt" // cancel them and keep what they wrote
	RollbackRuns  Multitask = "rollback"  // cancel them, hide their messages and restore the state before them
)

// StartRequest asks for a run. Agent or WorkflowID may be left out on a thread that had a run.
type StartRequest struct {
	Agent          string
	WorkflowID     string
	ThreadID       string // minted when empty
	RunID          string // minted when empty
	ParentRunID    string
	Messages       []agui.Message // messages without an id get one
	State          json.RawMessage
	Tools          []agui.Tool
	Context        []agui.Context
	ContextItemIDs []string
	ForwardedProps json.RawMessage
	Resume         []agui.ResumeEntry
	Metadata       json.RawMessage
	Multitask      Multitask
	RewindTo       string
	BodyHash       string       // of the request, to tell a repeat of a runId from another request
	Idempotency    *Idempotency // nil when the client gave no key

	cancelled []Run // to make room for it
	rollBack  *rollBack
}

// Idempotency is a client's Idempotency-Key in its scope: project, user, method and path.
type Idempotency struct {
	Scope    string
	BodyHash string
}

// Started is the answer to a StartRequest.
type Started struct {
	ThreadID       string `json:"threadId"`
	RunID          string `json:"runId"`
	ConversationID string `json:"conversationId"`
	Status         Status `json:"status"`
	After          int64  `json:"after"` // the log's end when the request was taken
	ThreadKey      int64  `json:"threadKey"`
	RunKey         int64  `json:"runKey"`
	Replayed       bool   `json:"-"` // the answer to an earlier, equal request

	// Results are the tool calls whose results the request has brought: the client has them in messages of its
	// own and would show them twice, so that ReadRun leaves them out.
	Results []string `json:"results,omitempty"`
}

// StartRun takes a request for a run, or for the continuation of a waiting one when it answers what that run
// asks. It returns once the run is stored, claimed already when its thread and a slot are free. It fails
// with an *Error when it refuses, and then nothing has changed.
func (rt *Runtime) StartRun(ctx context.Context, c Caller, req StartRequest) (Started, error) {
	if err := rt.admits(); err != nil {
		return Started{}, err
	}
	if err := rt.check(&req); err != nil {
		return Started{}, err
	}
	for {
		s := starting{rt: rt, c: c, req: req, target: Run{Project: c.Project, User: c.User, WorkflowID: req.Agent + req.WorkflowID}}
		s.slot = s.target.WorkflowID != "" && rt.slots.take(&s.target)
		err := rt.com.decide(&item{op: s.op, wants: s.wants()})
		if s.slot && (err != nil || !s.claimed) {
			rt.slots.free(&s.target)
			rt.queue.nudge()
		}
		if !errors.Is(err, errInTheWay) {
			return s.started, unavailable(err)
		}
		if err := rt.makeRoom(ctx, &req, s.inTheWay); err != nil {
			return Started{}, unavailable(err)
		}
	}
}

// errInTheWay means that the request is good and asks to cancel the runs its thread has, which its op cannot do.
var errInTheWay = refuse(KindConflict, "in_the_way", "The thread has runs to cancel first")

// check refuses what is wrong with a request by itself.
func (rt *Runtime) check(req *StartRequest) error {
	if req.Agent != "" && req.WorkflowID != "" {
		return refuse(KindInvalid, "invalid_request", "Give agent or workflowId, not both")
	}
	if _, ok := rt.reg.Agent(req.Agent); req.Agent != "" && !ok {
		return refuse(KindNotFound, "unknown_agent", "There is no agent %q", req.Agent)
	}
	if _, ok := rt.graphs.workflows[req.WorkflowID]; req.WorkflowID != "" && !ok {
		return refuse(KindNotFound, "unknown_workflow", "There is no workflow %q", req.WorkflowID)
	}
	switch req.Multitask {
	case "", EnqueueRun, RejectRun, InterruptRuns, RollbackRuns:
	default:
		return refuse(KindInvalid, "invalid_request", "multitask must be enqueue, reject, interrupt or rollback")
	}
	for what, name := range map[string]string{"threadId": req.ThreadID, "runId": req.RunID, "parentRunId": req.ParentRunID} {
		if name != "" && !ValidName(name) {
			return refuse(KindInvalid, "invalid_name", "%s must be 1 to 200 characters without control characters", what)
		}
	}
	if err := checkObject("state", req.State); err != nil {
		return err
	}
	if len(req.State) > maxState {
		return refuse(KindTooLarge, "state_too_large", "A thread's state may hold %d bytes", maxState)
	}
	if err := checkObject("metadata", req.Metadata); err != nil {
		return err
	}
	for i := range req.Tools {
		if _, ok := rt.reg.Tool(req.Tools[i].Name); ok || req.Tools[i].Name == "" {
			return refuse(KindInvalid, "invalid_tool", "The client tool %q must have a name that no server tool has", req.Tools[i].Name)
		}
	}
	return rt.checkMessages(req)
}

// ValidName reports whether s can name a thread, a run or a message.
func ValidName(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= 200 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 })
}

func checkObject(what string, raw json.RawMessage) error {
	if len(raw) > 0 && string(raw) != "null" && bytes.TrimLeft(raw, " \t\r\n")[0] != '{' {
		return refuse(KindInvalid, "invalid_request", "%s must be an object", what)
	}
	return nil
}

func (rt *Runtime) checkMessages(req *StartRequest) error {
	seen := make(map[string]bool, len(req.Messages))
	for i := range req.Messages {
		m := &req.Messages[i]
		switch {
		case m.ID == "":
			m.ID = newID()
		case !ValidName(m.ID):
			return refuse(KindInvalid, "invalid_name", "A message id must be 1 to 200 characters without control characters")
		case m.ToolCallID != "" && !ValidName(m.ToolCallID):
			return refuse(KindInvalid, "invalid_name", "A toolCallId must be 1 to 200 characters without control characters")
		case seen[m.ID]:
			return refuse(KindInvalid, "invalid_message", "Two messages have the id %q", m.ID)
		}
		seen[m.ID] = true
		switch m.Role {
		case agui.RoleUser, agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper, agui.RoleTool, agui.RoleReasoning, agui.RoleActivity:
		default:
			return refuse(KindInvalid, "invalid_message", "A message has the unknown role %q", m.Role)
		}
	}
	return nil
}

// makeRoom cancels runs of the request's thread, and notes for a rollback what they leave to hide.
func (rt *Runtime) makeRoom(ctx context.Context, req *StartRequest, open []Run) error {
	if err := rt.cancelAll(ctx, open); err != nil {
		return err
	}
	req.cancelled = append(req.cancelled, open...)
	if req.Multitask != RollbackRuns {
		return nil
	}
	var err error
	req.rollBack, err = rt.rollBack(ctx, req.cancelled)
	return err
}

// rollBack says what to hide of runs that were cancelled, and the state before the oldest of them.
func (rt *Runtime) rollBack(ctx context.Context, runs []Run) (*rollBack, error) {
	r := new(rollBack)
	first := int64(0)
	for i := range runs {
		r.Runs = append(r.Runs, runs[i].Key)
		spans, err := rt.store.Spans(ctx, runs[i].Key)
		if err != nil {
			return nil, err
		}
		if len(spans) > 0 && (first == 0 || spans[0].First < first) {
			first, r.State = spans[0].First, spans[0].State
		}
	}
	return r, nil
}

// starting is one request on its way through the commit queue.
type starting struct {
	rt     *Runtime
	c      Caller
	req    StartRequest
	target Run  // what the slot was taken for
	slot   bool // a slot was taken

	inTheWay []Run // with errInTheWay
	late     bool  // a message of the request answers a call that was answered before
	started  Started
	claimed  bool
}

// wants is what the request names.
func (s *starting) wants() (w Wanted) {
	if s.req.ThreadID != "" {
		w.ThreadNames = []Name{{s.c.Project, s.c.User, s.req.ThreadID}}
	}
	if s.req.RunID != "" {
		w.RunNames = []Name{{s.c.Project, s.c.User, s.req.RunID}}
	}
	if key := s.req.Idempotency; key != nil {
		w.Scopes = []string{key.Scope}
	}
	return w
}

// op decides the request. It refuses before it has written anything.
func (s *starting) op(ctx context.Context, tx Tx, out *outcome) error {
	s.started, s.claimed, s.late = Started{}, false, false
	if done, err := s.repeated(ctx, tx); done || err != nil {
		return err
	}
	th, err := s.thread(ctx, tx)
	if err != nil {
		return err
	}
	if done, err := s.named(ctx, tx, &th); done || err != nil {
		return err
	}
	var open []Run
	if th.Key != 0 {
		if open, err = tx.OpenRuns(ctx, th.Key); err != nil {
			return err
		}
	}
	var waiting *Run
	if i := slices.IndexFunc(open, func(r Run) bool { return r.Status == Waiting }); i >= 0 {
		waiting = &open[i]
	}
	if waiting != nil {
		a, err := s.rt.answer(ctx, tx, waiting, s.req.Resume, s.req.Messages)
		if err != nil {
			return err
		}
		if a != nil {
			return s.resume(ctx, tx, &th, waiting, a, out)
		}
	} else if len(s.req.Resume) > 0 {
		return s.rt.staleResume(ctx, tx, th.Key, s.req.Resume)
	}
	return s.create(ctx, tx, &th, open, waiting, out)
}

// repeated answers a request whose Idempotency-Key has been answered before.
func (s *starting) repeated(ctx context.Context, tx Tx) (bool, error) {
	old, found, err := remembered(ctx, tx, s.req.Idempotency)
	if !found || err != nil {
		return false, err
	}
	if err := json.Unmarshal(old.Answer, &s.started); err != nil {
		return false, err
	}
	s.started.Replayed = true
	return true, nil
}

// thread looks the thread up; one that does not exist has key 0.
func (s *starting) thread(ctx context.Context, tx Tx) (Thread, error) {
	th := Thread{Project: s.c.Project, User: s.c.User, ID: s.req.ThreadID, State: json.RawMessage("{}")}
	if th.ID == "" {
		th.ID = newID()
		return th, nil
	}
	found, err := tx.ThreadByID(ctx, s.c.Project, s.c.User, th.ID)
	if errors.Is(err, ErrNotFound) {
		return th, nil
	}
	if err != nil {
		return th, err
	}
	return tx.LockThread(found.Key)
}

// named answers a request whose runId exists: with that run when it is a repeat, else with a refusal.
func (s *starting) named(ctx context.Context, tx Tx, th *Thread) (bool, error) {
	if s.req.RunID == "" {
		return false, nil
	}
	runs, err := tx.RunsByName(ctx, s.c.Project, s.c.User, s.req.RunID)
	if err != nil || len(runs) == 0 {
		return false, err
	}
	var in runInput
	if err := json.Unmarshal(runs[0].Input, &in); err != nil {
		return false, err
	}
	if runs[0].ThreadKey != th.Key || s.req.BodyHash == "" || in.Requests[s.req.RunID] != s.req.BodyHash {
		return false, refuse(KindConflict, "run_exists", "There is a run %q already", s.req.RunID)
	}
	spans, err := tx.Spans(ctx, runs[0].Key)
	if err != nil {
		return false, err
	}
	s.answer(th, &runs[0])
	if i := slices.IndexFunc(spans, func(sp Span) bool { return sp.RunID == s.req.RunID }); i >= 0 {
		s.started.After = spans[i].First - 1
	}
	s.started.Replayed = true
	return true, nil
}

func (s *starting) answer(th *Thread, run *Run) {
	s.started = Started{
		ThreadID: th.ID, RunID: run.ID, ConversationID: th.ConversationID, Status: run.Status,
		After: th.LastEventID, ThreadKey: th.Key, RunKey: run.Key,
	}
	if s.req.RunID != "" {
		s.started.RunID = s.req.RunID
	}
	for i := range s.req.Messages {
		if m := &s.req.Messages[i]; m.Role == agui.RoleTool {
			s.started.Results = append(s.started.Results, m.ToolCallID)
		}
	}
}

// create stores a new run, and claims it when nothing is before it.
func (s *starting) create(ctx context.Context, tx Tx, th *Thread, open []Run, waiting *Run, out *outcome) error {
	run, err := s.run(ctx, tx, th)
	if err != nil {
		return err
	}
	msgs, err := s.newMessages(ctx, tx, th, s.req.Messages)
	if err != nil {
		return err
	}
	if len(msgs) == 0 && s.late {
		return errAnswered
	}
	if len(open) > 0 && (s.req.Multitask == InterruptRuns || s.req.Multitask == RollbackRuns) {
		s.inTheWay = open
		return errInTheWay
	}
	if err := s.admit(ctx, tx, open, waiting); err != nil {
		return err
	}
	newThread := th.Key == 0
	if newThread {
		th.ConversationID = newID()
		th.CreatedAt, th.UpdatedAt = tx.Now(), tx.Now()
		created := *th // whose key is taken back when the commit's answer is lost, while what goes on keeps th
		if err := tx.Put(&created); err != nil {
			return err
		}
		*th = created
	}
	run.ThreadKey, run.ThreadID, run.ConversationID = th.Key, th.ID, th.ConversationID
	run.CreatedAt, run.QueuedAt = tx.Now(), tx.Now()
	if waiting != nil {
		if err := s.rt.cancelIdle(ctx, tx, waiting, th, out); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(r Run) bool { return r.Key == waiting.Key })
	}
	after := th.LastEventID
	start, err := s.store(ctx, tx, th, run, msgs, len(open) == 0, newThread, out)
	if err != nil {
		return err
	}
	s.answer(th, run)
	s.started.After = after
	return s.finish(tx, th, append(open, *run), out, start)
}

// store writes the new run and its messages, claimed when it is free to start and a slot was taken. It
// returns what starts the run after the commit, nil when it is queued.
func (s *starting) store(ctx context.Context, tx Tx, th *Thread, run *Run, msgs []Message, free, newThread bool, out *outcome) (func(), error) {
	s.claimed = s.slot && free && !s.rt.Stopping()
	if s.claimed {
		s.rt.claimed(run, tx.Now())
	}
	if err := tx.Put(run); err != nil {
		return nil, err
	}
	rows := make([]Row, len(msgs))
	for i := range msgs {
		msgs[i].ThreadKey, msgs[i].RunKey, msgs[i].CreatedAt = th.Key, run.Key, tx.Now()
		rows[i] = &msgs[i]
	}
	if !s.claimed {
		return nil, tx.Put(rows...)
	}
	l, err := s.rt.claimTx(ctx, tx, run, th, out, &fresh{newThread: newThread, queued: msgs})
	if err != nil {
		return nil, err
	}
	return l.start, nil
}

// finish remembers the answer under the request's key, and tells queue and readers of the thread's runs.
func (s *starting) finish(tx Tx, th *Thread, open []Run, out *outcome, start func()) error {
	if key := s.req.Idempotency; key != nil {
		err := tx.Put(&IdempotencyKey{
			Scope: key.Scope, BodyHash: key.BodyHash, RunKey: s.started.RunKey,
			Answer: mustJSON(s.started), CreatedAt: tx.Now(),
		})
		if err != nil {
			return err
		}
	}
	busy := true
	out.busy, out.thread = &busy, th.Key
	out.then = func() {
		if start != nil {
			start()
		}
		s.rt.queue.set(th.Key, open)
	}
	return nil
}

// admit refuses a request for what its thread is doing, or because too many wait.
func (s *starting) admit(ctx context.Context, tx Tx, open []Run, waiting *Run) error {
	busy := slices.ContainsFunc(open, func(r Run) bool { return r.Status != Waiting })
	if busy && s.req.Multitask == RejectRun {
		return ErrThreadBusy
	}
	if waiting != nil {
		asks, err := asksSomebody(ctx, tx, waiting.Key)
		if err != nil {
			return err
		}
		if asks {
			return ErrThreadWaiting
		}
	}
	if s.rt.queue.depth() >= s.rt.cfg.QueueDepth {
		return errQueueFull
	}
	return nil
}

// run is the row of the new run.
func (s *starting) run(ctx context.Context, tx Tx, th *Thread) (*Run, error) {
	agent, workflow := s.req.Agent, s.req.WorkflowID
	if agent == "" && workflow == "" {
		last, err := tx.LastRun(ctx, th.Key)
		if errors.Is(err, ErrNotFound) {
			return nil, refuse(KindInvalid, "missing_agent", "Give an agent or a workflowId: the thread has had no run")
		}
		if err != nil {
			return nil, err
		}
		if agent = last.Agent; agent == "" {
			workflow = last.WorkflowID
		}
	}
	in := runInput{
		Tools: s.req.Tools, Context: s.req.Context, ForwardedProps: s.req.ForwardedProps,
		RewindTo: s.req.RewindTo, RollBack: s.req.rollBack,
	}
	if s.req.RunID != "" {
		in.Requests = map[string]string{s.req.RunID: s.req.BodyHash}
	}
	if st := bytes.TrimSpace(s.req.State); len(st) > 0 && string(st) != "null" && string(st) != "{}" {
		in.State = st
	}
	run := &Run{
		ID: s.req.RunID, Project: s.c.Project, User: s.c.User, Agent: agent, WorkflowID: agent + workflow,
		Status: Queued, Input: mustJSON(in), InputQuery: plain(query(s.req.Messages)),
		ContextItemIDs: s.req.ContextItemIDs, Metadata: s.req.Metadata, ParentRun: s.req.ParentRunID, Generation: 1,
	}
	if run.ID == "" {
		run.ID = newID()
	}
	if g := s.rt.graphs.workflows[workflow]; g != nil {
		run.Definition = g.definition
	}
	return run, nil
}

// plain is text as a column can keep it: databases take no NUL.
func plain(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// query is what the last user message asks.
func query(msgs []agui.Message) string {
	for _, m := range slices.Backward(msgs) {
		if m.Role == agui.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// maxMessages keeps the RUN_STARTED that brings a run's new messages within the size of an event.
const maxMessages = maxEvent - 64<<10

// newMessages are those of the request's messages that are new to the thread, as rows that wait for the claim.
func (s *starting) newMessages(ctx context.Context, tx Tx, th *Thread, msgs []agui.Message) ([]Message, error) {
	known := make(map[string]bool)
	first := th.Key == 0
	if !first && len(msgs) > 0 {
		ids := make([]string, 0, len(msgs))
		for i := range msgs {
			ids = append(ids, msgs[i].ID)
			if msgs[i].ToolCallID != "" { // a client has its own id for the result of its own tool
				ids = append(ids, msgs[i].ToolCallID)
			}
		}
		old, err := tx.MessagesByID(ctx, th.Key, ids)
		if err != nil {
			return nil, err
		}
		for i := range old {
			known[old[i].ID] = true
			known[old[i].ToolCallID] = true
		}
	}
	var fresh []Message
	size := 0
	for _, m := range msgs {
		if known[m.ID] {
			continue
		}
		if m.Role == agui.RoleTool && known[m.ToolCallID] {
			s.late = true
			continue
		}
		if !first && m.Role != agui.RoleUser {
			return nil, refuse(KindInvalid, "invalid_message", "A new message of role %s is admitted only in a thread's first run", m.Role)
		}
		if size += len(m.AppendJSON(nil, agui.Stored)); size > min(s.rt.cfg.MessageBytes, maxMessages) {
			return nil, refuse(KindTooLarge, "messages_too_large", "The new messages of a run may hold %d bytes", min(s.rt.cfg.MessageBytes, maxMessages))
		}
		fresh = append(fresh, Message{State: MessageQueued, ContextItemIDs: s.req.ContextItemIDs, Message: m})
	}
	return fresh, nil
}
