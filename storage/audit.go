package storage

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

const auditColumns = `project_id, user_id, actor, action, thread_id, run_id, credential, address, request, subject, at`

const (
	insertAudit = `
INSERT INTO audit (` + auditColumns + `)
VALUES (?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::timestamptz)`

	// A page of the audit is this, the count beside it, and the rest, in each of which a filter stands.
	listAudit = `
SELECT ` + auditColumns + `, key, (`
	countAudit = `
SELECT count(*) FROM (SELECT 1 FROM audit`
	auditCounted = ` LIMIT ?) AS counted`
	pageOfAudit  = `)
FROM audit`
	belowAudit = ` AND key < ? ORDER BY key DESC LIMIT ?`

	// The oldest rows of a project are its first.
	forgetAudit = `
DELETE FROM audit WHERE project_id = ? AND key <= ? AND at < ?`

	selectOldAudit = `
SELECT ` + auditColumns + `, key FROM audit WHERE project_id = ? ORDER BY key LIMIT ?`

	countOldAudit = `
SELECT count(*) FROM audit WHERE project_id = ? AND at < ?`
)

func auditCells(a *model.Audit) []any {
	return []any{
		a.Project, a.User, a.Actor, a.Action, a.ThreadID, a.RunID, a.Credential, a.Address, a.Request, a.Subject, ms(a.At),
	}
}

func scanAudit(rows *sql.Rows, more ...any) (a model.Audit, err error) {
	err = rows.Scan(append([]any{
		&a.Project, &a.User, &a.Actor, &a.Action, &a.ThreadID, &a.RunID, &a.Credential, &a.Address, &a.Request, &a.Subject,
		timeInto{&a.At},
		&a.Key,
	}, more...)...)
	return a, err
}

// filterAudit returns the WHERE clause of a filter, all but its cursor.
func filterAudit(f *model.AuditFilter) (string, []any) {
	var query strings.Builder
	query.WriteString("\nWHERE project_id = ?")
	args := []any{f.Project}
	if f.Actor != "" {
		query.WriteString(" AND actor = ?")
		args = append(args, f.Actor)
	}
	if f.Action != "" {
		query.WriteString(" AND action = ?")
		args = append(args, f.Action)
	}
	if !f.Since.IsZero() {
		query.WriteString(" AND at >= ?")
		args = append(args, ms(f.Since))
	}
	return query.String(), args
}

// Audit lists who has asked for what in a project, latest first. Without a limit it lists 50. Its rows are small.
func (r reader) Audit(ctx context.Context, f model.AuditFilter) (p model.Page[model.Audit], err error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	where, args := filterAudit(&f)
	counting := append(slices.Clip(args), maxCount)
	p.Rows, err = all(ctx, r.q, func(rows *sql.Rows) (model.Audit, error) { return scanAudit(rows, &p.Total) },
		listAudit+countAudit+where+auditCounted+pageOfAudit+where+belowAudit,
		slices.Concat(counting, args, []any{cmp.Or(f.BeforeKey, math.MaxInt64), f.Limit + 1})...)
	if err != nil {
		return p, err
	}
	if p.More = len(p.Rows) > f.Limit; p.More {
		p.Rows = p.Rows[:f.Limit]
	}
	return counted(ctx, r.q, p, countAudit+where+auditCounted, counting...)
}

// ForgetAudit removes what the audit of a project tells of before a time, and returns how much that is, which with dry is all
// it does.
func (db *DB) ForgetAudit(ctx context.Context, project string, before time.Time, dry bool) (n int, err error) {
	if dry {
		return one(ctx, db.read, scalar[int], countOldAudit, project, ms(before))
	}
	for {
		oldest, err := all(ctx, db.read, func(rows *sql.Rows) (model.Audit, error) { return scanAudit(rows) }, selectOldAudit, project, tidyRows)
		if err != nil || len(oldest) == 0 {
			return n, err
		}
		some, err := db.tidySome(ctx, forgetAudit, project, oldest[len(oldest)-1].Key, ms(before))
		if n += some; err != nil || some < tidyRows {
			return n, err
		}
	}
}
