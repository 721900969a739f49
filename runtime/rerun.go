package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/tail"
)

var errUnknownCall = refuseAt("/fromCall", "unknown_call", "The run has made no such model call in its latest generation")

var errItemsCall = refuseAt("/fromCall", "call_of_item", "The call is of an item of a map, which is run again only with its node: see fromNode")

var errInputGone = refuse(KindConflict, "input_gone", "The messages that the run was started with are not kept any more")

// RerunRequest says how a run is run again: all of it, or from a node or a model call, not both.
type RerunRequest struct {
	FromNode  string
	FromCall  string                  // the id of a model call of its latest generation
	Overrides *plugins.ModelOverrides // nil for those of the run

	// Reserve is called with the bytes that the request copies, before it reads them. Its error refuses the request. Nil for no limit.
	Reserve func(bytes int) error
}

// Rerun returns the request that starts a run again, on a new thread of the caller: with its messages and those that its thread had before it
// and still shows, as many of the newest as fit, its state, tools, context, forwardedProps and metadata, and its id in metadata.rerunOf. The
// run may be one that only reader may see. From a node, the new run begins as the earlier one was when that node's first step in its latest
// generation began: with that state, and with the nodes that were completed then. They are not executed again, and their usage is not
// counted again. From a model call, it also begins in the middle of the call's step: the worker gets what it had recorded before the call, and
// the thread of a run of one agent has the messages that the step had shown. The request has its own copy of the data.
func (rt *Runtime) Rerun(ctx context.Context, c, reader Caller, name string, how RerunRequest) (StartRequest, error) {
	if err := c.check(); err != nil {
		return StartRequest{}, err
	}
	run, err := rt.Runs.visible(ctx, reader, name)
	if err != nil {
		return StartRequest{}, err
	}
	if err := rt.Runs.readInput(ctx, &run, how.Reserve); err != nil {
		return StartRequest{}, err
	}
	var in exec.Input
	if err := json.Unmarshal(run.Input, &in); err != nil {
		return StartRequest{}, fmt.Errorf("input of run %s: %w", run.ID, err)
	}
	req := StartRequest{
		Agent: run.Agent, Tools: in.Tools, Context: in.Context, ContextItemIDs: run.ContextItemIDs, ForwardedProps: in.ForwardedProps,
		Overrides: cmp.Or(how.Overrides, in.Overrides),
	}
	tool, isTool := graph.ToolOf(run.WorkflowID)
	switch {
	case isTool && rt.cfg.Accounts && !c.calls():
		return req, errTools
	case isTool:
		req.Tool = tool
	case run.Agent == "":
		req.WorkflowID = run.WorkflowID
	}
	o := origin{rt: rt, run: &run, fromNode: how.FromNode, state: in.State}
	if how.FromCall != "" {
		o.resumed = &exec.Resumed{}
		if err := o.find(ctx, how.FromCall); err != nil {
			return req, unavailable(err)
		}
	}
	if err := o.read(ctx); err != nil {
		return req, unavailable(err)
	}
	req.RunID, req.Messages, req.State, req.kept, req.resumed = data.NewID(), o.messages, o.state, o.kept, o.resumed
	if req.results, err = o.moveResults(ctx, req.RunID); err != nil {
		return req, unavailable(err)
	}
	req.Metadata, err = rerunMetadata(&run, cmp.Or(how.FromNode, how.FromCall))
	return req, err
}

// rerunMetadata returns a run's metadata with its id and the node or the model call from which it is run again.
func rerunMetadata(run *Run, from string) (json.RawMessage, error) {
	members := make(map[string]json.RawMessage)
	if len(run.Metadata) > 0 {
		if err := json.Unmarshal(run.Metadata, &members); err != nil {
			return nil, fmt.Errorf("metadata of run %s: %w", run.ID, err)
		}
	}
	if members == nil { // it was null
		members = make(map[string]json.RawMessage)
	}
	delete(members, "rerunFrom")
	members["rerunOf"], _ = data.JSON(run.ID) // strings always encode
	if from != "" {
		members["rerunFrom"], _ = data.JSON(from)
	}
	return data.JSON(members)
}

// origin is a run that is run again.
type origin struct {
	rt       *Runtime
	run      *Run
	fromNode string          // of the call, if there is one
	call     *ModelCall      // the model call to begin from, or nil
	cut      int64           // the event that the call began with
	shown    map[string]bool // the complete messages that the log has not retracted before, by id
	gone     map[string]bool // the messages that it has

	messages []agui.Message
	state    json.RawMessage // nil for that of a new thread
	kept     []plan.Kept
	resumed  *exec.Resumed
}

// find reads the model call from which the run is run again, and its step.
func (o *origin) find(ctx context.Context, id string) error {
	call, err := o.rt.store.Prompt(ctx, o.run.Project, o.run.Key, id)
	if errors.Is(err, ErrNotFound) {
		return errUnknownCall
	}
	if err != nil {
		return err
	}
	steps, err := o.rt.store.Steps(ctx, o.run.Project, o.run.Key, "", call.Step-1, 1)
	if err != nil {
		return err
	}
	if len(steps.Rows) == 0 || steps.Rows[0].Number != call.Step || steps.Rows[0].Generation != o.run.Generation {
		return errUnknownCall
	}
	if steps.Rows[0].Item != nil {
		return errItemsCall
	}
	o.call, o.resumed.Step, o.fromNode = &call, steps.Rows[0], steps.Rows[0].NodeID
	return nil
}

func (o *origin) read(ctx context.Context) error {
	g, err := o.run.grant()
	if err != nil {
		return err
	}
	spans, err := o.rt.keyed.spans(ctx, g)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(spans, func(s data.Span) bool { return s.Generation == o.run.Generation })
	if o.call != nil {
		return o.readCall(ctx, g, spans[max(i, 0):])
	}
	if err := o.readMessages(ctx, g, spans); err != nil {
		return err
	}
	if o.fromNode != "" {
		if err := o.readKept(ctx, g); err != nil {
			return err
		}
	}
	if i < 0 || o.fromNode == "" && o.state != nil { // it has not begun; or it says its state itself
		return nil
	}
	log, err := o.readLog(ctx, &spans[i], func(rec *Record) bool {
		st, ok := rec.Event.(agui.StepStarted)
		return ok && (o.fromNode == "" || data.NodeOf(st.StepName) == o.fromNode && st.SubagentRunID == "")
	})
	if err != nil {
		return err
	}
	o.state = log.State()
	return nil
}

// readCall reads what the model call's step began with, and had recorded and shown before the call. spans are those of its generation.
func (o *origin) readCall(ctx context.Context, g grant, spans []data.Span) error {
	if len(spans) == 0 {
		return errUnknownCall
	}
	if err := o.readMessages(ctx, g, spans); err != nil {
		return err
	}
	log, err := o.readLog(ctx, &spans[0], func(rec *Record) bool {
		ev, _ := rec.Event.(agui.Custom) // another event is no model call either
		call, ok := agui.ModelCallOf(ev)
		if ok = ok && call.ID == o.call.ID; ok {
			o.cut = rec.ID
		}
		return ok
	})
	if err != nil {
		return err
	}
	if err := o.readKept(ctx, g); err != nil {
		return err
	}
	if o.run.Generation > 1 || o.state == nil {
		o.state = spans[0].State
	}
	records, err := o.rt.keyed.memos(ctx, g, o.run.Generation)
	if err != nil {
		return err
	}
	o.resumed.State, o.resumed.Messages = log.State(), o.shownIn(log)
	o.messages = slices.DeleteFunc(o.messages, func(m agui.Message) bool { return o.gone[m.ID] })
	for len(o.resumed.Messages) > 0 && o.resumed.Messages[0].Role == agui.RoleUser { // guards had rewritten the input to it
		o.messages, o.resumed.Messages = append(o.messages, o.resumed.Messages[0]), o.resumed.Messages[1:]
	}
	o.resumed.Records = journal.Before(records, o.call.Step, o.cut)
	size := log.Grown()
	for i := range o.resumed.Records {
		m := &o.resumed.Records[i]
		size += len(m.Output) + len(m.Place)
	}
	if size > o.rt.cfg.MessageBytes {
		return o.tooLarge()
	}
	return nil
}

// shownIn returns the messages that log shows. Calls without a result are left out: the worker opens them again.
func (o *origin) shownIn(log *fold.Fold) (list []agui.Message) {
	answered, called := make(map[string]bool), make(map[string]bool)
	all := slices.DeleteFunc(log.Messages(), func(m agui.Message) bool { return !o.shown[m.ID] })
	for i := range all {
		answered[all[i].ToolCallID] = true
	}
	for i := range all {
		m := &all[i]
		m.ToolCalls = slices.DeleteFunc(m.ToolCalls, func(c agui.ToolCall) bool { return !answered[c.ID] })
		for _, c := range m.ToolCalls {
			called[c.ID] = true
		}
		if m.Role != agui.RoleTool || called[m.ToolCallID] {
			list = append(list, *m)
		}
	}
	return list
}

// readMessages reads what the thread had before the run, and the messages with which each generation of the run began. These are read from the
// log: a later run may have hidden them.
func (o *origin) readMessages(ctx context.Context, g grant, spans []data.Span) error {
	if len(spans) == 0 {
		queued, err := o.rt.store.RunMessages(ctx, o.run.Project, o.run.Key, 0, tail.LatestMessages)
		o.messages = tail.Contents(queued.Rows)
		if err == nil && len(o.messages) == 0 && o.run.InputQuery != "" { // it was cancelled before it began
			err = errInputGone
		}
		return err
	}
	if first := spans[0].First; first > 1 && !graph.IsToolRun(o.run.WorkflowID) {
		before, err := o.rt.keyed.messagesUpTo(ctx, g, first-1)
		if err != nil {
			return err
		}
		o.messages = tail.Contents(before)
	}
	generation, size := 0, 0
	for i := range spans {
		if spans[i].Generation == generation {
			continue
		}
		generation = spans[i].Generation
		stored, err := o.rt.keyed.event(ctx, g, spans[i].First)
		if err != nil {
			return err
		}
		if stored == nil {
			return errInputGone
		}
		ev, err := agui.Decode(stored.Payload)
		if err != nil {
			return err
		}
		if size += len(stored.Payload); size > o.rt.cfg.MessageBytes {
			return o.tooLarge()
		}
		if began, ok := ev.(agui.RunStarted); ok && began.Input != nil {
			o.messages = append(o.messages, began.Input.Messages...)
		}
	}
	o.messages = tail.Newest(o.messages, min(o.rt.cfg.FrameBytes, o.rt.cfg.MessageBytes))
	return nil
}

// moveResults makes what is copied refer to the results that are files as those of the new run, and returns the keys of the files: they
// are there as long as one of the runs.
func (o *origin) moveResults(ctx context.Context, run string) ([]int64, error) {
	if o.rt.cfg.Attachments == nil {
		return nil, nil
	}
	var calls, found []string
	for i := range o.messages {
		if m := &o.messages[i]; m.Role == agui.RoleTool {
			m.Content, found = exec.MoveResults(m.Content, run)
			calls = append(calls, found...)
		}
	}
	for i := range o.kept {
		k := &o.kept[i]
		k.Node.Output, found = exec.MoveResults(k.Node.Output, run)
		calls = append(calls, found...)
		for j := range k.Steps {
			if st := &k.Steps[j]; st.Output != nil {
				text, _ := exec.MoveResults(*st.Output, run)
				st.Output = &text
			}
		}
	}
	if o.resumed != nil {
		for i := range o.resumed.Records {
			m := &o.resumed.Records[i]
			m.Output, found = exec.MoveResults(m.Output, run)
			calls = append(calls, found...)
		}
		for i := range o.resumed.Messages {
			if m := &o.resumed.Messages[i]; m.Role == agui.RoleTool {
				m.Content, _ = exec.MoveResults(m.Content, run)
			}
		}
	}
	if len(calls) == 0 {
		return nil, nil
	}
	return o.rt.cfg.Attachments.ResultsOf(ctx, o.run.ThreadKey, calls)
}

func (o *origin) tooLarge() error {
	return refuse(KindTooLarge, "messages_too_large", "The messages and the completed nodes of a run that is run again may hold %d bytes", o.rt.cfg.MessageBytes)
}

// readKept reads the nodes that were completed when fromNode began. Of two that end and begin in one millisecond, only the order of those
// that need each other is known; any other node is executed again then.
func (o *origin) readKept(ctx context.Context, g grant) error {
	w, err := graph.Definition(&o.run.Run)
	if err != nil {
		return err
	}
	began := (*data.Step)(nil)
	completed := make(map[string]data.Step) // by name
	for after := 0; ; {
		steps, err := o.rt.store.Steps(ctx, o.run.Project, o.run.Key, "", after, tail.LatestMessages)
		if err != nil {
			return err
		}
		for i := range steps.Rows {
			st := &steps.Rows[i]
			after = st.Number
			switch {
			case st.Generation != o.run.Generation:
			case o.call != nil && st.Number == o.call.Step:
				began = &data.Step{StartedAt: o.call.StartedAt}
			case st.NodeID == o.fromNode && began == nil && o.call == nil:
				began = st
			case st.Status == data.Completed && st.CompletedAt != nil:
				completed[st.Name] = *st
			}
		}
		if !steps.More {
			break
		}
	}
	if began == nil {
		return refuseAt("/fromNode", "unknown_node", "The run has begun no node %q", o.fromNode)
	}
	needed := graph.Before(w, o.fromNode)
	nodes, err := o.rt.keyed.nodes(ctx, g)
	if err != nil {
		return err
	}
	size := 0
	for i := range nodes {
		n := &nodes[i]
		if n.Status != data.Completed || !needed[n.NodeID] && !n.CompletedAt.Before(began.StartedAt) {
			continue
		}
		k := plan.Kept{Node: *n}
		size += len(n.Output)
		for _, st := range completed {
			if st.NodeID == n.NodeID {
				k.Steps, size = append(k.Steps, st), size+len(st.Input)
			}
		}
		if size > o.rt.cfg.MessageBytes {
			return o.tooLarge()
		}
		slices.SortFunc(k.Steps, func(a, b data.Step) int { return a.Number - b.Number })
		o.kept = append(o.kept, k)
	}
	slices.SortFunc(o.kept, func(a, b plan.Kept) int {
		if len(a.Steps)*len(b.Steps) == 0 { // a map without items
			return len(a.Steps) - len(b.Steps)
		}
		return a.Steps[0].Number - b.Steps[0].Number
	})
	return nil
}

// readLog folds the log of a generation up to an event that is the one, or all of it if none need be. It has the thread's state; for a model
// call of a run of one agent also the texts and calls that the run had shown, without those of sub-agents.
func (o *origin) readLog(ctx context.Context, first *data.Span, isOne func(*Record) bool) (*fold.Fold, error) {
	f := fold.New(first.State, nil)
	o.shown, o.gone = make(map[string]bool), make(map[string]bool)
	q := EventQuery{After: first.First, Limit: tail.LatestMessages, Admit: o.reads}
	for {
		recs, next, err := o.rt.Logs.RunEvents(ctx, o.run, q)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			if isOne(rec) {
				return f, nil
			}
			changed, err := f.Apply(rec.Event)
			if err != nil {
				return nil, err
			}
			for _, id := range changed {
				o.shown[id] = true
			}
			ev, _ := rec.Event.(agui.Custom)
			for _, id := range agui.RetractedBy(ev) {
				delete(o.shown, id)
				o.gone[id] = true
			}
		}
		if f.Grown() > o.rt.cfg.MessageBytes {
			return nil, o.tooLarge()
		}
		if q.After = next; next == 0 {
			break
		}
	}
	if o.fromNode != "" {
		return nil, refuse(KindConflict, "input_gone", "The log of the run is not kept any more")
	}
	return f, nil
}

// reads reports whether an event counts in readLog.
func (o *origin) reads(rec *Record) bool {
	switch rec.Event.Type() {
	case agui.TypeStateSnapshot, agui.TypeStateDelta, agui.TypeStepStarted:
		return true
	case agui.TypeCustom:
		return o.call != nil
	case agui.TypeTextMessageStart, agui.TypeTextMessageContent, agui.TypeTextMessageEnd,
		agui.TypeToolCallStart, agui.TypeToolCallArgs, agui.TypeToolCallEnd, agui.TypeToolCallResult:
		return o.call != nil && o.run.Agent != "" && rec.Event.Common().SubagentRunID == "" // other nodes of a workflow show messages, too
	}
	return false
}
