package openapi

import "github.com/google/jsonschema-go/jsonschema"

// upgrades are the answers of a WebSocket route.
var upgrades = answers{
	"101": nothing("The connection is a WebSocket. A refused request is closed after the upgrade with code 4000 + HTTP status."),
	"426": refuse("The request does not ask for a WebSocket upgrade.", "upgrade_required", "This path is a WebSocket; "+
		"ask for the upgrade"),
}

// closes are the meanings of the close codes.
var closes = map[string]string{
	"1000": "Normal end.",
	"1001": "The server is stopping. Reconnect.",
	"1009": "A frame was too large.",
	"4000": "4000 + HTTP status: the request was refused. The close reason is the error's `detail`.",
	"4401": "The credential has expired or was revoked.",
	"4008": "The reader is too slow. Reconnect with the last id.",
}

// talk returns the frames of an example: the client's are marked → and the server's ←.
func talk(name string) string { return "\n\n```\n" + sample(name+".txt") + "```" }

// sockets describes the WebSocket mirror.
func (d *describer) sockets() {
	d.commands()
	d.area("WebSocket", "The same events over WebSocket, as text frames of JSON. The server pings every 15 seconds.")
	d.schemas.name("SocketEvent", object("An event of the log.",
		may("id", count("Position in the thread's log. Absent on frames that are not part of the log.")), must("event", ref("SeedEvent"))))
	d.add("GET /api/v1/agent/runs/{thread_id}/ws", operation{
		ID: "watchThreadSocket", Summary: "Watch a thread by WebSocket",
		Description: "Same events, order, ids, resumption and end as `GET …/events`. With the subprotocol `agui` or `agui.1`, frames are bare events " +
			"of that dialect." +
			talk("socket-thread"),
		Parameters: []parameter{afterParam, followParam, projectParam},
		Answers:    upgrades,
		Socket: &socket{
			Subprotocols: []string{"agui", "agui.1"}, Closes: closes,
			Receive: either("", ref("SocketEvent"), ref("LegacyEvent"), ref("AguiEvent")),
		},
	})
	d.add("GET /api/v1/agui/{agent}/ws", operation{
		ID: "runAgentSocket", Summary: "Run an agent by WebSocket",
		Description: "The first frame from the client is the request for a run. The server then sends the run's events and closes the socket after the " +
			"terminal event. A dropped socket counts as a dropped `POST`." +
			talk("socket-agent"),
		Parameters: []parameter{projectParam},
		Answers:    upgrades,
		Socket: &socket{
			Subprotocols: []string{"agui", "agui.1"}, Closes: closes,
			Send: ref("RunRequest"), Receive: either("", ref("AguiEvent"), ref("LegacyEvent")),
		},
	})
	d.add("GET /api/v1/ws", operation{
		ID: "socket", Summary: "Open a multi-thread WebSocket",
		Description: "Watches and commands many threads on one socket. A bad frame or refused command gets an error frame, and the socket stays open. " +
			"Runs started here do not depend on the connection: only a cancel request stops them." +
			talk("socket-many"),
		Parameters: []parameter{projectParam},
		Answers:    upgrades,
		Socket:     &socket{Subprotocols: []string{"baton.v1"}, Closes: closes, Send: ref("SocketCommand"), Receive: ref("SocketFrame")},
	})
}

// commands names the schemas of the frames of the socket for many threads.
func (d *describer) commands() {
	reference := either("Repeated in the response to this command.", text(""), &jsonschema.Schema{Type: "number"})
	command := func(op, about string, members ...member) *jsonschema.Schema {
		return object(about, append([]member{must("op", constant(op)), may("ref", reference)}, members...)...)
	}
	run, whose := must("runId", name("The run.")), may("user", name("The owner of the run. Needed when several users have a run of this name."))
	start := d.schemas.named["RunRequest"].CloneSchemas()
	start.Properties["op"], start.Properties["ref"] = constant("run"), reference
	start.PropertyOrder = append([]string{"op", "ref"}, start.PropertyOrder...)
	start.Required, start.Description = []string{"op"}, "Starts a run, like `POST /api/v1/agent/runs`."
	d.schemas.name("SocketCommand", &jsonschema.Schema{
		Description: "A command.",
		OneOf: []*jsonschema.Schema{
			command("subscribe", "Subscribes to a thread from a cursor on, until `unsubscribe`.", must("threadId", name("The thread.")),
				may("afterEventId", either("Where to begin. Default: the first event.", count("After the event with this id."), constant("latest")))),
			command("unsubscribe", "Ends a subscription.", must("threadId", name("The thread."))),
			command("watch", "Subscribes to `changed` frames, sent when the caller's lists of runs, threads or open interrupts change."),
			command("unwatch", "Ends the subscription to `changed` frames."),
			start,
			command("append", "Appends a message to a run.", run, whose,
				must("content", text("The text.")),
				may("contextItemIds", list(text(""), "Stored with the message and passed to the worker."))),
			command("cancel", "Cancels a run.", run, whose),
			command("resume", "Answers a run's interrupts.", run, whose, must("resume", nonempty(list(ref("ResumeEntry"), "One or more answers.")))),
			command("event", "Sends an event to a run.", run, whose, must("name", text("The event's name.")), may("payload", anything("Up to 1 MiB. Default: null."))),
		},
	})
	result := either("The JSON that the REST API returns for the same command.",
		object("For `subscribe`.", must("threadId", text("")), must("afterEventId", count("Events after this id follow."))),
		object("For `unsubscribe`. No further event of the thread is sent.", must("threadId", text(""))),
		object("For `watch` and `unwatch`.", must("projectId", text(""))),
		ref("Started"), ref("Message"), ref("Cancelled"), ref("Resumed"), ref("Delivered"))
	d.schemas.name("SocketFrame", &jsonschema.Schema{
		Description: "A frame from the server.",
		OneOf: []*jsonschema.Schema{
			object("An event of a thread.", must("op", constant("event")), must("threadId", text("")),
				may("id", count("Absent on frames that are not part of the log.")), must("event", ref("SeedEvent"))),
			object("One or more lists have changed. Sent at most four times a second.", must("op", constant("changed"))),
			object("The response to a command.", must("op", constant("ack")), may("ref", reference), must("result", result)),
			object("The refusal of a command, or why a subscription ended.",
				must("op", constant("error")), may("ref", reference), may("threadId", text("")),
				must("detail", text("A sentence for people.")), must("code", text("A code for programs.")),
				may("place", text("JSON pointer to the invalid part of the command."))),
		},
	})
}
