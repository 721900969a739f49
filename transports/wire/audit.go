package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// Audited is a request that has changed something, as the audit shows it.
type Audited struct {
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`  // who has asked
	UserID     string    `json:"userId"` // whose thread it is
	Action     string    `json:"action"`
	ThreadID   string    `json:"threadId"`
	RunID      *string   `json:"runId"` // null when it was about a thread
	Credential *string   `json:"credential"`
	Address    *string   `json:"address"`
	RequestID  *string   `json:"requestId"`
	Subject    *string   `json:"subject"` // what else it was about
}

// NewAudited returns a row of the audit.
func NewAudited(a *runtime.Audit) Audited {
	return Audited{
		At: stamp(a.At), Actor: a.Actor, UserID: a.User, Action: a.Action, ThreadID: a.ThreadID, RunID: orNull(a.RunID),
		Credential: orNull(a.Credential), Address: orNull(a.Address), RequestID: orNull(a.Request), Subject: orNull(a.Subject),
	}
}
