package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports/wire"
)

// log describes a run's log for programs that poll.
func (d *describer) log() {
	s := &d.schemas
	infer[wire.PageInfo](s, "PageInfo", may("first", &jsonschema.Schema{Type: "null"}))
	item := func(id, event *jsonschema.Schema) *jsonschema.Schema {
		return list(object("", must("event_id", id), must("event", event)), "")
	}
	infer[wire.EventPage](s, "EventPage", may("data", item(count("Position in the thread's log."),
		either("The event in the requested `projection`.", ref("PublicEvent"), ref("SeedEvent")))))
	infer[wire.RunSnapshot](s, "RunSnapshot", may("events", item(orNull(count("Null for events that summarize others and are not in the log.")), ref("PublicEvent"))))

	const run = "/api/v1/conversations/{conversation_id}/agent-runs/{run_id}"
	d.area("Run log", "A run's events in pages, for programs that poll. Returns the same JSON as the MCP tools `get_agent_run_events` and "+
		"`get_agent_run_snapshot`.")
	d.add("GET "+run+"/events", operation{
		ID: "getRunEvents", Summary: "List a run's events",
		Parameters: []parameter{
			query("after_event_id", count("The page begins after this event. Default: the start of the run.")),
			query("before_event_id", count("For reading backwards: the page ends before this event. 0 means the end of the log. `prev` has the value "+
				"for the preceding page. Not together with after_event_id.")),
			query("types", text("Only events of these types, separated by commas. A page then searches 10 000 events. It may be short or empty and "+
				"still have a cursor to continue.")),
			query("limit", within(1, 500, 100, "Maximum number of events in the page.")),
			query("projection", choice("`public`, or `seed` for all events in the form of the thread's `GET …/events`.", "public", "seed")), projectParam,
		},
		Answers: answers{"200": reply("A page of events. Ids of omitted events are skipped.", ref("EventPage"), "events")},
	})
	d.add("GET "+run+"/snapshot", operation{
		ID: "getRunSnapshot", Summary: "Get a snapshot of a run",
		Description: "Returns the start of the run's latest span, the thread's state and messages up to there, the start events of everything still " +
			"open, and the span's end. Continue with the events after `after_event_id`: none is missing or repeated.",
		Parameters: []parameter{projectParam},
		Answers:    answers{"200": reply("The snapshot.", ref("RunSnapshot"), "snapshot")},
	})
}
