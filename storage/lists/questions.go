package lists

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// A page of questions consists of this, the count or sqldb.Uncounted, and the rest. Each part checks the owner.
	listQuestions = `
SELECT i.run_key, i.interrupt_id, i.step, i.place, i.frontend, i.tool, i.body, i.status, i.payload, i.expires_at,
	i.created_at, i.key, r.user_id, r.id, r.workflow_id, t.thread_id, t.conversation_id, (`
	pageOfQuestions = `), sized.found
FROM (SELECT sized_key, found
	FROM (SELECT sized_key, sum(size) OVER (ORDER BY sized_key) - size AS behind, count(*) OVER () AS found
		FROM (SELECT q.key AS sized_key, COALESCE(octet_length(q.body), 0) AS size FROM interrupts q`
	thatFollow = ` AND q.key > ? ORDER BY q.key LIMIT ?) AS plain) AS counted
	WHERE behind < ? ORDER BY sized_key` + sqldb.SizedFirst + `
JOIN interrupts i ON i.key = sized_key
JOIN runs r ON r.key = i.run_key
JOIN threads t ON t.key = r.thread_key
ORDER BY sized_key`

	whereOpen = ` AND q.status = 'open'`

	countQuestions = `
SELECT count(*) FROM (SELECT 1 FROM interrupts q`
	questionsCounted = ` ORDER BY q.key LIMIT ?) AS counted`

	ofProject = ` WHERE q.project_id = ?`
	ofUser    = ` WHERE q.project_id = ? AND q.user_id = ?`

	askedIn      = pageOfQuestions + ofProject + whereOpen + thatFollow
	askedOf      = pageOfQuestions + ofUser + whereOpen + thatFollow
	countAskedIn = countQuestions + ofProject + whereOpen + questionsCounted
	countAskedOf = countQuestions + ofUser + whereOpen + questionsCounted
)

func scanQuestion(rows *sql.Rows, more ...any) (q data.Question, err error) {
	i := &q.Interrupt
	return sqldb.Scan(rows, &q, append([]any{
		&i.RunKey, &i.ID, &i.Step, &i.Place, &i.Frontend, &i.Tool, sqldb.Into(&i.Body), &i.Status, sqldb.Into(&i.Payload),
		sqldb.Into(&i.ExpiresAt), sqldb.Into(&i.CreatedAt), &q.Key, &q.User, &q.RunID, &q.Agent, &q.ThreadID, &q.ConversationID,
	}, more...)...)
}

// Questions lists the open interrupts of a project's runs, oldest first. The default limit is 50.
func (r Reader) Questions(ctx context.Context, f data.QuestionFilter) (data.Page[data.Question], error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	list, count, whose := askedIn, countAskedIn, []any{f.Project}
	if f.User != "" {
		list, count, whose = askedOf, countAskedOf, append(whose, f.User)
	}
	counting := slices.Concat(whose, []any{sqldb.MaxCount + 1})
	if !f.Count {
		count, counting = sqldb.Uncounted, nil
	}
	p, err := sqldb.PageOf(ctx, r.q, scanQuestion, data.PageBytes, f.Limit, listQuestions+count+list,
		slices.Concat(counting, whose, []any{f.AfterKey})...)
	return sqldb.Counted(ctx, r.q, p, err, f.Count, count, counting...)
}
