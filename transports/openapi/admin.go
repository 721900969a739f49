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
	infer[wire.Audited](&d.schemas, "Audited", "A request that has changed something.",
		says("actor", "Who has asked."),
		says("userId", "Whose thread it is."),
		may("action", choice("", "start", "append", "answer", "cancel", "update", "delete")),
		says("runId", "Null when it was about a thread."),
		says("credential", "The id of the credential, never the secret."))
	pageOf[wire.Audited](&d.schemas, "AuditPage")
}
