package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports/wire"
)

// log describes a run's log for programs that poll.
func (d *describer) log() {
	s := &d.schemas
	infer[wire.PageInfo](s, "PageInfo", "Leads from one page of a run's log to the next.",
		says("self", "This page's `after_event_id`."), says("next", "The next page's `after_event_id`; null "+
			"when no more is stored, also while the run goes on."),
		may("first", &jsonschema.Schema{Type: "null"}), says("prev", "Of a page backwards: the `before_event_id` of the one before; null at the run's beginning."))
	item := func(id, event *jsonschema.Schema) *jsonschema.Schema {
		return list(object("", must("event_id", id), must("event", event)), "")
	}
	infer[wire.EventPage](s, "EventPage", "A page of a run's log.", may("data", item(count("Its position in the thread's log."),
		either("In the `projection` that was asked for.", ref("PublicEvent"), ref("SeedEvent")))))
	infer[wire.RunSnapshot](s, "RunSnapshot", "What a run's log comes to, as of one of its events.",
		says("after_event_id", "The last event that is in it: reading on begins here."),
		may("events", item(orNull(count("Null for an event that stands for others and is not in the log.")), ref("PublicEvent"))))

	const run = "/api/v1/conversations/{conversation_id}/agent-runs/{run_id}"
	d.area("Run log", "A run's events page by page, for programs that poll: the same JSON as the MCP tools "+
		"`get_agent_run_events` and `get_agent_run_snapshot`.")
	d.add("GET "+run+"/events", operation{
		ID: "getRunEvents", Summary: "Read a run's events",
		Parameters: []parameter{
			query("after_event_id", count("The event behind which the page begins. Absent: the run's beginning.")),
			query("before_event_id", count("Backwards: the event before which the page ends, 0 for the end of the log; `prev` is the next one's. Not with "+
				"after_event_id.")),
			query("types", text("Only events of these types, with commas between them. A page then looks at 10 000 events and ends, short or empty, "+
				"with a cursor that goes on.")),
			query("limit", within(1, 500, 100, "How many events the page may hold.")),
			query("projection", choice("`public`, unless it is `seed`: all events, as `GET …/events` of the thread shows them.", "public", "seed")), projectParam,
		},
		Answers: answers{"200": reply("A page of events. Ids keep their gaps where it leaves events out.", ref("EventPage"), "events")},
	})
	d.add("GET "+run+"/snapshot", operation{
		ID: "getRunSnapshot", Summary: "Read what a run's events come to",
		Description: "The beginning of its latest span, the thread's state and messages up to there, what is " +
			"open, opened again, and the span's end. " +
			"Reading events behind `after_event_id` goes on without a gap or a repeat.",
		Parameters: []parameter{projectParam},
		Answers:    answers{"200": reply("The snapshot.", ref("RunSnapshot"), "snapshot")},
	})
}
