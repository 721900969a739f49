package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
)

// Audited is a request that has changed something, as the audit shows it.
type Audited struct {
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`  // the caller
	UserID     string    `json:"userId"` // the owner of the thread
	Action     string    `json:"action"`
	ThreadID   string    `json:"threadId"`
	RunID      *string   `json:"runId"` // null when it was about a thread
	Credential *string   `json:"credential"`
	Address    *string   `json:"address"`
	RequestID  *string   `json:"requestId"`
	Subject    *string   `json:"subject"` // the other subject, such as a key
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
