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
	selectQuestions = questionColumns + `, (` + countQuestions + `), sized.found
FROM (SELECT sized_key, found
	FROM (SELECT sized_key, sum(size) OVER (ORDER BY sized_key) - size AS behind, count(*) OVER () AS found
		FROM (SELECT q.key AS sized_key, COALESCE(octet_length(q.body), 0) AS size FROM interrupts q
			WHERE q.project_id = ? AND q.status = 'open' AND q.key > ? ORDER BY q.key LIMIT ?` + thatFitAQuestion

	selectQuestionsOfUser = questionColumns + `, (` + countQuestionsOfUser + `), sized.found
FROM (SELECT sized_key, found
	FROM (SELECT sized_key, sum(size) OVER (ORDER BY sized_key) - size AS behind, count(*) OVER () AS found
		FROM (SELECT q.key AS sized_key, COALESCE(octet_length(q.body), 0) AS size FROM interrupts q
			WHERE q.project_id = ? AND q.user_id = ? AND q.status = 'open' AND q.key > ? ORDER BY q.key LIMIT ?` + thatFitAQuestion

	questionColumns = `
SELECT i.run_key, i.interrupt_id, i.step, i.place, i.frontend, i.tool, i.body, i.status, i.payload, i.expires_at,
	i.created_at, i.key, r.user_id, r.id, r.workflow_id, t.thread_id, t.conversation_id`

	thatFitAQuestion = `) AS plain) AS counted
	WHERE behind < ? ORDER BY sized_key` + sqldb.SizedFirst + `
JOIN interrupts i ON i.key = sized_key
JOIN runs r ON r.key = i.run_key
JOIN threads t ON t.key = r.thread_key
ORDER BY sized_key`

	countQuestions = `
SELECT count(*) FROM (SELECT 1 FROM interrupts q WHERE q.project_id = ? AND q.status = 'open' ORDER BY q.key LIMIT ?) AS counted`
	countQuestionsOfUser = `
SELECT count(*) FROM (SELECT 1 FROM interrupts q
	WHERE q.project_id = ? AND q.user_id = ? AND q.status = 'open' ORDER BY q.key LIMIT ?) AS counted`
)

func scanQuestion(rows *sql.Rows, more ...any) (q data.Question, err error) {
	i := &q.Interrupt
	return sqldb.Scan(rows, &q, append([]any{
		&i.RunKey, &i.ID, &i.Step, &i.Place, &i.Frontend, &i.Tool, sqldb.Into(&i.Body), &i.Status, sqldb.Into(&i.Payload),
		sqldb.Into(&i.ExpiresAt), sqldb.Into(&i.CreatedAt), &q.Key, &q.User, &q.RunID, &q.Agent, &q.ThreadID, &q.ConversationID,
	}, more...)...)
}

// Questions lists the open interrupts of a project's runs, oldest first. The default limit is 50.
func (r Pages) Questions(ctx context.Context, f data.QuestionFilter) (data.Page[data.Question], error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	list, count, whose := selectQuestions, countQuestions, []any{f.Project}
	if f.User != "" {
		list, count, whose = selectQuestionsOfUser, countQuestionsOfUser, append(whose, f.User)
	}
	counting := slices.Concat(whose, []any{sqldb.CountTo(f.Count)})
	p, err := sqldb.PageOf(ctx, r.q, scanQuestion, data.PageBytes, f.Limit, list, slices.Concat(counting, whose, []any{f.AfterKey})...)
	return sqldb.Counted(ctx, r.q, p, err, f.Count, count, counting...)
}
