package openapi

import (
	"github.com/batonrun/baton/transports/wire"
)

// admin describes what is for those who look after a project.
func (d *describer) admin() {
	d.area("Administration", "For those who look after a project.")
	d.add("GET /api/projects/{projectId}/audit", operation{
		ID: "listAudit", Summary: "List who has asked for what, latest first",
		Description: "Each request that has changed something while accounts were on: written in the transaction of what it has changed. For admins.",
		Parameters: []parameter{
			query("actor", text("Only what this user has asked for.")),
			query("action", choice("Only this.", "start", "append", "answer", "cancel", "update", "delete")),
			query("since", moment("Only what was asked for then or later.")),
			cursorParam, limitParam,
		},
		Answers: answers{"200": reply("A page of the audit.", ref("AuditPage"), "audit")},
	})
	d.add("DELETE /api/projects/{projectId}/users/{user}/data", operation{
		ID: "deleteUserData", Summary: "Delete all that a user has",
		Description: "The user's threads with their runs, messages and events; runs that are not over are cancelled first. For the user and for " +
			"admins. What the audit tells of the user stays. If it fails, ask again: it goes on with what is left.",
		Answers: answers{"204": nothing("Nothing of it is left.")},
	})
	d.add("GET /api/v1/me", operation{
		ID: "getMe", Summary: "Show who the server takes the caller for",
		Parameters: []parameter{projectParam},
		Answers:    answers{"200": reply("The caller.", ref("Me"), "me")},
	})
	infer[wire.Me](&d.schemas, "Me", "Who the server takes a caller for.",
		says("projectId", "The project that the request means."),
		says("projects", "All of the user's. The first is meant where a request names none."),
		may("role", choice("What the user may do in each of them.", "user", "viewer", "operator", "admin")),
		may("authentication", choice("How the user is known; `none` where there are no accounts.", "none", "api-key", "jwt", "custom")),
		says("expiresAt", "When the credential ends; null for never."),
		says("version", "The server's."))
	d.add("GET /api/v1/limits", operation{
		ID: "getLimits", Summary: "Show what the caller may have and ask for",
		Description: "The limits of the caller, of its project and of the server, and what is used of them now. Sizes are in bytes, times in seconds.",
		Answers:     answers{"200": reply("The limits.", ref("Limits"), "limits")},
	})
	infer[wire.RateQuota](&d.schemas, "RateQuota", "How often something may be done.",
		says("perSecond", "Null for no limit."), says("burst", "How many may come at once."), says("used", "Of the burst."))
	infer[wire.Quota](&d.schemas, "Quota", "A limit and what is used of it.", says("limit", "Null for no limit."))
	infer[wire.Share](&d.schemas, "Share", "What a user or a project has of a server.",
		says("streams", "Open at a time."), says("running", "Runs executed at once."), says("queued", "Runs that wait for their turn."))
	infer[wire.ServerLimits](&d.schemas, "ServerLimits", "Those of all projects together.")
	infer[wire.SizeLimits](&d.schemas, "SizeLimits", "In bytes.", says("input", "Of a request that starts a run."), says("messages", "The new ones of one run."))
	infer[wire.TimeLimits](&d.schemas, "TimeLimits", "In seconds.")
	infer[wire.FileLimits](&d.schemas, "FileLimits", "Those of attachments, in bytes.", says("size", "Of one."), says("files", "Of a user."), says("bytes", "Of all of a user's."),
		says("uploads", "Of a user at a time; null for no limit."))
	infer[wire.Limits](&d.schemas, "Limits", "What a caller may have and ask for.", says("attachments", "Null when none are taken."))
	infer[wire.Audited](&d.schemas, "Audited", "A request that has changed something.",
		says("actor", "Who has asked."),
		says("userId", "Whose thread it is."),
		may("action", choice("", "start", "append", "answer", "cancel", "update", "delete")),
		says("runId", "Null when it was about a thread."),
		says("credential", "The id of the credential, never the secret."))
	pageOf[wire.Audited](&d.schemas, "AuditPage")
}
