package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// states adds the events of agents' states to a monitor's events.
func (d *describer) states(union *jsonschema.Schema, mapping map[string]string) {
	infer[runtime.AgentStatus](&d.schemas, "AgentStatus", "Whether an agent is at work for the project.",
		may("status", choice("", "idle", "running")))
	agents := list(ref("AgentStatus"), "All agents, by name.")
	add := func(name string, typ agui.Type, s *jsonschema.Schema) {
		d.schemas.name(name, s)
		union.OneOf = append(union.OneOf, ref(name))
		mapping[string(typ)] = ref(name).Ref
	}
	add("MonitorStateSnapshot", agui.TypeStateSnapshot, object("The states of all agents.",
		must("type", constant(agui.TypeStateSnapshot)), must("snapshot", object("", must("agents", agents))), must("agents", agents)))
	add("MonitorStateDelta", agui.TypeStateDelta, object("A change of an agent's state.",
		must("type", constant(agui.TypeStateDelta)), must("agent", text("The agent.")),
		must("delta", as("JSONPatch", "A patch of the snapshot: `/agents/<index>/status`."))))
}

// notices names the schema of the frames of the plain monitor streams.
func (d *describer) notices() {
	of := func(members ...member) *jsonschema.Schema {
		return object("", append(append([]member{must("agent", text("The worker."))}, members...),
			must("run_id", text("The run.")), must("thread_id", text("Its thread.")))...)
	}
	union := &jsonschema.Schema{Description: "A frame of a monitor stream."}
	for _, n := range []struct {
		event, about string
		data         *jsonschema.Schema
	}{
		{"token", "Text that a worker writes.", of(must("text", text("")))},
		{"tool_call_start", "A tool call whose arguments " +
			"are complete.", of(must("tool", text("")), must("args", object("")))},
		{"tool_call_end", "A tool call that has ended.", of(must("tool", text("")), must("result", text("")))},
		{"agent_complete", "An execution of a worker that has ended well.", of(must("duration_ms", count("")))},
		{"error", "An execution of a worker, or a run, that has failed.", of(must("error", text("")))},
		{"keepalive", "The stream is alive.", object("")},
		{"reset", "The stream starts anew: what lay between is not shown.", object("")},
	} {
		union.OneOf = append(union.OneOf, object(n.about, may("id", monitorID), must("event", constant(n.event)), must("data", n.data)))
	}
	d.schemas.name("MonitorNotice", union)
	d.schemas.name("MonitorFrame", framed(monitorID, ref("MonitorEvent")))
}

var monitorID = text("`<epoch>-<offset>`: send it as `Last-Event-ID` to go on behind it, as long as it is among " +
	"the last 4 096.")

// monitor describes the streams that show all runs of a project.
func (d *describer) monitor() {
	d.notices()
	d.area("Monitor", "What goes on in a project, live, over all its runs. A user sees own runs; viewers, "+
		"operators and admins see all. "+
		"A reader that falls too far behind is disconnected, never waited for.")
	again := inHeader("Last-Event-ID", text("The id of the last frame the reader has. EventSource sends it by itself."))
	notices := answers{"200": stream("The frames.", ref("MonitorNotice"), "notices")}
	d.add("GET /api/v1/events", operation{
		ID: "monitorAll", Summary: "Watch all agents",
		Parameters: []parameter{again, polyfillID, projectParam}, Answers: notices,
	})
	d.add("GET /api/v1/agents/stream", operation{
		ID: "monitorAgent", Summary: "Watch one agent",
		Parameters: []parameter{query("agent", text("The agent.")).required(), again, polyfillID, projectParam},
		Answers: answers{
			"200": notices["200"],
			"400": refuse("The parameter agent is missing.", "invalid_request", "The parameter agent must name an agent"),
			"404": refuse("There is no such agent or project.", "not_found", "Agent not found"),
		},
	})
	d.add("GET /api/v1/agui/events", operation{
		ID: "monitorEvents", Summary: "Watch all runs as AG-UI events",
		Description: "The states of all agents, then how they change, and the lifecycle, text and tool events " +
			"of all runs, mingled: for a monitor, not to follow one run.",
		Parameters: []parameter{again, polyfillID, projectParam},
		Answers:    answers{"200": stream("The frames.", ref("MonitorFrame"), "monitor")},
	})
}
