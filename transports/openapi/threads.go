package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports/wire"
)

// threads describes conversations as people see them.
func (d *describer) threads() {
	const thread = "/api/v1/threads/{thread_id}"
	size := within(1, wire.MaxLimit, 0, "Maximum number of messages. Default: as many as fit.")
	size.Default = nil
	d.conversations()
	d.area("Threads", "Conversations, with their titles, messages and state.")
	d.add("GET /api/v1/agent/history", operation{
		ID: "getHistory", Summary: "Get a day of a thread's history",
		Parameters: []parameter{
			query("threadId", name("The thread. Default: your latest thread.")),
			query("before", day("Return the latest day with messages before this one. Default: the latest day of all.")), projectParam,
		},
		Answers: answers{
			"200": reply("The latest UTC day that has messages.", ref("History"), "history"),
			"404": usual("ThreadNotFound"),
		},
	})
	d.add("GET /api/v1/threads", operation{
		ID: "listThreads", Summary: "List your threads",
		Description: "Returns the threads with the latest activity first. With `q` or `archived`, a page searches at most 10 000 threads. It may then " +
			"be short or empty and still have a `nextCursor`.",
		Parameters: []parameter{
			query("q", text("Only threads with this text in the title or the threadId, ignoring case.")),
			query("archived", flag("`true` for archived threads only, `false` for the others only. Default: both.")),
			query("user", text("The owner of the threads. Needs a role that sees other users' threads.")),
			cursorParam, limitParam, countParam, projectParam,
		},
		Answers: answers{
			"200": reply("A page of threads.", ref("ThreadPage"), "threads"),
			"400": refuse("Invalid query parameter.", "invalid_request", "archived must be true or false", "invalid_cursor", "The cursor is not one that this list has given", "invalid_limit", "limit must be a number from 1 to 500"),
		},
	})
	d.add("GET /api/projects/{projectId}/threads", operation{
		ID: "listProjectThreads", Summary: "List a project's threads",
		Description: "Returns the threads of all users if your role may see them, else only your own. The latest activity comes first. With `q` or " +
			"`archived`, a page searches at most 10 000 threads, as in `listThreads`.",
		Parameters: []parameter{
			query("q", text("Only threads with this text in the title or the threadId, ignoring case.")),
			query("archived", flag("`true` for archived threads only, `false` for the others only. Default: both.")),
			query("user", text("The owner of the threads. Needs a role that sees other users' threads.")),
			cursorParam, limitParam, countParam,
		},
		Answers: answers{
			"200": reply("A page of threads.", ref("ThreadPage"), "threads"),
			"400": refuse("Invalid query parameter.", "invalid_request", "archived must be true or false", "invalid_cursor", "The cursor is not one that this list has given", "invalid_limit", "limit must be a number from 1 to 500"),
		},
	})
	d.add("GET /api/projects/{projectId}/users", operation{
		ID: "listUsers", Summary: "List users",
		Description: "Returns the users who have threads in the project, by name. With `q`, a page searches at most 1 000 users. It may then be short " +
			"or empty and still have a `nextCursor`. `total` is always null. With accounts, this needs the role viewer, operator or admin.",
		Parameters: []parameter{query("q", text("Only users with this text in their name, ignoring case.")), cursorParam, limitParam},
		Answers: answers{
			"200": reply("A page of users.", ref("UserPage"), "users"),
			"400": refuse("Invalid query parameter.", "invalid_request", "q must be at most 200 characters without control characters", "invalid_cursor", "The cursor is not one that this list has given", "invalid_limit", "limit must be a number from 1 to 500"),
		},
	})
	d.add("GET "+thread, operation{
		ID: "getThread", Summary: "Get a thread", Parameters: []parameter{projectParam},
		Answers: answers{"200": reply("The thread.", ref("Thread"), "thread"), "404": usual("ThreadNotFound")},
	})
	d.add("GET "+thread+"/messages", operation{
		ID: "listThreadMessages", Summary: "List a thread's messages",
		Description: "Returns the newest messages that fit `limit` and 8 MB, in the thread's order, and the messages being written. Use it to show a " +
			"thread before you connect to it. Page backwards with `before` until no message is left.",
		Parameters: []parameter{
			query("before", text("A message id. Returns the messages before it.")),
			query("limit", size),
			query("hidden", flag("Include messages hidden by edits, alternative answers and rewinds. Messages being written are then left out.")),
			query("protocolVersion", text("The client's AG-UI version, as in `RunRequest`.")), projectParam,
		},
		Answers: answers{
			"200": reply("The messages.", ref("ThreadMessages"), "thread-messages"),
			"400": refuse("Invalid query parameter.", "invalid_limit", "limit must be a number from 1 to 500",
				"unknown_message", "The thread has no message of the id that before names"),
			"404": usual("ThreadNotFound"),
		},
	})
	d.add("PATCH "+thread, operation{
		ID: "updateThread", Summary: "Update a thread", Parameters: []parameter{projectParam},
		Description: "Changes the title, the metadata or the archived flag. Absent members keep their value; `null` clears them.",
		Body: accept(object("",
			may("title", orNull(text("At most 200 characters, without control characters."))),
			may("metadata", orNull(object("Replaces the metadata. At most 64 KiB."))),
			may("archived", orNull(flag("Whether the thread is archived. Front ends show archived threads apart.")))),
			"thread-patch"),
		Answers: answers{
			"200": reply("The updated thread.", ref("Thread"), "thread"),
			"400": refuse("Invalid request body.", "invalid_request", "metadata must be an object", "invalid_json",
				"The request body is not valid JSON", "invalid_title",
				"title must be at most 200 characters without control characters"),
			"413": refuse("The body or the metadata is too large.", "body_too_large", "The request's body is too large",
				"metadata_too_large", "A thread's metadata may hold 65536 bytes"),
		},
	})
	d.add("DELETE "+thread, operation{
		ID: "deleteThread", Summary: "Delete a thread", Parameters: []parameter{projectParam},
		Description: "Deletes the thread with all its runs. Unfinished runs are cancelled first.",
		Answers:     answers{"204": nothing("The thread was deleted.")},
	})
}

// conversations names the schemas of threads and their histories.
func (d *describer) conversations() {
	s := &d.schemas
	infer[wire.Thread](s, "Thread", "A thread: one conversation.",
		may("threadId", threadID), says("conversationId", "Baton's own id of the thread, a UUID."),
		may("metadata", object("Metadata that clients gave the thread.")), says("user", "The owner of the thread."),
		says("archived", "Whether the thread is archived. Front ends show archived threads apart."),
		says("runId", "The running or waiting run, else the latest one. Null if the thread has had no run."),
		says("agent", "The agent or workflow of that run."),
		says("asked", "The first 200 characters of that run's input. Null without input, or if it exceeds 64 KiB."),
		says("updatedAt", "Time of the latest activity."), says("title", "Null if the thread has no title."),
		says("status", "The status of that run."),
		says("createdAt", "Creation time."))
	pageOf[wire.Thread](s, "ThreadPage")
	infer[wire.ThreadUser](s, "ThreadUser", "A user who has threads in the project.",
		says("threads", "Number of the user's threads. Counting stops at 1 000."),
		says("lastActiveAt", "Time of the latest activity on one of the threads."),
		says("user", "The user's name."))
	pageOf[wire.ThreadUser](s, "UserPage")
	infer[wire.ThreadMessages](s, "ThreadMessages", "Messages of a thread, and its state.",
		may("threadId", threadID), may("messages", list(ref("ThreadMessage"), "The messages, in the thread's order.")),
		may("state", object("The thread's state.")),
		says("lastEventId", "Id of the last event included. Pass it as `after_event_id` to continue with a stream."))
	infer[wire.HistoryMessage](s, "HistoryMessage", "A message in a thread's history.",
		may("role", choice("The author's role.", "user", "assistant", "system", "tool")),
		says("seq", "Position of the message. Increases over the whole thread."),
		says("content", "The text. Messages that are more than text have their parts in `metadata`."),
		may("metadata", object("`toolCalls`, `toolCallId`, `parts`, `attachments`, and members added by agents.")),
		says("id", "The message id."),
		says("timestamp", "Time of the message."))
	infer[wire.HistoryPart](s, "HistoryPart", "The messages of one day.",
		may("scope", constant("history_day")), may("day", orNull(day("The day in UTC. Null if there are no messages."))),
		says("hasMore", "Whether an earlier day has messages."), says("threadId", "The thread."),
		says("messages", "The day's messages, in order."))
	infer[wire.History](s, "History", "A day of a thread's messages.",
		may("type", constant("STATE_SNAPSHOT")), says("threadId", "Absent if the thread does not exist yet."))
}

// day returns the schema of a calendar day.
func day(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date", Description: about}
}
