package openapi

import (
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// actions are the audited actions.
var actions = []string{"start", "append", "answer", "cancel", "event", "update", "delete", "create_key", "revoke_key"}

// keys describes the API keys of a project.
func (d *describer) keys() {
	s := &d.schemas
	d.area("Keys", "API keys of a project. All routes return 404 on servers that do not authenticate by API key.")
	infer[wire.MadeKey](s, "MadeKey")
	infer[wire.Key](s, "Key")
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
	infer[wire.Spread](&d.schemas, "Spread")
	infer[wire.StatsTotals](&d.schemas, "StatsTotals")
	infer[wire.StatsBucket](&d.schemas, "StatsBucket")
	infer[wire.StatsFailure](&d.schemas, "StatsFailure")
	infer[wire.StatsAgent](&d.schemas, "StatsAgent")
	infer[wire.StatsNow](&d.schemas, "StatsNow")
	infer[wire.Instance](&d.schemas, "Instance")
	infer[wire.Stats](&d.schemas, "Stats")
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
	infer[wire.Server](&d.schemas, "Server")
	infer[wire.Servers](&d.schemas, "Servers")
	d.add("GET /api/v1/servers", operation{
		ID: "listServers", Summary: "List servers",
		Description: "Returns the live servers of the cluster. Without a cluster, returns only the responding server. Needs the role admin.",
		Parameters:  []parameter{projectParam},
		Answers:     answers{"200": reply("The servers.", ref("Servers"), "servers")},
	})
	infer[wire.Days](&d.schemas, "RetentionDays")
	infer[wire.Due](&d.schemas, "RetentionDue")
	infer[wire.Retention](&d.schemas, "Retention")
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
	infer[runtime.SavedView](&d.schemas, "View")
	infer[wire.Views](&d.schemas, "Views")
	infer[wire.Me](&d.schemas, "Me")
	d.add("GET /api/v1/limits", operation{
		ID: "getLimits", Summary: "Get limits and usage",
		Description: "Returns the limits of the caller, the project and the server, and their current usage. Sizes are in bytes, times in seconds.",
		Parameters:  []parameter{query("user", text("The user whose limits to return. Needs the role admin. Default: the caller.")), projectParam},
		Answers:     answers{"200": reply("The limits.", ref("Limits"), "limits")},
	})
	infer[wire.RateQuota](&d.schemas, "RateQuota")
	infer[wire.Quota](&d.schemas, "Quota")
	infer[wire.Share](&d.schemas, "Share")
	infer[wire.ServerLimits](&d.schemas, "ServerLimits")
	infer[wire.SizeLimits](&d.schemas, "SizeLimits")
	infer[wire.CountLimits](&d.schemas, "CountLimits")
	infer[wire.TimeLimits](&d.schemas, "TimeLimits")
	infer[wire.RunLimits](&d.schemas, "RunLimits")
	infer[wire.FilesUsed](&d.schemas, "FilesUsed")
	infer[wire.FileLimits](&d.schemas, "FileLimits")
	infer[wire.Limits](&d.schemas, "Limits")
	infer[wire.Audited](&d.schemas, "Audited", may("action", choice("", actions...)))
	pageOf[wire.Audited](&d.schemas, "AuditPage")
}
