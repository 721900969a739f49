package rows

import (
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// AuditColumns are the columns of the audit that rows are written with.
const AuditColumns = `project_id, user_id, actor, action, thread_id, run_id, credential, address, request, subject, at`

const (
	insertAudit = `
INSERT INTO audit (` + AuditColumns + `)
VALUES (?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::timestamptz)`
)

func auditCells(a *data.Audit) []any {
	return []any{
		a.Project, a.User, a.Actor, a.Action, a.ThreadID, a.RunID, a.Credential, a.Address, a.Request, a.Subject, sqldb.Time(a.At),
	}
}

// ScanAudit reads a row of AuditColumns and its key, and the columns behind them.
func ScanAudit(rows *sql.Rows, more ...any) (a data.Audit, err error) {
	return sqldb.Scan(rows, &a, append([]any{
		&a.Project, &a.User, &a.Actor, &a.Action, &a.ThreadID, &a.RunID, &a.Credential, &a.Address, &a.Request, &a.Subject,
		sqldb.Into(&a.At), &a.Key,
	}, more...)...)
}

// InsertAudit writes a row of the audit.
func InsertAudit(tx *sqldb.Tx, a *data.Audit) error { return tx.Exec(insertAudit, auditCells(a)...) }
