package openapi

// aguiStream returns the answer with the events of one run.
func aguiStream(about string) *answer {
	return stream(about, either("A frame in the dialect selected by the request's `protocolVersion`.", ref("AguiFrame"), ref("LegacyFrame")), "agui")
}

var (
	lastEventID = inHeader("Last-Event-ID", text("Id of the last event received; the stream continues after it. EventSource sends this header itself. "+
		"It overrides `after_event_id`."))
	polyfillID = query("lastEventId", text("`Last-Event-ID` as sent by EventSource polyfills. The header overrides it."))
	afterParam = query("after_event_id", text("Where the first request begins: after the event with this id, or `latest` for new events only. Default: "+
		"the first event."))
	followParam = query("follow", flag("Keep the stream open when the thread is idle. Default: false."))
)

// streams describes runs and their event streams.
func (d *describer) streams() {
	d.area("Streams", "Start runs and watch threads live.")
	d.add("POST /api/v1/agent/runs", operation{
		ID: "startRun", Summary: "Start a run",
		Description: "With `Accept: text/event-stream`, streams the run's events up to its terminal event. The run then belongs to its connection. It " +
			"is cancelled when the connection has been closed for 10 seconds, unless `forwardedProps.background` is true. Otherwise returns JSON as soon " +
			"as the run is stored, and only a cancel request stops the run.\n\nA request with `resume` or with `tool` messages answers the thread's " +
			"WAITING run. The same run continues.",
		Parameters: []parameter{projectParam, keyHeader},
		Body:       accept(ref("RunRequest"), startExamples...),
		Answers: startAnswers(answers{
			"200": aguiStream("With `Accept: text/event-stream`: the run's events.").beside(),
			"202": reply("The run was accepted.", ref("Started"), "started"),
		}),
	})
	d.add("GET /api/v1/agent/runs/{thread_id}/events", operation{
		ID: "watchThread", Summary: "Stream a thread's events",
		Description: "Streams the thread's stored events from a cursor, followed by live events without a gap. The stream ends when all events are " +
			"sent and the thread is not busy.",
		Parameters: []parameter{
			lastEventID, polyfillID, afterParam, followParam,
			query("gather", within(0, 1000, 0, "Collect events for up to this many milliseconds and write them together.")), projectParam,
		},
		Answers: answers{
			"200": stream("The events.", ref("SeedFrame"), "seed"),
			"204": nothing("There are no events after the cursor, and the thread is not busy. EventSource then stops reconnecting."),
			"400": refuse("The cursor is invalid or beyond the end of the log.", "invalid_cursor", "The cursor 9 is beyond the log's end, 5"),
		},
	})
}
