package openapi

import (
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// actions are the audited actions.
var actions = []string{"start", "append", "answer", "cancel", "update", "delete", "create_key", "revoke_key"}

// keys describes the API keys of a project.
func (d *describer) keys() {
	s := &d.schemas
	d.area("Keys", "The API keys of a project, where a server knows callers by keys; else all of this is 404.")
	members := []member{
		says("name", "What people call it."), may("role", choice("", "user", "viewer", "operator", "admin")),
		says("expiresAt", "Null for never."), says("revokedAt", "Null while it is not."),
	}
	infer[wire.MadeKey](s, "MadeKey", "An API key that was just made.", append(members, says("key", "What its bearer sends. It is shown this once."))...)
	infer[wire.Key](s, "Key", "An API key, without its secret.", members...)
	pageOf[wire.Key](s, "KeyPage")
	d.add("GET /api/projects/{projectId}/keys", operation{
		ID: "listKeys", Summary: "List the keys, latest first", Description: "Revoked ones, too. For admins.",
		Parameters: []parameter{cursorParam, limitParam, countParam},
		Answers:    answers{"200": reply("A page of keys.", ref("KeyPage"), "keys")},
	})
	d.add("POST /api/projects/{projectId}/keys", operation{
		ID: "createKey", Summary: "Make a key",
		Description: "For a user of this project, and for no other project. For admins.",
		Body: accept(object("",
			must("user", text("Whom it is for.")),
			must("role", choice("What the user may do.", "user", "viewer", "operator", "admin")),
			may("expiresAt", moment("When it ends. Absent: when it is revoked.")),
			may("name", text("What people call it."))), "create-key"),
		Answers: answers{
			"201": reply("The key, this once.", ref("MadeKey"), "key"),
			"409": refuse("The project has too many.", "too_many_keys", "The project has as many keys as it may have"),
		},
	})
	d.add("DELETE /api/projects/{projectId}/keys/{keyId}", operation{
		ID: "revokeKey", Summary: "Revoke a key",
		Description: "What it has open on the server that is asked ends at once. A key that is for projects of which the caller is no admin, too, is 403. For admins.",
		Answers:     answers{"204": nothing("It opens nothing any more.")},
	})
}

// admin describes the routes for a project's admins.
func (d *describer) admin() {
	d.area("Administration", "For those who look after a project.")
	d.add("GET /api/projects/{projectId}/stats", operation{
		ID: "getStats", Summary: "Show what runs came to lately, and what goes on",
		Description: "The last hour by minutes, the last day by quarters of an hour, or the last week by hours. Each number is true at the moment of " +
			"asking; times are at most 5 % wrong. A run counts once for each generation: in `started` when it began, and in the rest when it " +
			"ended, also when it was deleted since. `firstEventMs` is from its creation until it began, `durationMs` from then to its end. " +
			"With accounts it is not for users.",
		Parameters: []parameter{query("window", choice("Absent: hour.", "hour", "day", "week"))},
		Answers: answers{
			"200": reply("The statistics.", ref("Stats"), "stats"),
			"400": refuse("The window is none.", "invalid_request", "window must be hour, day or week"),
		},
	})
	infer[wire.Spread](&d.schemas, "Spread", "What half of the times, and 95 of a hundred, do not exceed, in milliseconds.")
	infer[wire.StatsTotals](&d.schemas, "StatsTotals", "What runs came to.", says("firstEventMs", "Null when there is none."))
	infer[wire.StatsBucket](&d.schemas, "StatsBucket", "What runs came to in a step of time.", says("at", "When it begins."))
	infer[wire.StatsFailure](&d.schemas, "StatsFailure", "How many runs have failed with a code.")
	infer[wire.StatsAgent](&d.schemas, "StatsAgent", "What the runs of an agent or a workflow came to.", says("runs", "That are over."),
		says("cost", "By the current prices; null when a model has none."))
	infer[wire.StatsNow](&d.schemas, "StatsNow", "What goes on; of each up to 10 000 are counted.",
		says("oldestWaitingAt", "When the first of what is waited for was asked."))
	infer[wire.Instance](&d.schemas, "Instance", "A process that serves the database, or has.",
		says("version", "Null of one that does not live."), says("address", "For operators and admins."),
		says("heartbeatAt", "About when it was heard of last."), may("ended", orNull(choice("Null while it serves.", "left", "fenced", "crashed"))))
	infer[wire.Stats](&d.schemas, "Stats", "What the runs of a project came to, and what goes on.",
		may("window", choice("", "hour", "day", "week")), says("step", "Of a bucket, in seconds."),
		says("failures", "Those first that are most; codes beyond a hundred are `other`."),
		says("agents", "Those first that have most runs; with the tokens that runs at work have used so far."),
		says("instances", "Those first that came last."),
		says("counting", "Runs of before are still being counted, as after an upgrade: the numbers are too small."))
	d.usage()
	d.add("GET /api/projects/{projectId}/audit", operation{
		ID: "listAudit", Summary: "List who has asked for what, latest first",
		Description: "Each request that has changed something while accounts were on: written in the transaction of what it has changed. " +
			"With several of `actor`, `action`, `user` and `run` a page looks at 10 000 rows and ends there, short or empty, with a `nextCursor` that goes on. " +
			"For admins.",
		Parameters: []parameter{
			query("actor", text("Only what this user has asked for.")),
			query("action", choice("Only this.", actions...)),
			query("user", text("Only what was about a thread of this user.")),
			query("run", text("Only what was about the run of this name, its first.")),
			query("since", moment("Only what was asked for then or later.")),
			query("until", moment("Only what was asked for before.")),
			cursorParam, limitParam, countParam,
		},
		Answers: answers{"200": reply("A page of the audit.", ref("AuditPage"), "audit")},
	})
	d.add("DELETE /api/projects/{projectId}/users/{user}/data", operation{
		ID: "deleteUserData", Summary: "Delete all that a user has",
		Description: "The user's threads with their runs, messages and events; runs that are not over are cancelled first. For the user and for " +
			"admins. What the audit and the usage tell of the user stays. If it fails, ask again: it goes on with what is left.",
		Answers: answers{"204": nothing("Nothing of it is left.")},
	})
	infer[wire.Server](&d.schemas, "Server", "A living server of the database, as it was seen some seconds ago.",
		says("name", "Of its host; null before it has told."), says("version", "Of Baton."), says("schema", "Of the database; null if it is not known."),
		may("role", choice("", "all", "gateway", "worker")),
		says("labels", "Agents with one of them as `run_on` are executed here."),
		says("startedAt", "Null where one server at a time uses the database, like `seenAt`."),
		says("draining", "It stops: it takes no runs, and hands its own over."), says("running", "Runs that it executes."), says("free", "Runs that it can execute beside them."),
		says("queued", "Queued runs that it knows of, of all servers."),
		says("agents", "That it offers in the project of the request."))
	infer[wire.Servers](&d.schemas, "Servers", "The living servers of the database, the one that answers first.",
		says("warnings", "How servers differ that should be equal, in sentences."))
	d.add("GET /api/v1/servers", operation{
		ID: "listServers", Summary: "List the servers of the database",
		Description: "Those of a cluster that live, or else the one that answers. For admins.",
		Parameters:  []parameter{projectParam},
		Answers:     answers{"200": reply("The servers.", ref("Servers"), "servers")},
	})
	infer[wire.Days](&d.schemas, "RetentionDays", "How long what is over is kept, in days. Null is for good.",
		says("runs", "With all that is their own."), says("events", "Of runs that stay, whose messages and result stay, too."))
	infer[wire.Due](&d.schemas, "RetentionDue", "What has been kept long enough, and goes within the hour.",
		says("stripped", "Runs of which the events alone go."), says("events", "Of both."), says("bytes", "Of the events, about."),
		says("whole", "False when there was more than one request looks at."))
	infer[wire.Retention](&d.schemas, "Retention", "How long what is over is kept in a project.")
	d.add("GET /api/projects/{projectId}/retention", operation{
		ID: "getRetention", Summary: "Show how long what is over is kept, and what would go now",
		Description: "Nothing is removed by it. For viewers, operators and admins.",
		Answers:     answers{"200": reply("The retention.", ref("Retention"), "retention")},
	})
	d.add("GET /api/v1/me", operation{
		ID: "getMe", Summary: "Show who the server takes the caller for",
		Parameters: []parameter{projectParam},
		Answers:    answers{"200": reply("The caller.", ref("Me"), "me")},
	})
	d.add("GET /api/v1/me/views", operation{
		ID: "listViews", Summary: "List the views that the caller has saved",
		Description: "A view is a list of runs in the console: the query of its address, under a name. Other users do not see it.",
		Parameters:  []parameter{projectParam},
		Answers:     answers{"200": reply("All of them.", ref("Views"), "views")},
	})
	d.add("PUT /api/v1/me/views", operation{
		ID: "putViews", Summary: "Replace the views that the caller has saved",
		Description: "50 at most, in their order. Of two requests at once the last one counts.",
		Parameters:  []parameter{projectParam},
		Body:        accept(ref("Views"), "views"),
		Answers: answers{
			"200": reply("All of them.", ref("Views"), "views"),
			"400": refuse("The body is wrong.", "invalid_request", `There are two views "failed today"`, "invalid_name", "A view's name must be 1 to 200 characters without control characters"),
		},
	})
	infer[runtime.SavedView](&d.schemas, "View", "A list of runs that a user has saved.",
		says("name", "Unique among the user's."), says("query", "Of the address of the list in the console, up to 2 KiB."))
	infer[wire.Views](&d.schemas, "Views", "The views of a user.")
	infer[wire.Me](&d.schemas, "Me", "Who the server takes a caller for.",
		says("projectId", "The project that the request means."),
		says("projects", "All of the user's. The first is meant where a request names none."),
		may("role", choice("What the user may do in each of them.", "user", "viewer", "operator", "admin")),
		may("authentication", choice("How the user is known; `none` where there are no accounts.", "none", "api-key", "jwt", "custom")),
		says("expiresAt", "When the credential ends; null for never."),
		says("version", "The server's."), says("currency", "Of costs; null on a server without prices."))
	d.add("GET /api/v1/limits", operation{
		ID: "getLimits", Summary: "Show what the caller may have and ask for",
		Description: "The limits of the caller, of its project and of the server, and what is used of them now. Sizes are in bytes, times in seconds.",
		Parameters:  []parameter{query("user", text("For admins: whose limits and use of them, instead of one's own.")), projectParam},
		Answers:     answers{"200": reply("The limits.", ref("Limits"), "limits")},
	})
	infer[wire.RateQuota](&d.schemas, "RateQuota", "How often something may be done.",
		says("perSecond", "Null for no limit."), says("burst", "How many may come at once."), says("used", "Of the burst."))
	infer[wire.Quota](&d.schemas, "Quota", "A limit and what is used of it.", says("limit", "Null for no limit."))
	infer[wire.Share](&d.schemas, "Share", "What a user or a project has of a server.",
		says("streams", "Open at a time."), says("subscriptions", "Threads that all sockets together show."), says("running", "Runs executed at once."), says("queued", "Runs that wait for their turn."))
	infer[wire.ServerLimits](&d.schemas, "ServerLimits", "Those of all projects together.",
		says("inFlight", "Bytes of requests, messages and answers that are held at a time."),
		says("leastRate", "Bytes that clients send and take a second, on the average."),
		says("connections", "Open at a time; null where the server has no listener of its own."),
		says("connectionsPerPeer", "From one address; null likewise."),
		says("guessesPerPeer", "Credentials of one address that are wrong in a minute; null for no limit."))
	infer[wire.SizeLimits](&d.schemas, "SizeLimits", "In bytes. `append`, `event`, `state`, `metadata` and `head` are the same on every server.", says("input", "Of a request that starts a run."), says("messages", "The new ones of one run."),
		says("socket", "A message on a WebSocket; one that starts no run is held to `body`."), says("metadata", "What users give a thread."))
	infer[wire.CountLimits](&d.schemas, "CountLimits", "Of what one request may hold or ask for, the same on every server.", says("page", "Items of a list."), says("batch", "Messages of MCP."))
	infer[wire.TimeLimits](&d.schemas, "TimeLimits", "In seconds.",
		says("onDisconnectGrace", "For a dropped client to come back, until its run is cancelled."), says("requestHead", "For a request's line and headers."),
		says("requestBody", "For the whole of its body."), says("answer", "Until an answer that is no stream is taken."),
		says("stall", "For which a body may not get on, or an answer not be taken."), says("idle", "Between two requests of a connection."),
		says("write", "For one write to the reader of a stream."), says("ping", "Silence after which a stream is pinged."),
		says("grace", "For a worker or a tool that was cancelled, until nobody waits for it."), says("drain", "For runs at work when the server stops."),
		says("commit", "For a write that the database does not answer, until its outcome is said to be unknown."))
	infer[wire.RunLimits](&d.schemas, "RunLimits", "Those of one run.", says("events", "Between two answers of its client; null for no limit."))
	infer[wire.FilesUsed](&d.schemas, "FilesUsed", "A user's attachments.", says("bytes", "Of all of them."))
	infer[wire.FileLimits](&d.schemas, "FileLimits", "Those of attachments, in bytes.", says("size", "Of one."), says("files", "Of a user."), says("bytes", "Of all of a user's."),
		says("types", "Media types that are taken, or patterns as `image/*`."), says("url", "Seconds that a signed URL is good."), says("used", "By the caller, those on their way with the most that may come."), says("uploads", "Of a user at a time; null for no limit."))
	infer[wire.Limits](&d.schemas, "Limits", "What a caller may have and ask for.", says("attachments", "Null when none are taken."))
	infer[wire.Audited](&d.schemas, "Audited", "A request that has changed something.",
		says("actor", "Who has asked."),
		says("userId", "Whose thread it is."),
		may("action", choice("", actions...)),
		says("threadId", "Empty when it was about no thread."),
		says("runId", "Null when it was about a thread."),
		says("credential", "The id of the credential, never the secret."),
		says("subject", "What else it was about: the id of a key."))
	pageOf[wire.Audited](&d.schemas, "AuditPage")
}
