package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/query"
	"github.com/batonrun/baton/transports/wire"
)

// tools returns the tools there are.
func tools() []tool {
	no, yes := new(bool), new(bool)
	*yes = true
	reads := sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: no, OpenWorldHint: no}
	return []tool{
		newTool("get_agent_run_events", "Events of an agent run",
			"Get the durable public AG-UI event log for a project-agent run. A page holds up to limit events, 100 unless "+
				"given; page_info.next is the after_event_id of the next page, null when there is no more yet.",
			reads, Transport.events),
		newTool("get_agent_run_snapshot", "Snapshot of an agent run",
			"Get the durable public stream snapshot for a project-agent run. Its events stand for all those up to "+
				"after_event_id, from which get_agent_run_events reads on.",
			reads, Transport.snapshot),
		newTool("list_agents", "List agents",
			"List the agents and workflows that start_agent_run can start, and the tools that agents may call.",
			reads, Transport.agents),
		newTool("list_agent_runs", "List agent runs",
			"List runs, newest first: their status, what they have come to, and what they ask.",
			reads, Transport.runs),
		newTool("start_agent_run", "Start an agent run",
			"Start a run of an agent or a workflow, on a new thread or to go on with one. It returns when the run is "+
				"accepted; the run goes on by itself.",
			sdk.ToolAnnotations{DestructiveHint: yes, OpenWorldHint: yes}, Transport.start),
		echoing(newTool("append_agent_message", "Append a message to an agent run",
			"Append a user's message to a run. A run at work takes it at its next step, one that has completed or failed "+
				"starts again for it.",
			sdk.ToolAnnotations{DestructiveHint: no, OpenWorldHint: yes}, Transport.append)),
		newTool("resume_agent_run", "Answer an agent run",
			"Answer what a run asks, so that it goes on. Each open interrupt can be answered by itself.",
			sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: yes, OpenWorldHint: yes}, Transport.resume),
		newTool("send_event", "Send an event to an agent run",
			"Send a named event with a payload to a run that has not ended. A run that waits for it goes on, otherwise the "+
				"event is kept until the run waits for it.",
			sdk.ToolAnnotations{DestructiveHint: no, OpenWorldHint: yes}, Transport.event),
		newTool(cancelTool, "Cancel an agent run",
			"Cancel a run that is not over. What it has written so far is kept.",
			sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: yes, OpenWorldHint: no}, Transport.cancel),
	}
}

func (t Transport) events(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	log, err := query.Open(ctx, t.Runtime, who, args.text("conversation_id"), args.text("run_id"))
	if err != nil {
		return nil, err
	}
	after, err := wire.EventCursor(args.integer("after_event_id"))
	if err != nil {
		return nil, err
	}
	limit, err := wire.EventLimit(args.integer("limit"))
	if err != nil {
		return nil, err
	}
	return log.Events(ctx, agui.Public, after, limit)
}

func (t Transport) snapshot(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	log, err := query.Open(ctx, t.Runtime, who, args.text("conversation_id"), args.text("run_id"))
	if err != nil {
		return nil, err
	}
	return log.Snapshot(ctx)
}

func (t Transport) agents(_ context.Context, who runtime.Caller, _ arguments) (any, error) {
	reg := t.Runtime.Offered(who)
	return struct {
		wire.Agents
		wire.Workflows
	}{wire.NewAgents(reg), wire.NewWorkflows(reg)}, nil
}

func (t Transport) runs(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	return query.Runs{
		Statuses: []string{args.text("status")}, Agent: args.text("agent"), WorkflowID: args.text("workflow_id"),
		ThreadID: args.text("thread_id"), Since: args.text("since"),
		Cursor: args.text("cursor"), Limit: args.integer("limit"), Count: string(args["count"]),
	}.Page(ctx, t.Runtime, who)
}

// start starts a run, and detaches it from any connection.
func (t Transport) start(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	body, err := args.body()
	if err != nil {
		return nil, err
	}
	req, err := wire.DecodeRun(body)
	if err != nil {
		return nil, err
	}
	var started runtime.Started
	if t.Streams == nil {
		started, err = t.Runtime.StartRun(ctx, who, req.StartRequest)
	} else if started, err = t.Streams.Ownership.StartRun(ctx, who, req.StartRequest); err == nil {
		t.Streams.Ownership.Detach(who, started)
	}
	return wire.NewStarted(started), err
}

func (t Transport) append(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	who, err := transports.InStead(who, args.text("user"), runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	body, err := args.body()
	if err != nil {
		return nil, err
	}
	req, err := wire.DecodeAppend(body)
	if err != nil {
		return nil, err
	}
	run, err := t.Runtime.Runs.Get(ctx, who, args.text("run_id")) // the answer has its first name
	if err != nil {
		return nil, err
	}
	msg, err := t.Runtime.Append(ctx, who, run.ID, req)
	return wire.NewMessage(run.ID, &msg), err
}

func (t Transport) resume(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	who, err := transports.InStead(who, args.text("user"), runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	body, err := args.body()
	if err != nil {
		return nil, err
	}
	entries, err := wire.DecodeResume(body)
	if err != nil {
		return nil, err
	}
	run, err := t.Runtime.Resume(ctx, who, args.text("run_id"), entries)
	return wire.NewResumed(&run), err
}

func (t Transport) event(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	who, err := transports.InStead(who, args.text("user"), runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	delivered, err := t.Runtime.SendEvent(ctx, who, args.text("run_id"), runtime.EventRequest{Name: args.text("name"), Payload: args["payload"]})
	return wire.Delivered{Delivered: delivered}, err
}

func (t Transport) cancel(ctx context.Context, who runtime.Caller, args arguments) (any, error) {
	who, err := transports.InStead(who, args.text("user"), runtime.RoleOperator)
	if err != nil {
		return nil, err
	}
	run, err := t.Runtime.Cancel(ctx, who, args.text("run_id"))
	return wire.NewCancelled(&run), err
}
