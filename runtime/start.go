package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/reconcile"
	"github.com/batonrun/baton/runtime/tail"
)

// StartRequest asks for a run. Agent and WorkflowID may both be empty on a thread whose last run had one of them: the
// new run gets the same.
type StartRequest struct {
	Agent          string
	WorkflowID     string
	Tool           string // instead of both: the run is one call of this tool, with the text of the last user message as its arguments, in JSON
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
	Edits          bool         // messages that deviate from the thread before its end rewind it, as chat front ends expect
	BodyHash       string       // of the request, to distinguish a repeat of a runId from another request
	Idempotency    *Idempotency // nil when the client gave no key

	Overrides *plugins.ModelOverrides // of the Agent, nil for none; with accounts for operators

	TiedTo string `json:"-"` // the connection that the run will belong to: see data.RunTie; empty for none

	// MakeWay ends runs that the request replaces, before its messages are compared with those of a busy thread. It reports whether there
	// were any; may be nil.
	MakeWay func(context.Context) bool `json:"-"`

	kept    []plan.Kept   // nodes that the run need not execute: see Rerun
	resumed *exec.Resumed // the step that it begins in the middle of, or nil
	results []int64       // keys of the files with results that these nodes and the messages refer to

	Late func(Started) `json:"-"` // receives the started run if StartRun has returned outcome_unknown and the run starts after all; may be nil
}

// StartRun starts a run, or continues a waiting one if the request answers its interrupts. It blocks until the run is
// stored, and already claimed if its thread and a slot are free; with multitask interrupt or rollback it blocks until
// the replaced runs are over, or the database is stuck. If it refuses, it fails with an *Error and nothing has changed, unless the Code is
// outcome_unknown: then the run may still begin later, and the caller must not change any data that req refers to.
func (rt *Runtime) StartRun(ctx context.Context, c Caller, req StartRequest) (started Started, err error) {
	if err := rt.Member.admits(c); err != nil {
		return Started{}, err
	}
	s := &starting{rt: rt, c: c, req: &req}
	if err := s.check(); err != nil {
		return s.refused(ctx, err)
	}
	if rt.cfg.Tracer != nil {
		var end func(End)
		ctx, end = rt.cfg.Tracer.Begin(ctx, Op{Kind: OpStart, Name: req.Agent + req.WorkflowID + req.Tool, Run: req.RunID, Thread: req.ThreadID})
		defer func() { end(End{Run: started.RunID, Thread: started.ThreadID, Err: err}) }()
	}
	for attempt := 0; ; { // again if the thread has changed meanwhile
		s = &starting{rt: rt, c: c, req: &req}
		cmd, err := s.prepare(ctx)
		prepared := err == nil // all checks before the decision have passed
		var out *decide.Decided
		if prepared {
			out, err = rt.work.Start(ctx, cmd, s.late)
		}
		switch {
		case err == nil:
			return s.accepted(ctx, out)
		case errors.Is(err, decide.ErrStale) && ctx.Err() == nil:
		case errors.Is(err, ErrUnavailable) && attempt < readAttempts && ctx.Err() == nil && rt.Member.admits(c) == nil: // nothing has been decided
			commit.Pause(ctx, attempt)
			attempt++
		case prepared:
			return Started{}, unavailable(err)
		default:
			return s.refused(ctx, unavailable(err))
		}
	}
}

// late ends a request after StartRun has failed with outcome_unknown: it was accepted, or the thread has changed meanwhile.
func (s *starting) late(out *decide.Decided, err error) {
	var started Started
	switch {
	case err == nil:
		started, err = s.accepted(context.Background(), out)
	case errors.Is(err, decide.ErrStale), errors.Is(err, decide.ErrUnknownMessage):
		started, err = s.rt.StartRun(context.Background(), s.c, *s.req)
	}
	if err == nil && s.req.Late != nil {
		s.req.Late(started)
	}
}

// accepted ends the runs that the request replaces, and answers it.
func (s *starting) accepted(ctx context.Context, out *decide.Decided) (Started, error) {
	s.out = out
	if s.out.Run.Key == s.run.Key { // otherwise the request answered or repeated another run
		replaced := make([]RunHead, len(s.out.Run.Replaces))
		for i, r := range s.out.Run.Replaces {
			replaced[i] = RunHead{Key: r.RunKey, ThreadKey: s.out.Thread, Project: s.c.project, Generation: r.Generation}
		}
		if len(replaced) > 0 { // after an error the run waits for their cancellation, also after a crash
			_ = s.rt.carryThrough(func() error { return s.rt.work.CancelAll(replaced, decide.By{}) })
		}
	}
	if s.out.Started.Replayed {
		if err := s.recall(ctx); err != nil {
			return Started{}, unavailable(err)
		}
	}
	return s.started(), nil
}

// readAttempts is how often a request is prepared again after a broken connection.
const readAttempts = 5

// check refuses a request for errors that show without the thread.
func (s *starting) check() error {
	rt, c, req, offered := s.rt, s.c, s.req, s.rt.Offered(s.c)
	if req.Agent != "" && req.WorkflowID != "" || req.Tool != "" && req.Agent+req.WorkflowID != "" {
		return refuse(KindInvalid, "invalid_request", "Give agent or workflowId, not both")
	}
	if _, ok := offered.Agent(req.Agent); req.Agent != "" && !ok {
		if _, ok := offered.Workflow(req.Agent); ok {
			return refuse(KindNotFound, "unknown_agent", "%q is a workflow: name it in workflowId, not in agent", req.Agent)
		}
		return rt.Unknown(c, "unknown_agent", "agent or workflow", req.Agent)
	}
	if _, ok := offered.Workflow(req.WorkflowID); req.WorkflowID != "" && !ok {
		if _, ok := offered.Agent(req.WorkflowID); ok {
			return refuse(KindNotFound, "unknown_workflow", "%q is an agent: name it in agent, not in workflowId", req.WorkflowID)
		}
		return rt.Unknown(c, "unknown_workflow", "agent or workflow", req.WorkflowID)
	}
	if _, ok := offered.Tool(req.Tool); req.Tool != "" && !ok && offered.Settled(req.Tool) { // at a gateway tool servers do not settle
		return rt.Unknown(c, "unknown_tool", "tool", req.Tool)
	}
	if req.RewindTo != "" && len(req.Resume) > 0 {
		return refuse(KindInvalid, "invalid_request", "Give resume or rewindTo, not both: an answer goes on with its run")
	}
	if err := s.checkOverrides(offered); err != nil {
		return err
	}
	switch req.Multitask {
	case "", EnqueueRun, RejectRun, InterruptRuns, RollbackRuns:
	default:
		return refuseAt("/multitask", "invalid_request", "multitask must be enqueue, reject, interrupt or rollback")
	}
	for _, n := range [...]struct{ of, name string }{
		{"threadId", req.ThreadID}, {"runId", req.RunID}, {"parentRunId", req.ParentRunID}, {"rewindTo", req.RewindTo},
	} {
		if n.name != "" && !ValidName(n.name) {
			return refuseAt("/"+n.of, "invalid_name", "%s must be 1 to 200 characters without control characters", n.of)
		}
	}
	for i, e := range req.Resume {
		if !ValidName(e.InterruptID) {
			return badInterruptID(i)
		}
	}
	if err := checkContextItems(req.ContextItemIDs); err != nil {
		return err
	}
	if err := checkObject("state", req.State); err != nil {
		return err
	}
	if most := rt.cfg.StateBytes; len(req.State) > most {
		return refuse(KindTooLarge, "state_too_large", "A thread's state may hold %d bytes", most)
	}
	if err := checkObject("metadata", req.Metadata); err != nil {
		return err
	}
	for i := range req.Tools {
		if name := req.Tools[i].Name; !ValidName(name) || owns(offered, name) {
			return refuseAt(fmt.Sprintf("/tools/%d/name", i), "invalid_tool", "The client tool %.200q must have a name of 1 to 200 characters that no server tool or agent has", name)
		}
	}
	if i, err := graph.CheckClientTools(req.Tools); err != nil {
		return refuseAt(fmt.Sprintf("/tools/%d/parameters", i), "invalid_tool", "The parameters of the client tool %q are no JSON Schema that Baton can use: %v", req.Tools[i].Name, err)
	}
	return reconcile.Check(req.Messages)
}

// owns reports whether a name is that of a tool, of an agent, which agents call as a tool, or of a toolbox, whose tools may not be known
// yet.
func owns(offered *host.Registry, name string) bool {
	_, isTool := offered.Tool(name)
	_, inBox := offered.Toolbox(name)
	_, isAgent := offered.Agent(name)
	return isTool || inBox || isAgent
}

// ValidName reports whether s can name a thread, a run or a message.
func ValidName(s string) bool { return data.ValidName(s) }

func badInterruptID(i int) error {
	return refuseAt(fmt.Sprintf("/resume/%d/interruptId", i), "invalid_name", "An interruptId must be 1 to 200 characters without control characters")
}

// The contextItemIds of a request come from other systems and may hold any characters.
const (
	maxContextItems = 1000
	maxContextItem  = 256 // bytes of one
)

func checkContextItems(ids []string) error {
	if len(ids) > maxContextItems {
		return refuse(KindInvalid, "invalid_request", "There may be %d contextItemIds", maxContextItems)
	}
	for i, id := range ids {
		if len(id) > maxContextItem {
			return refuseAt(fmt.Sprintf("/contextItemIds/%d", i), "invalid_request", "A contextItemId may have %d bytes", maxContextItem)
		}
	}
	return nil
}

func checkObject(what string, raw json.RawMessage) error {
	if len(raw) > 0 && string(raw) != "null" && bytes.TrimLeft(raw, " \t\r\n")[0] != '{' {
		return refuseAt("/"+what, "invalid_request", "%s must be an object", what)
	}
	return nil
}

// starting is a request until its answer.
type starting struct {
	rt  *Runtime
	c   Caller
	req *StartRequest
	out *decide.Decided

	th       data.Thread
	at       grant // grant of th, unless the request begins it
	first    bool  // the thread does not exist yet
	run      data.Run
	plan     reconcile.Plan
	attached []int64 // keys of attachments that its messages refer to

	replies *decide.Answers
	answers map[string]bool // the interrupts that the request answers, including calls of the client's own tools
}

// started returns the answer with a grant to read its run.
func (s *starting) started() Started {
	out := s.out.Started
	s.brought(&out)
	return grantedStart(s.c.project, s.c.user, out)
}

// prepare reads the data that the decision is based on, and does the slow work.
func (s *starting) prepare(ctx context.Context) (*decide.Start, error) {
	for _, step := range []func(context.Context) error{s.readThread, s.reconcile, s.newRun, s.readAnswers, s.attach} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	c := &decide.Start{
		Thread: s.th, New: s.first, Run: s.run, Named: s.req.RunID != "", BodyHash: s.req.BodyHash,
		Multitask: s.req.Multitask, Key: s.req.Idempotency, Limits: s.rt.limits(&s.run.RunHead), Edit: s.plan.HideFrom > 0,
		Messages: s.plan.Taken, Size: s.plan.Size, Attached: append(s.attached, s.req.results...), Answers: s.replies,
		Lost: s.plan.Lost, By: s.rt.by(s.c, "start"),
	}
	for _, e := range s.req.Resume {
		c.Interrupts = append(c.Interrupts, e.InterruptID)
	}
	if n := len(s.req.Messages); n > 0 && s.req.Messages[n-1].Role == agui.RoleTool && !s.plan.Known[s.req.Messages[n-1].ID] {
		c.Last = s.req.Messages[n-1].ToolCallID
	}
	return c, nil
}

// readThread reads the thread, or makes a new one.
func (s *starting) readThread(ctx context.Context) (err error) {
	if s.req.ThreadID != "" {
		s.th, err = s.rt.store.ThreadByID(ctx, s.c.project, s.c.user, s.req.ThreadID)
		if !errors.Is(err, ErrNotFound) {
			s.at = granted(s.th).granted
			return err
		}
	}
	s.first = true
	s.th = data.Thread{State: json.RawMessage("{}")}
	s.th.Project, s.th.User, s.th.ID, s.th.ConversationID = s.c.project, s.c.user, cmp.Or(s.req.ThreadID, data.NewID()), data.NewID()
	s.th.Key, err = s.rt.newThreadKey(ctx)
	return err
}

// newRun makes the row of the new run.
func (s *starting) newRun(ctx context.Context) error {
	agent, workflow := s.req.Agent, s.req.WorkflowID
	switch {
	case s.req.Tool != "":
		workflow = graph.ToolRun(s.req.Tool)
	case agent == "" && workflow == "" && !s.first:
		last, err := s.rt.keyed.lastRun(ctx, s.at)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if agent = last.Agent; agent == "" && !graph.IsToolRun(last.WorkflowID) {
			workflow = last.WorkflowID
		}
	}
	in := exec.Input{
		Tools: s.req.Tools, Context: s.req.Context, ForwardedProps: s.req.ForwardedProps, RewindTo: s.req.RewindTo,
		HideFrom: s.plan.HideFrom, Edited: s.plan.Edited, Kept: s.req.kept, Resumed: s.req.resumed,
		Overrides: s.req.Overrides,
	}
	if t := s.rt.cfg.Tracer; t != nil {
		in.Trace = t.Parent(ctx)
	}
	if state := tail.StateOf(s.req.State); string(state) != "{}" {
		in.State = state
	}
	s.run = data.Run{
		RunHead: RunHead{
			ThreadKey: s.th.Key, Project: s.c.project, User: s.c.user, ID: cmp.Or(s.req.RunID, data.NewID()),
			Agent: agent, WorkflowID: agent + workflow,
		},
		Input: in.JSON(), InputQuery: data.Shown(data.Query(s.req.Messages)),
		ContextItemIDs: s.req.ContextItemIDs, Metadata: s.req.Metadata, ParentRun: s.req.ParentRunID, TiedTo: s.req.TiedTo,
		ThreadID: s.th.ID, ConversationID: s.th.ConversationID,
	}
	s.run.Definition = s.rt.work.Offers.Definition(s.c.project, workflow)
	if s.req.Tool != "" {
		s.run.Definition = graph.OfTool(s.req.Tool)
	}
	var err error
	s.run.Key, err = s.rt.newRunKey(ctx)
	return err
}
