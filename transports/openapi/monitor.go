package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// states adds the events of agents' states to a monitor's events.
func (d *describer) states(union *jsonschema.Schema, mapping map[string]string) {
	infer[runtime.AgentStatus](&d.schemas, "AgentStatus")
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
		must("delta", as("JSONPatch", "A patch of the snapshot at `/agents/<index>/status`."))))
}

// notices names the schema of the frames of the plain monitor streams.
func (d *describer) notices() {
	of := func(members ...member) *jsonschema.Schema {
		return object("", append(append([]member{must("agent", text("The worker."))}, members...),
			must("run_id", text("The run.")), must("thread_id", text("The run's thread.")))...)
	}
	union := &jsonschema.Schema{Description: "A frame of a monitor stream."}
	for _, n := range []struct {
		event, about string
		data         *jsonschema.Schema
	}{
		{"token", "Text written by a worker.", of(must("text", text("The text.")))},
		{"tool_call_start", "A tool call with complete arguments.", of(must("tool", text("The tool.")), must("args", object("The arguments.")))},
		{"tool_call_end", "A finished tool call.", of(must("tool", text("The tool.")), must("result", text("The result.")))},
		{"agent_complete", "A successful execution of a worker.", of(must("duration_ms", count("Duration in milliseconds.")))},
		{"error", "A failed execution of a worker, or a failed run.", of(must("error", text("What failed.")))},
		{"keepalive", "Sent on an idle stream.", object("")},
		{"reset", "The stream restarts. The events in between are lost.", object("")},
	} {
		union.OneOf = append(union.OneOf, object(n.about, may("id", monitorID), must("event", constant(n.event)), must("data", n.data)))
	}
	d.schemas.name("MonitorNotice", union)
	d.schemas.name("MonitorFrame", framed(monitorID, ref("MonitorEvent")))
}

var monitorID = text("`<epoch>-<offset>`. Send it as `Last-Event-ID` to continue after it. Only the last 4 096 frames can be resumed.")

// monitor describes the streams that show all runs of a project.
func (d *describer) monitor() {
	d.notices()
	d.area("Monitor", "Live streams over all runs of a project. Users see their own runs; viewers, operators and admins see all. A reader that falls "+
		"too far behind is disconnected.")
	again := inHeader("Last-Event-ID", text("Id of the last frame received. EventSource sends this header itself."))
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
			"400": refuse("The parameter `agent` is missing.", "invalid_request", "The parameter agent must name an agent"),
			"404": refuse("The agent or project does not exist.", "not_found", "Agent not found"),
		},
	})
	d.add("GET /api/v1/agui/events", operation{
		ID: "monitorEvents", Summary: "Watch all runs as AG-UI events",
		Description: "Sends the states of all agents, then their changes, with the lifecycle, text and tool events of all runs interleaved. Use it for " +
			"monitoring, not to follow one run.",
		Parameters: []parameter{again, polyfillID, projectParam},
		Answers:    answers{"200": stream("The frames.", ref("MonitorFrame"), "monitor")},
	})
}
