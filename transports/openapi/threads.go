package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports/wire"
)

// threads describes conversations as people see them.
func (d *describer) threads() {
	const thread = "/api/v1/threads/{thread_id}"
	size := within(1, wire.MaxLimit, 0, "Absent: as many as fit.")
	size.Default = nil
	d.conversations()
	d.area("Threads", "Conversations as people see them.")
	d.add("GET /api/v1/agent/history", operation{
		ID: "getHistory", Summary: "Read a day of a thread's messages",
		Parameters: []parameter{
			query("threadId", name("The thread. Absent: your latest.")),
			query("before", day("The latest day before this one, instead of the latest of all.")), projectParam,
		},
		Answers: answers{
			"200": reply("The latest UTC day that has messages.", ref("History"), "history"),
			"404": usual("ThreadNotFound"),
		},
	})
	d.add("GET /api/v1/threads", operation{
		ID: "listThreads", Summary: "List your threads, those with the latest activity first",
		Description: "With `q` or `archived` a page looks at 10 000 threads and ends there, short or empty, with a `nextCursor` that goes on.",
		Parameters: []parameter{
			query("q", text("Only threads with this text in the title or the threadId, in upper or lower case.")),
			query("archived", flag("Only threads that are put away, or only the others.")),
			query("user", text("With a role that sees others' threads: whose they are.")),
			cursorParam, limitParam, countParam, projectParam,
		},
		Answers: answers{
			"200": reply("A page of threads.", ref("ThreadPage"), "threads"),
			"400": refuse("A parameter is wrong.", "invalid_request", "archived must be true or false", "invalid_cursor", "The cursor is not one that this list has given", "invalid_limit", "limit must be a number from 1 to 500"),
		},
	})
	d.add("GET /api/projects/{projectId}/threads", operation{
		ID: "listProjectThreads", Summary: "List the threads of all users that you may see, those with the latest activity first",
		Description: "A user's own; with a role that sees others' threads those of the project. Else as listThreads.",
		Parameters: []parameter{
			query("q", text("Only threads with this text in the title or the threadId, in upper or lower case.")),
			query("archived", flag("Only threads that are put away, or only the others.")),
			query("user", text("With a role that sees others' threads: whose they are.")),
			cursorParam, limitParam, countParam,
		},
		Answers: answers{
			"200": reply("A page of threads.", ref("ThreadPage"), "threads"),
			"400": refuse("A parameter is wrong.", "invalid_request", "archived must be true or false", "invalid_cursor", "The cursor is not one that this list has given", "invalid_limit", "limit must be a number from 1 to 500"),
		},
	})
	d.add("GET /api/projects/{projectId}/users", operation{
		ID: "listUsers", Summary: "List those who have threads in the project, by name",
		Description: "With `q` a page looks at 1 000 users and ends there, short or empty, with a `nextCursor` that goes on; `total` is always null. " +
			"With accounts it is not for users.",
		Parameters: []parameter{query("q", text("Only users with this text in the name, in upper or lower case.")), cursorParam, limitParam},
		Answers: answers{
			"200": reply("A page of users.", ref("UserPage"), "users"),
			"400": refuse("A parameter is wrong.", "invalid_request", "q must be at most 200 characters without control characters", "invalid_cursor", "The cursor is not one that this list has given", "invalid_limit", "limit must be a number from 1 to 500"),
		},
	})
	d.add("GET "+thread, operation{
		ID: "getThread", Summary: "Read a thread as lists show it", Parameters: []parameter{projectParam},
		Answers: answers{"200": reply("The thread.", ref("Thread"), "thread"), "404": usual("ThreadNotFound")},
	})
	d.add("GET "+thread+"/messages", operation{
		ID: "listThreadMessages", Summary: "Read a thread's messages, for front ends that show them before they connect",
		Description: "The newest that fit 8 MB and `limit`, in their order, and those that are being written. Read " +
			"on upwards with `before`, until no message is left.",
		Parameters: []parameter{
			query("before", text("A message's id: those before it.")),
			query("limit", size),
			query("hidden", flag("Also what edits, other answers and rewinds have hidden; then only what is stored.")),
			query("protocolVersion", text("AG-UI's, as in a request for a run.")), projectParam,
		},
		Answers: answers{
			"200": reply("The messages.", ref("ThreadMessages"), "thread-messages"),
			"400": refuse("A parameter is wrong.", "invalid_limit", "limit must be a number from 1 to 500",
				"unknown_message", "The thread has no message of the id that before names"),
			"404": usual("ThreadNotFound"),
		},
	})
	d.add("PATCH "+thread, operation{
		ID: "updateThread", Summary: "Give a thread a title, or put it away", Parameters: []parameter{projectParam},
		Description: "What is absent stays, what is null is taken away.",
		Body: accept(object("",
			may("title", orNull(text("At most 200 characters."))),
			may("metadata", orNull(object("At most 64 KiB, in the place of the old one."))),
			may("archived", orNull(flag("Front ends show it apart.")))),
			"thread-patch"),
		Answers: answers{
			"200": reply("The thread, as it is listed.", ref("Thread"), "thread"),
			"400": refuse("The body is wrong.", "invalid_request", "metadata must be an object", "invalid_json",
				"The request body is not valid JSON", "invalid_title",
				"title must be at most 200 characters without control characters"),
			"413": refuse("The body or the metadata is too large.", "body_too_large", "The request's body is too large",
				"metadata_too_large", "A thread's metadata may hold 65536 bytes"),
		},
	})
	d.add("DELETE "+thread, operation{
		ID: "deleteThread", Summary: "Delete a thread with all its runs", Parameters: []parameter{projectParam},
		Description: "Runs that are not over are cancelled first.",
		Answers:     answers{"204": nothing("It is deleted.")},
	})
}

// conversations names the schemas of threads and their histories.
func (d *describer) conversations() {
	s := &d.schemas
	infer[wire.Thread](s, "Thread", "A thread.",
		may("threadId", threadID), says("conversationId", "The thread, as Baton names it: a UUID."),
		may("metadata", object("")), says("user", "Whose it is."),
		says("archived", "It is put away: front ends show it apart."),
		says("runId", "The run that is running or waiting, else the latest; null when there has been none."),
		says("agent", "The agent or workflow of that run."),
		says("asked", "The first 200 characters of what that run was asked; null for nothing, and for more than 64 KiB."),
		says("updatedAt", "When something last happened on it."))
	pageOf[wire.Thread](s, "ThreadPage")
	infer[wire.ThreadUser](s, "ThreadUser", "Somebody who has threads in a project.",
		says("threads", "Counting stops at 1 000."), says("lastActiveAt", "When something last happened on one of them."))
	pageOf[wire.ThreadUser](s, "UserPage")
	infer[wire.ThreadMessages](s, "ThreadMessages", "Messages of a thread, and its state.",
		may("threadId", threadID), may("messages", list(ref("ThreadMessage"), "")), may("state", object("The thread's state.")),
		says("lastEventId", "The last event that is in it; `after_event_id` of a stream that goes on from here."))
	infer[wire.HistoryMessage](s, "HistoryMessage", "A message, as histories show it.",
		may("role", choice("", "user", "assistant", "system", "tool")), says("seq", "Rises over the whole thread."),
		says("content", "Its text; the parts of a message that is more than text are in the metadata."),
		may("metadata", object("`toolCalls`, `toolCallId`, `parts`, `attachments`, and what agents added.")))
	infer[wire.HistoryPart](s, "HistoryPart", "A day of a thread.",
		may("scope", constant("history_day")), may("day", orNull(day("UTC; null when there are no messages."))),
		says("hasMore", "An older day has messages."))
	infer[wire.History](s, "History", "A day of a thread's messages.",
		may("type", constant("STATE_SNAPSHOT")), says("threadId", "Absent when there is no thread yet."))
}

// day returns the schema of a calendar day.
func day(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date", Description: about}
}
