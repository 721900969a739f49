package openapi

import "github.com/google/jsonschema-go/jsonschema"

// upgrades are the answers of a WebSocket route.
var upgrades = answers{
	"101": nothing("The connection is a WebSocket. A request that is refused for what it asks is closed after " +
		"the upgrade, with 4000 + the HTTP status."),
	"426": refuse("The request does not ask for a WebSocket.", "upgrade_required", "This path is a WebSocket; "+
		"ask for the upgrade"),
}

// closes are the meanings of the close codes.
var closes = map[string]string{
	"1000": "Done.",
	"1001": "The server stops: come back.",
	"1009": "A frame was too big.",
	"4000": "4000 + an HTTP status: refused; the reason is the detail.",
	"4401": "The credential has expired or was revoked.",
	"4008": "The reader is too slow: resume from its last id.",
}

// talk returns the frames of an example: the client's are marked → and the server's ←.
func talk(name string) string { return "\n\n```\n" + sample(name+".txt") + "```" }

// sockets describes the WebSocket mirror.
func (d *describer) sockets() {
	d.commands()
	d.area("WebSocket", "The same events over WebSocket. Text frames of JSON; a ping every 15 seconds.")
	d.schemas.name("SocketEvent", object("An event of the log.",
		may("id", count("The event's position in the thread's log. Absent on frames that are not "+
			"of the log.")), must("event", ref("SeedEvent"))))
	d.add("GET /api/v1/agent/runs/{thread_id}/ws", operation{
		ID: "watchThreadSocket", Summary: "Watch a thread",
		Description: "The same events, order, ids, resume and end as `GET …/events`. With the subprotocol " +
			"`agui` or `agui.1` the frames are bare events of that dialect." +
			talk("socket-thread"),
		Parameters: []parameter{afterParam, followParam, projectParam},
		Answers:    upgrades,
		Socket: &socket{
			Subprotocols: []string{"agui", "agui.1"}, Closes: closes,
			Receive: either("", ref("SocketEvent"), ref("LegacyEvent"), ref("AguiEvent")),
		},
	})
	d.add("GET /api/v1/agui/{agent}/ws", operation{
		ID: "runAgentSocket", Summary: "Run an agent and watch it",
		Description: "The first frame asks for a run, the others are its events; the socket is closed behind " +
			"the terminal one. A dropped socket counts as a dropped `POST`." +
			talk("socket-agent"),
		Parameters: []parameter{projectParam},
		Answers:    upgrades,
		Socket: &socket{
			Subprotocols: []string{"agui", "agui.1"}, Closes: closes,
			Send: ref("RunRequest"), Receive: either("", ref("AguiEvent"), ref("LegacyEvent")),
		},
	})
	d.add("GET /api/v1/ws", operation{
		ID: "socket", Summary: "Watch and command many threads on one socket",
		Description: "A bad frame or a refused command is answered, and the socket stays open. Runs started " +
			"here are ended only by cancel." +
			talk("socket-many"),
		Parameters: []parameter{projectParam},
		Answers:    upgrades,
		Socket:     &socket{Subprotocols: []string{"baton.v1"}, Closes: closes, Send: ref("SocketCommand"), Receive: ref("SocketFrame")},
	})
}

// commands names the schemas of the frames of the socket for many threads.
func (d *describer) commands() {
	reference := either("What the answer refers to.", text(""), &jsonschema.Schema{Type: "number"})
	command := func(op, about string, members ...member) *jsonschema.Schema {
		return object(about, append([]member{must("op", constant(op)), may("ref", reference)}, members...)...)
	}
	run, whose := must("runId", name("The run.")), may("user", name("Whose it is, where several users have one of that name."))
	start := d.schemas.named["RunRequest"].CloneSchemas()
	start.Properties["op"], start.Properties["ref"] = constant("run"), reference
	start.PropertyOrder = append([]string{"op", "ref"}, start.PropertyOrder...)
	start.Required, start.Description = []string{"op"}, "Starts a run: `POST /api/v1/agent/runs`."
	d.schemas.name("SocketCommand", &jsonschema.Schema{
		Description: "A command.",
		OneOf: []*jsonschema.Schema{
			command("subscribe", "Shows a thread from a cursor on, until it is "+
				"unsubscribed.", must("threadId", name("The thread.")),
				may("afterEventId", either("Absent: from the first event.", count("An event's id."), constant("latest")))),
			command("unsubscribe", "Shows it no longer.", must("threadId", name("The thread."))),
			command("watch", "Tells when there is something else to see in the caller's lists of runs, of threads and of what waits."),
			command("unwatch", "Tells it no longer."),
			start,
			command("append", "Appends a message to a run.", run, whose, must("content", text("")), may("contextItemIds", list(text(""), ""))),
			command("cancel", "Cancels a run.", run, whose),
			command("resume", "Answers what a run asks.", run, whose, must("resume", nonempty(list(ref("ResumeEntry"), "")))),
		},
	})
	result := either("What REST answers to the same.",
		object("To subscribe.", must("threadId", text("")), must("afterEventId", count("What follows is behind it."))),
		object("To unsubscribe: no event of it follows.", must("threadId", text(""))),
		object("To watch and unwatch.", must("projectId", text(""))),
		ref("Started"), ref("Message"), ref("Cancelled"), ref("Resumed"))
	d.schemas.name("SocketFrame", &jsonschema.Schema{
		Description: "What the server says.",
		OneOf: []*jsonschema.Schema{
			object("An event of a thread.", must("op", constant("event")), must("threadId", text("")),
				may("id", count("Absent on frames that are not of the log.")), must("event", ref("SeedEvent"))),
			object("A list has changed, or many have. It comes at most four times a second.", must("op", constant("changed"))),
			object("The answer to a command.", must("op", constant("ack")), may("ref", reference), must("result", result)),
			object("The refusal of a command, or why a thread cannot be shown any more.",
				must("op", constant("error")), may("ref", reference), may("threadId", text("")),
				must("detail", text("")), must("code", text("")), may("place", text(""))),
		},
	})
}
