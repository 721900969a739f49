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
	d.area("Keys", "API keys of a project. All routes return 404 on servers that do not authenticate by API key.")
	members := []member{
		says("name", "A label."), may("role", choice("What the user may do.", "user", "viewer", "operator", "admin")),
		says("expiresAt", "Expiry time. Null if the key does not expire."), says("revokedAt", "Revocation time. Null if the key is not revoked."),
	}
	infer[wire.MadeKey](s, "MadeKey", "A new API key with its secret.", append(members,
		says("key", "The secret to send as `Authorization: Bearer`. Returned only in this response."))...)
	infer[wire.Key](s, "Key", "An API key, without its secret.", members...)
	pageOf[wire.Key](s, "KeyPage")
	d.add("GET /api/projects/{projectId}/keys", operation{
		ID: "listKeys", Summary: "List API keys", Description: "Returns all keys of the project, revoked ones included, newest first. Needs the role " +
			"admin.",
		Parameters: []parameter{cursorParam, limitParam, countParam},
		Answers:    answers{"200": reply("A page of API keys.", ref("KeyPage"), "keys")},
	})
	d.add("POST /api/projects/{projectId}/keys", operation{
		ID: "createKey", Summary: "Create an API key",
		Description: "Creates a key for one user of this project. The key is valid for this project only. Needs the role admin.",
		Body: accept(object("",
			must("user", text("The user the key acts for.")),
			must("role", choice("What the user may do.", "user", "viewer", "operator", "admin")),
			may("expiresAt", moment("Expiry time. Default: the key is valid until it is revoked.")),
			may("name", text("A label."))), "create-key"),
		Answers: answers{
			"201": reply("The key with its secret.", ref("MadeKey"), "key"),
			"409": refuse("The project has reached its maximum number of keys.", "too_many_keys", "The project has as many keys as it may have"),
		},
	})
	d.add("DELETE /api/projects/{projectId}/keys/{keyId}", operation{
		ID: "revokeKey", Summary: "Revoke an API key",
		Description: "On the server that handles the request, streams and sockets opened with the key end immediately. If the key is also valid for a " +
			"project where you are not an admin, the response is 403. Needs the role admin.",
		Answers: answers{"204": nothing("The key was revoked.")},
	})
}

// admin describes the routes for a project's admins.
func (d *describer) admin() {
	d.area("Administration", "Statistics, audit, retention, servers and limits of a project.")
	d.add("GET /api/projects/{projectId}/stats", operation{
		ID: "getStats", Summary: "Get run statistics",
		Description: "Returns the last hour by minute, the last day by quarter of an hour, or the last week by hour. Numbers are exact at the time of " +
			"the request; durations are within 5 %. Each generation of a run counts once: in `started` when it starts, and in the other counts when it " +
			"ends. Runs deleted since are included. `firstEventMs` is the time from creation to start, `durationMs` the time from start to end. With " +
			"accounts, this needs the role viewer, operator or admin.",
		Parameters: []parameter{query("window", choice("The time window. Default: `hour`.", "hour", "day", "week"))},
		Answers: answers{
			"200": reply("The statistics.", ref("Stats"), "stats"),
			"400": refuse("Invalid time window.", "invalid_request", "window must be hour, day or week"),
		},
	})
	infer[wire.Spread](&d.schemas, "Spread", "Median and 95th percentile, in milliseconds.",
		says("p50", "The median."),
		says("p95", "The 95th percentile."))
	infer[wire.StatsTotals](&d.schemas, "StatsTotals", "Totals of the window.", says("firstEventMs", "Null without any run."),
		says("started", "Generations started."), says("completed", "Generations completed."), says("failed", "Generations failed."),
		says("cancelled", "Generations cancelled."),
		says("durationMs", "Null without any run."))
	infer[wire.StatsBucket](&d.schemas, "StatsBucket", "Counts of one time bucket.", says("at", "Start of the bucket."))
	infer[wire.StatsFailure](&d.schemas, "StatsFailure", "Number of runs that failed with an error code.",
		says("code", "The error code."),
		says("count", "Number of runs."))
	infer[wire.StatsAgent](&d.schemas, "StatsAgent", "Statistics of an agent or workflow.", says("runs", "Number of finished runs."),
		says("cost", "Cost at current prices. Null if a model has no price."), says("agent", "The agent or workflow."),
		says("failed", "Number of failed runs."))
	infer[wire.StatsNow](&d.schemas, "StatsNow", "The current state. Each number counts up to 10 000.",
		says("oldestWaitingAt", "Time of the oldest open interrupt."), says("running", "Running runs."), says("queued", "Queued runs."),
		says("waiting", "Waiting runs."))
	infer[wire.Instance](&d.schemas, "Instance", "A server process that uses the database, or used it.",
		says("version", "Null if the process has ended or has not reported its version."), says("address", "Only shown to operators and admins."),
		says("heartbeatAt", "Approximate time of the last heartbeat."),
		may("ended", orNull(choice("How the process ended. Null while it serves.", "left", "fenced", "crashed"))),
		says("id", "Identifies the process."), says("startedAt", "Start time."),
		says("serving", "Whether the process serves requests."))
	infer[wire.Stats](&d.schemas, "Stats", "Statistics of a project's runs, and their current state.",
		may("window", choice("The time window.", "hour", "day", "week")), says("step", "Length of a bucket, in seconds."),
		says("failures", "Failures by error code, sorted by count. At most 100 codes, the rest as `other`."),
		says("agents", "Agents and workflows, sorted by number of runs. Tokens include what unfinished runs have used so far."),
		says("instances", "Server processes, newest first."),
		says("counting", "Earlier runs are still being counted, for example after an upgrade. Numbers are too low until this is false."),
		says("from", "Start of the window."), says("to", "End of the window."), says("buckets", "The window in buckets of `step` seconds."),
		says("totals", "Totals of the window."),
		says("now", "The current state."))
	d.usage()
	d.add("GET /api/projects/{projectId}/audit", operation{
		ID: "listAudit", Summary: "List audit entries",
		Description: "Returns the requests that changed something while accounts were on, newest first. Each entry is written in the transaction of " +
			"its change. With several of `actor`, `action`, `user` and `run`, a page searches at most 10 000 entries. It may then be short or empty and " +
			"still have a `nextCursor`. Needs the role admin.",
		Parameters: []parameter{
			query("actor", text("Only requests made by this user.")),
			query("action", choice("Only this action.", actions...)),
			query("user", text("Only requests about a thread of this user.")),
			query("run", text("Only requests about the run of this name. Use the run's first name.")),
			query("since", moment("Only requests at or after this time.")),
			query("until", moment("Only requests before this time.")),
			cursorParam, limitParam, countParam,
		},
		Answers: answers{"200": reply("A page of audit entries.", ref("AuditPage"), "audit")},
	})
	d.add("DELETE /api/projects/{projectId}/users/{user}/data", operation{
		ID: "deleteUserData", Summary: "Delete a user's data",
		Description: "Deletes the user's threads with their runs, messages and events. Unfinished runs are cancelled first. Audit entries and usage " +
			"are kept. If the request fails, repeat it: it continues with the rest. For the user, or with the role admin.",
		Answers: answers{"204": nothing("The data was deleted.")},
	})
	infer[wire.Server](&d.schemas, "Server", "A live server of the database, as seen a few seconds ago.",
		says("name", "Name of its host. Null until the server has reported it."), says("version", "Baton's version."),
		says("schema", "Version of the database schema. Null if unknown."),
		may("role", choice("What the server does: everything, serve requests, or execute runs.", "all", "gateway", "worker")),
		says("labels", "The server's labels. It executes agents whose `run_on` is one of them."),
		says("startedAt", "Start time. Null, like `seenAt`, if only one server at a time uses the database."),
		says("draining", "The server is stopping. It starts no runs and hands its own over to others."),
		says("running", "Number of runs it executes."), says("free", "Number of further runs it can execute."),
		says("queued", "Number of queued runs of all servers, as far as this server knows."),
		says("agents", "Agents it offers in the project of the request."), says("id", "The server's id."),
		says("address", "Where clients reach it."), says("seenAt", "Time it was last seen."),
		says("workflows", "Workflows it offers."),
		says("tools", "Tools it offers."))
	infer[wire.Servers](&d.schemas, "Servers", "The live servers of the database. The responding server is first.",
		says("warnings", "Differences between servers that should be equal, as sentences."))
	d.add("GET /api/v1/servers", operation{
		ID: "listServers", Summary: "List servers",
		Description: "Returns the live servers of the cluster. Without a cluster, returns only the responding server. Needs the role admin.",
		Parameters:  []parameter{projectParam},
		Answers:     answers{"200": reply("The servers.", ref("Servers"), "servers")},
	})
	infer[wire.Days](&d.schemas, "RetentionDays", "How long finished data is kept, in days. Null means forever.",
		says("runs", "Finished runs, with everything that belongs to them."),
		says("events", "Events of runs that are kept. Their messages and results are kept too."))
	infer[wire.Due](&d.schemas, "RetentionDue", "Data past its retention time. It is deleted within the hour.",
		says("stripped", "Runs that lose only their events."), says("events", "Events of `runs` and of `stripped`."),
		says("bytes", "Approximate size of the events."),
		says("whole", "False if there was more than one request examines. The counts are then incomplete."),
		says("runs", "Runs to be deleted."))
	infer[wire.Retention](&d.schemas, "Retention", "The retention times of a project.")
	d.add("GET /api/projects/{projectId}/retention", operation{
		ID: "getRetention", Summary: "Get retention times",
		Description: "Returns how long finished data is kept and what is due for deletion. Deletes nothing. Needs the role viewer, operator or admin.",
		Answers:     answers{"200": reply("The retention times.", ref("Retention"), "retention")},
	})
	d.add("GET /api/v1/me", operation{
		ID: "getMe", Summary: "Get the authenticated caller",
		Parameters: []parameter{projectParam},
		Answers:    answers{"200": reply("The caller.", ref("Me"), "me")},
	})
	d.add("GET /api/v1/me/views", operation{
		ID: "listViews", Summary: "List saved views",
		Description: "A saved view is a named list of runs in the console: a name and the query of its URL. Other users do not see your views.",
		Parameters:  []parameter{projectParam},
		Answers:     answers{"200": reply("The saved views.", ref("Views"), "views")},
	})
	d.add("PUT /api/v1/me/views", operation{
		ID: "putViews", Summary: "Replace saved views",
		Description: "At most 50 views, kept in the given order. The last of several concurrent requests wins.",
		Parameters:  []parameter{projectParam},
		Body:        accept(ref("Views"), "views"),
		Answers: answers{
			"200": reply("The saved views.", ref("Views"), "views"),
			"400": refuse("Invalid request body.", "invalid_request", `There are two views "failed today"`, "invalid_name", "A view's name must be 1 to 200 characters without control characters"),
		},
	})
	infer[runtime.SavedView](&d.schemas, "View", "A saved list of runs.",
		says("name", "The view's name, unique among the user's views."), says("query", "The query of the list's URL in the console, up to 2 KiB."))
	infer[wire.Views](&d.schemas, "Views", "The saved views of a user.")
	infer[wire.Me](&d.schemas, "Me", "The authenticated caller.",
		says("projectId", "The project of the request."),
		says("projects", "All projects of the user. The first is used by requests that name none."),
		may("role", choice("What the user may do in each project.", "user", "viewer", "operator", "admin")),
		may("authentication", choice("How the caller was authenticated. `none` if the server has no accounts.", "none", "api-key", "jwt", "custom")),
		says("expiresAt", "Expiry of the credential. Null if it does not expire."),
		says("version", "The server's version."), says("currency", "Currency of costs. Null on a server without prices."),
		says("user", "The user's name."))
	d.add("GET /api/v1/limits", operation{
		ID: "getLimits", Summary: "Get limits and usage",
		Description: "Returns the limits of the caller, the project and the server, and their current usage. Sizes are in bytes, times in seconds.",
		Parameters:  []parameter{query("user", text("The user whose limits to return. Needs the role admin. Default: the caller.")), projectParam},
		Answers:     answers{"200": reply("The limits.", ref("Limits"), "limits")},
	})
	infer[wire.RateQuota](&d.schemas, "RateQuota", "A rate limit and its usage.",
		says("perSecond", "Requests per second. Null for no limit."), says("burst", "Requests that may arrive at once."),
		says("used", "How much of the burst is used."))
	infer[wire.Quota](&d.schemas, "Quota", "A limit and its usage.", says("limit", "Null for no limit."),
		says("used", "Current usage."))
	infer[wire.Share](&d.schemas, "Share", "The quotas of a user or a project on a server.",
		says("streams", "Open streams and sockets."), says("subscriptions", "Threads subscribed on all sockets."),
		says("running", "Running runs."),
		says("queued", "Queued runs."))
	infer[wire.ServerLimits](&d.schemas, "ServerLimits", "Limits of the whole server, over all projects.",
		says("inFlight", "Bytes of requests, messages and responses held in memory at a time."),
		says("leastRate", "Minimum average rate at which clients must send and receive, in bytes per second."),
		says("connections", "Open connections. Null if the server has no listener of its own."),
		says("connectionsPerPeer", "Open connections from one address. Null if the server has no listener of its own."),
		says("guessesPerPeer", "Wrong credentials from one address per minute. Null for no limit."),
		says("running", "Runs executed at a time."),
		says("runningBytes", "Total input of running runs, in bytes. Small inputs do not count."),
		says("runningMessages", "Bytes of running runs' messages in memory. Small runs do not count."),
		says("runningPerAgent", "Runs of one agent executed at a time. Null for no limit of its own."), says("queued", "Queued runs."),
		says("queuedPerThread", "Queued runs of one thread."))
	infer[wire.SizeLimits](&d.schemas, "SizeLimits", "Maximum sizes, in bytes. `append`, `event`, `state`, `metadata` and `head` are the same on every "+
		"server.", says("input", "Body of a request that starts a run."), says("messages", "New messages of one run."),
		says("socket", "Message on a WebSocket. Messages that do not start a run are limited by `body`."), says("metadata", "Metadata of a thread."),
		says("body", "Body of any other request."), says("append", "Message appended to a run."), says("event", "One event of a run."),
		says("state", "State of a thread."),
		says("head", "Request line and headers."))
	infer[wire.CountLimits](&d.schemas, "CountLimits", "Maximum counts per request. They are the same on every server.",
		says("page", "Items of a page."),
		says("batch", "Messages of an MCP batch."))
	infer[wire.TimeLimits](&d.schemas, "TimeLimits", "Timeouts, in seconds.",
		says("onDisconnectGrace", "Time a disconnected client has to reconnect before its run is cancelled."),
		says("requestHead", "Time to receive a request's line and headers."),
		says("requestBody", "Time to receive the whole body."), says("answer", "Time in which the client must read a response that is not a stream."),
		says("stall", "Maximum pause while a body is received or a response is read."),
		says("idle", "Maximum idle time of a connection between two requests."),
		says("write", "Time for one write to a stream's reader."), says("ping", "Time without events after which a stream is pinged."),
		says("grace", "Time a cancelled worker or tool has to return. After it Baton stops waiting."),
		says("drain", "Time running runs have to finish when the server stops."),
		says("commit", "Time for a database commit. After it the outcome is reported as unknown."),
		says("run", "From a run's start to its end."), says("step", "One execution of an agent."), says("tool", "One tool call."),
		says("approval", "Time a person has to answer an approval."))
	infer[wire.RunLimits](&d.schemas, "RunLimits", "Limits of one run.", says("events", "Events between two answers of the client. Null for no limit."),
		says("messages", "Bytes of the run's messages in memory. Tool results and outputs count twice."))
	infer[wire.FilesUsed](&d.schemas, "FilesUsed", "Attachments of a user.", says("bytes", "Total size, in bytes."),
		says("files", "Number of attachments."))
	infer[wire.FileLimits](&d.schemas, "FileLimits", "Limits on attachments. Sizes are in bytes.",
		says("size", "Size of one attachment."), says("files", "Number of attachments per user."),
		says("bytes", "Total size of a user's attachments."), says("types", "Accepted media types, or patterns such as `image/*`."),
		says("url", "Validity of a signed URL, in seconds."),
		says("used", "The caller's usage. Uploads in progress count with their maximum size."),
		says("uploads", "Concurrent uploads per user. Null for no limit."))
	infer[wire.Limits](&d.schemas, "Limits", "Limits of the caller, the project and the server.",
		says("attachments", "Null if the server accepts no attachments."), says("user", "Quotas of the user."),
		says("project", "Quotas of the project: all its users together."))
	infer[wire.Audited](&d.schemas, "Audited", "A request that changed something.",
		says("actor", "The caller."), says("userId", "Owner of the thread."), may("action", choice("What the request did.", actions...)),
		says("threadId", "Empty if the request was not about a thread."), says("runId", "Null if the request was not about a run."),
		says("credential", "Id of the credential, never its secret."), says("subject", "Any other subject, such as the id of a key."),
		says("at", "Time of the request."), says("address", "Address of the client."),
		says("requestId", "Id of the request in the server's log."))
	pageOf[wire.Audited](&d.schemas, "AuditPage")
}
