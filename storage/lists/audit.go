package lists

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// A page of the audit is this, the count and the rest, in each of which a filter stands.
	listAudit = `
SELECT project_id, user_id, actor, action, thread_id, run_id, credential, address, request, subject, at, key, (`
	countAudit = `
SELECT count(*) FROM (SELECT 1 FROM audit`
	auditCounted = ` LIMIT ?) AS counted`
	pageOfAudit  = `)
FROM audit`
	belowAudit = ` AND (at, key) < (?, ?) ORDER BY at DESC, key DESC LIMIT ?`
)

func scanAudit(rows *sql.Rows, total *int) (a data.Audit, err error) {
	return sqldb.Scan(rows, &a, &a.Project, &a.User, &a.Actor, &a.Action, &a.ThreadID, &a.RunID, &a.Credential, &a.Address, &a.Request,
		&a.Subject, sqldb.Into(&a.At), &a.Key, total)
}

// auditPart returns the part of a filter that an index serves: a run has the fewest rows, then a user or an actor, then an action.
func auditPart(f *data.AuditFilter) data.AuditFilter {
	part := *f
	n := 0
	for _, name := range []*string{&part.Run, &part.User, &part.Actor, &part.Action} {
		if *name == "" {
			continue
		}
		if n++; n > 1 {
			*name = ""
		}
	}
	return part
}

// whereAudit returns the WHERE clause of a filter, all but its cursor. The database finds rows by one index, and tests them for the
// rest of the filter.
func whereAudit(f *data.AuditFilter) (string, []any) {
	part := auditPart(f)
	where, args := filterAudit(&part)
	if f.Searches() {
		rest, more := filterAudit(f)
		where += ` AND (SELECT ` + strings.TrimPrefix(rest, "\nWHERE ") + ` FROM audit AS fitting WHERE fitting.key = audit.key)`
		args = append(args, more...)
	}
	return where, args
}

func filterAudit(f *data.AuditFilter) (string, []any) {
	var query strings.Builder
	query.WriteString("\nWHERE project_id = ?")
	args := []any{f.Project}
	and := func(asked bool, cond string, arg any) {
		if asked {
			query.WriteString(" AND " + cond)
			args = append(args, arg)
		}
	}
	and(f.Run != "", "run_id = ?", f.Run)
	and(f.User != "", "user_id = ?", f.User)
	and(f.Actor != "", "actor = ?", f.Actor)
	and(f.Action != "", "action = ?", f.Action)
	and(!f.Since.IsZero(), "at >= ?", sqldb.Time(f.Since))
	and(!f.Until.IsZero(), "at < ?", sqldb.Time(f.Until))
	return query.String(), args
}

// Audit lists the requests that changed a project, latest first. The default limit is 50. Its rows are small.
func (r Pages) Audit(ctx context.Context, f data.AuditFilter) (data.Page[data.Audit], error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	if f.BeforeKey == 0 || f.BeforeTime.After(endOfTime) {
		f.BeforeTime, f.BeforeKey = endOfTime, math.MaxInt64
	}
	if f.Searches() {
		return searched(ctx, r, func(ctx context.Context, r Pages) (data.Page[data.Audit], error) { return r.audit(ctx, &f) })
	}
	return r.audit(ctx, &f)
}

func (r Pages) audit(ctx context.Context, f *data.AuditFilter) (p data.Page[data.Audit], err error) {
	where, args := whereAudit(f)
	count, counting := countAudit+where+auditCounted, append(slices.Clip(args), sqldb.CountTo(f.Count))
	p.Rows, err = sqldb.All(ctx, r.q, func(rows *sql.Rows) (data.Audit, error) { return scanAudit(rows, &p.Total) },
		listAudit+count+pageOfAudit+where+belowAudit,
		slices.Concat(counting, args, []any{sqldb.Time(f.BeforeTime), f.BeforeKey, f.Limit + 1})...)
	if p.More = len(p.Rows) > f.Limit; p.More {
		p.Rows = p.Rows[:f.Limit]
	}
	return sqldb.Counted(ctx, r.q, p, err, f.Count, count, counting...)
}
