package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// Audited is a request that changed something.
type Audited struct {
	At         time.Time `json:"at"`         // Time of the request.
	Actor      string    `json:"actor"`      // The caller.
	UserID     string    `json:"userId"`     // Owner of the thread.
	Action     string    `json:"action"`     // What the request did.
	ThreadID   string    `json:"threadId"`   // Empty if the request was not about a thread.
	RunID      *string   `json:"runId"`      // Null if the request was not about a run.
	Credential *string   `json:"credential"` // Id of the credential, never its secret.
	Address    *string   `json:"address"`    // Address of the client.
	RequestID  *string   `json:"requestId"`  // Id of the request in the server's log.
	Subject    *string   `json:"subject"`    // Any other subject, such as the id of a key.
}

// AuditAfter has a filter begin where a cursor leads to in that list.
func AuditAfter(l List, cursor string, f *runtime.AuditFilter) error {
	at, err := l.positions(cursor, 2)
	if err == nil && cursor != "" {
		f.BeforeTime, f.BeforeKey = time.UnixMilli(at[0]), at[1]
	}
	return err
}

// NewAudit makes a page of the audit, which was read with the filter of AuditAfter.
func NewAudit(l List, read runtime.Page[runtime.Audit]) Page[Audited] {
	return newPage(read, NewAudited, func(a *runtime.Audit) string {
		return l.Cursor(a.At.UnixMilli(), a.Key)
	})
}

// NewAudited returns a row of the audit.
func NewAudited(a *runtime.Audit) Audited {
	return Audited{
		At: stamp(a.At), Actor: a.Actor, UserID: a.User, Action: a.Action, ThreadID: a.ThreadID, RunID: orNull(a.RunID),
		Credential: orNull(a.Credential), Address: orNull(a.Address), RequestID: orNull(a.Request), Subject: orNull(a.Subject),
	}
}
