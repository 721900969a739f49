package openapi

import (
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime/agui"
)

// form is a form of events.
type form struct {
	bit   int
	name  string // before the names of its schemas
	about string
}

// The forms. All but the monitor's are projections of their own.
const (
	seed = 1 << iota
	agui1
	agui0
	public
	monitor

	full   = seed | monitor // with Baton's own members at top level
	strict = agui1 | agui0  // with AG-UI's members only
	whole  = seed | strict  // with all events of a thread
	logged = whole | public // the events of a thread's log
	every  = logged | monitor
)

// Members of many events.
var (
	threadID = text("The thread's name, as chosen by its client.")
	runID    = text("The run's name in this span.")
)

var forms = []form{
	{seed, "Seed", "An event of the `seed` form: complete AG-UI 0.0 members plus `agent`, `stage`, `workerAgentOutput` and `toolAgentOutput`."},
	{agui1, "Agui", "An event of AG-UI 1.0 with AG-UI's members only. Baton's own data is in `metadata`."},
	{agui0, "Legacy", "An event of AG-UI 0.0, for clients that send no `protocolVersion`. Sub-agents are steps. A cancelled run ends in RUN_ERROR with " +
		"the code CANCELLED."},
	{public, "Public", "An event of the `public` form: only types and shapes declared by the MCP tool get_agent_run_events."},
	{monitor, "Monitor", "An event of any run of the project, in the `seed` form plus `run_id`, `thread_id`, `text` and `duration_ms`; or an event of " +
		"the agents' states."},
}

// events names the schemas of all events in all forms: SeedEvent, SeedRunStarted, and so on.
func (d *describer) events() {
	for _, f := range forms {
		union := &jsonschema.Schema{Description: f.about}
		mapping := make(map[string]string)
		var known []any
		for _, e := range events() {
			known = append(known, string(e.typ))
			if e.in&f.bit == 0 {
				continue
			}
			name := f.name + camel(string(e.typ))
			d.schemas.name(name, f.event(e))
			union.OneOf = append(union.OneOf, ref(name))
			mapping[string(e.typ)] = ref(name).Ref
		}
		switch f.bit {
		case agui1:
			d.schemas.name("AguiOther", f.other(known))
			union.OneOf = append(union.OneOf, ref("AguiOther"))
		case monitor:
			d.states(union, mapping)
		}
		union.Extra = map[string]any{"discriminator": map[string]any{"propertyName": "type", "mapping": mapping}}
		d.schemas.name(f.name+"Event", union)
	}
}

// event returns the schema of an event in a form.
func (f form) event(e event) *jsonschema.Schema {
	list := []member{must("type", constant(e.typ))}
	if f.bit&full != 0 {
		list = append(list, must("threadId", threadID), must("runId", runID),
			may("agent", text("The agent that emitted the event.")))
	}
	for _, m := range e.members {
		if m.in&f.bit != 0 {
			list = append(list, m.member)
		}
	}
	s := object(e.about, append(list, f.common(e.typ)...)...)
	if f.bit == monitor { // as own members they would be duplicates of runId and threadId in generated code
		s.PatternProperties = map[string]*jsonschema.Schema{"^(run|thread)_id$": text("Same as `runId` and `threadId`.")}
	}
	return s
}

// common returns the members that every event of a form has or may have.
func (f form) common(typ agui.Type) []member {
	list := []member{may("timestamp", count("Milliseconds since 1970-01-01 UTC.")), may("rawEvent", anything("The provider's own event."))}
	if f.bit == agui1 {
		list = append(list, may("subagentRunId", text("The sub-agent invocation it belongs to.")))
	}
	if f.bit == monitor {
		switch typ {
		case agui.TypeTextMessageContent:
			list = append(list, must("text", text("Same as `delta`.")))
		case agui.TypeRunFinished, agui.TypeRunError:
			list = append(list, must("duration_ms", count("Duration of the span in milliseconds.")))
		}
	}
	if typ == agui.TypeRunFinished {
		return append(list, may("metadata", ref("FinishMetadata")))
	}
	about := "Data added by the agent or the provider."
	if f.bit&full == 0 {
		switch typ {
		case agui.TypeRunStarted:
			about += " `agentId` is the agent."
		case agui.TypeTextMessageStart:
			about += " `agent` is the agent, `stage` the stage of its work."
		case agui.TypeToolCallStart:
			about += " `agent` is the agent."
		case agui.TypeTextMessageEnd:
			about += " `workerAgentOutput` is what the worker returned besides its answer."
		case agui.TypeToolCallResult:
			about += " `toolAgentOutput` is what the tool returned besides its summary."
		}
	}
	return append(list, may("metadata", object(about)))
}

// other returns the schema of an event of an unknown type.
func (f form) other(known []any) *jsonschema.Schema {
	typ := &jsonschema.Schema{Type: "string", Pattern: "^[A-Z][A-Z0-9_]{0,63}$", Not: &jsonschema.Schema{Enum: known}}
	s := object("An event of a type that Baton passes on from a plugin or a remote agent, with its own members.",
		append([]member{must("type", typ)}, f.common("")...)...)
	s.AdditionalProperties = anything("")
	return s
}

// frame returns the schema of a frame of an event stream with data of a schema.
func frame(data *jsonschema.Schema) *jsonschema.Schema {
	return framed(count("Position in the thread's log: 1, 2, 3, … without gaps. Send the last one as `Last-Event-ID` to continue after it. Absent on "+
		"frames that are not part of the log."), data)
}

func framed(id, data *jsonschema.Schema) *jsonschema.Schema {
	return object("A frame of an event stream, with `id: …`, `event: …` and `data: …` on separate lines. Frames that only keep the stream alive "+
		"or mark its start have no data.", may("id", id), must("event", text("The event's type.")), must("data", data))
}

// camel returns RunStarted for RUN_STARTED.
func camel(typ string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(typ, "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return b.String()
}
