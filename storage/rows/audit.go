package rows

import (
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const insertAudit = `
INSERT INTO audit (project_id, user_id, actor, action, thread_id, run_id, credential, address, request, subject, at)
VALUES (?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::timestamptz)`

func auditCells(a *data.Audit) []any {
	return []any{
		a.Project, a.User, a.Actor, a.Action, a.ThreadID, a.RunID, a.Credential, a.Address, a.Request, a.Subject, sqldb.Time(a.At),
	}
}

// InsertAudit writes a row of the audit.
func InsertAudit(tx *sqldb.Tx, a *data.Audit) error { return tx.Exec(insertAudit, auditCells(a)...) }
