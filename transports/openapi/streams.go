package openapi

// aguiStream returns the answer with the events of one run.
func aguiStream(about string) *answer {
	return stream(about, either("A frame in the dialect that the request's "+
		"`protocolVersion` asks for.", ref("AguiFrame"), ref("LegacyFrame")), "agui")
}

var (
	lastEventID = inHeader("Last-Event-ID", text("The id of the last event the reader has: the stream goes on "+
		"behind it. EventSource sends it by itself. It wins over `after_event_id`."))
	polyfillID = query("lastEventId", text("`Last-Event-ID`, as polyfills of EventSource send it. The header wins over it."))
	afterParam = query("after_event_id", text("The same, for the first request: an event's id, or `latest` for "+
		"only what is yet to come. Absent: from the first event."))
	followParam = query("follow", flag("Stay when the thread is idle."))
)

// streams describes runs and their event streams.
func (d *describer) streams() {
	d.area("Streams", "Start runs, and watch threads while they run.")
	d.add("POST /api/v1/agent/runs", operation{
		ID: "startRun", Summary: "Start a run, and watch it if you like",
		Description: "With `Accept: text/event-stream` the answer is the run's events, up to its terminal one. " +
			"Such a run belongs to its connection: " +
			"it is cancelled when that has been gone for 10 seconds, unless `forwardedProps.background` is true. " +
			"Otherwise the answer is JSON, and only cancel ends the run.\n\n" +
			"A request with `resume`, or with `tool` messages, answers what the thread's WAITING run asks: the " +
			"same run goes on.",
		Parameters: []parameter{projectParam, keyHeader},
		Body:       accept(ref("RunRequest"), startExamples...),
		Answers: startAnswers(answers{
			"200": aguiStream("With `Accept: text/event-stream`: the run's events.").beside(),
			"202": reply("The run was taken.", ref("Started"), "started"),
		}),
	})
	d.add("GET /api/v1/agent/runs/{thread_id}/events", operation{
		ID: "watchThread", Summary: "Watch a thread",
		Description: "The thread's log from a cursor on, then what happens, without a seam. The stream ends " +
			"when all was sent and the thread is not busy.",
		Parameters: []parameter{
			lastEventID, polyfillID, afterParam, followParam,
			query("gather", within(0, 1000, 0, "Milliseconds to gather events for one write.")), projectParam,
		},
		Answers: answers{
			"200": stream("The events.", ref("SeedFrame"), "seed"),
			"204": nothing("There is nothing behind the cursor, and the thread is not busy. EventSource then " +
				"stops reconnecting."),
			"400": refuse("The cursor is wrong or beyond "+
				"the log's end.", "invalid_cursor", "The cursor 9 is beyond the log's end, 5"),
		},
	})
}
