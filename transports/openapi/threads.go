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
	infer[wire.Thread](s, "Thread")
	pageOf[wire.Thread](s, "ThreadPage")
	infer[wire.ThreadUser](s, "ThreadUser")
	pageOf[wire.ThreadUser](s, "UserPage")
	infer[wire.ThreadMessages](s, "ThreadMessages", may("messages", list(ref("ThreadMessage"), "")))
	infer[wire.HistoryMessage](s, "HistoryMessage")
	infer[wire.HistoryPart](s, "HistoryPart")
	infer[wire.History](s, "History")
}

// day returns the schema of a calendar day.
func day(about string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date", Description: about}
}
