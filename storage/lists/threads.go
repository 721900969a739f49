package lists

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

// A search of threads reads so many rows at most for a page. Then the page ends, and the next one continues.
const (
	lookedAt   = 10_000
	lookAtOnce = 1_000
)

const (
	// A list does not show the state, which can be large.
	listedColumns = `
SELECT t.project_id, t.user_id, t.thread_id, t.conversation_id, t.last_seq, t.last_message_seq, t.created_at,
	t.updated_at, t.key, NULL, t.title, t.metadata, t.archived, COALESCE(r.id, ''),
	COALESCE(r.workflow_id, ''), COALESCE(r.status, ''), 
	COALESCE(CASE WHEN octet_length(i.input_query) <= 65536 THEN substr(i.input_query, 1, 200) END, '')` // a larger text is not read for 200 characters

	shownRun = `
LEFT JOIN runs r ON r.key = COALESCE(
	(SELECT key FROM runs WHERE thread_key = t.key AND status IN ('QUEUED', 'RUNNING', 'WAITING') AND status <> 'QUEUED'
		LIMIT 1),
	(SELECT key FROM runs WHERE thread_key = t.key ORDER BY key DESC LIMIT 1))
LEFT JOIN run_inputs i ON i.run_key = r.key`

	selectListedThread = listedColumns + `
FROM threads t` + shownRun + `
WHERE t.key = ? AND t.project_id = ?`

	pageOfThreads = `), sized.found
FROM (SELECT sized_key, at, found
	FROM (SELECT sized_key, at, sum(size) OVER (ORDER BY at DESC, sized_key DESC) - size AS behind, count(*) OVER () AS found
		FROM (SELECT key AS sized_key, updated_at AS at, COALESCE(octet_length(metadata), 0) AS size FROM threads
			WHERE project_id = ?`
	ofOneUser    = ` AND user_id = ?`
	latestOfThem = ` AND (updated_at, key) < (?, ?)
			ORDER BY updated_at DESC, key DESC LIMIT ?`
	thatFitAThread = `) AS plain) AS counted
	WHERE behind < ? ORDER BY at DESC, sized_key DESC` + sqldb.SizedFirst + `
JOIN threads t ON t.key = sized_key` + shownRun + `
ORDER BY sized.at DESC, sized_key DESC`

	selectThreadsOfUser = listedColumns + `, (` + countThreadsOfUser + pageOfThreads + ofOneUser + latestOfThem + thatFitAThread
	selectThreads       = listedColumns + `, (` + countThreads + pageOfThreads + latestOfThem + thatFitAThread

	countThreadsOfUser = `
SELECT count(*) FROM (SELECT 1 FROM threads WHERE project_id = ? AND user_id = ? LIMIT ?) AS counted`
	countThreads = `
SELECT count(*) FROM (SELECT 1 FROM threads WHERE project_id = ? LIMIT ?) AS counted`

	lookAtThreads = `
SELECT key, updated_at, thread_id, title, archived FROM threads
WHERE project_id = ?`
	lookThreads    = lookAtThreads + ofOneUser + latestOfThem
	lookAllThreads = lookAtThreads + latestOfThem

	listTheThreads = listedColumns + `, 0, sized.found
FROM (SELECT sized_key, at, found
	FROM (SELECT sized_key, at, sum(size) OVER (ORDER BY at DESC, sized_key DESC) - size AS behind, count(*) OVER () AS found
		FROM (SELECT key AS sized_key, updated_at AS at, COALESCE(octet_length(metadata), 0) AS size FROM threads
			WHERE key = ANY (?) ORDER BY updated_at DESC, key DESC LIMIT ?` + thatFitAThread
)

// lookedThread is a thread that a page has read.
type lookedThread struct {
	key       int64
	updatedAt time.Time
	id, title string
	archived  bool
}

func (l *lookedThread) fits(f *data.ThreadFilter) bool {
	text := strings.ToLower(f.Text)
	return (f.Archived == nil || *f.Archived == l.archived) &&
		(text == "" || strings.Contains(strings.ToLower(l.title), text) || strings.Contains(strings.ToLower(l.id), text))
}

// lookThreads is Threads for a filter that no index serves: it reads the user's or the project's threads, some thousand for a page.
func (r Pages) lookThreads(ctx context.Context, f *data.ThreadFilter) (p data.Page[data.ListedThread], err error) {
	begin := f.BeforeTime.Equal(endOfTime)
	at := lookedThread{key: f.BeforeKey, updatedAt: f.BeforeTime}
	query, whose := lookAllThreads, []any{f.Project}
	if f.User != "" {
		query, whose = lookThreads, append(whose, f.User)
	}
	var found []int64
	more := false
	for n := 0; len(found) <= f.Limit; {
		if more = n >= lookedAt; more {
			break
		}
		list, err := sqldb.All(ctx, r.q, scanLookedThread, query, append(slices.Clip(whose), sqldb.Time(at.updatedAt), at.key, lookAtOnce)...)
		if err != nil {
			return p, err
		}
		for i := 0; i < len(list) && len(found) <= f.Limit; i++ {
			if at = list[i]; at.fits(f) {
				found = append(found, at.key)
			}
		}
		if n += len(list); len(list) < lookAtOnce {
			break
		}
	}
	if len(found) > 0 {
		p, err = sqldb.PageOf(ctx, r.q, scanListedAnd, data.PageBytes, f.Limit, listTheThreads, r.d.List(found))
		if err != nil {
			return p, err
		}
	}
	if !p.More && more {
		p.More, p.Behind, p.BehindAt = true, at.key, at.updatedAt
	}
	p.Total, p.Counted = len(found), f.Count && begin && !p.More
	return p, nil
}

func scanLookedThread(rows *sql.Rows) (l lookedThread, err error) {
	return sqldb.Scan(rows, &l, &l.key, sqldb.Into(&l.updatedAt), &l.id, &l.title, &l.archived)
}

func scanListed(rows *sql.Rows) (data.ListedThread, error) { return scanListedAnd(rows) }

func scanListedAnd(of *sql.Rows, more ...any) (t data.ListedThread, err error) {
	t.Thread, err = rows.ScanThread(of, append([]any{&t.RunID, &t.Agent, &t.Status, &t.Asked}, more...)...)
	return t, err
}

// ListedThread returns the thread with the key as Threads lists it.
func (r Pages) ListedThread(ctx context.Context, project string, key int64) (data.ListedThread, error) {
	return sqldb.One(ctx, r.q, scanListed, selectListedThread, key, project)
}

// endOfTime is later than any activity.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// Threads lists the threads of a user or of a project without their states, latest activity first. The default limit is 50.
func (r Pages) Threads(ctx context.Context, f data.ThreadFilter) (data.Page[data.ListedThread], error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	if f.BeforeKey == 0 || f.BeforeTime.After(endOfTime) { // no later time fits into a column
		f.BeforeTime, f.BeforeKey = endOfTime, math.MaxInt64
	}
	if f.Searches() {
		return searched(ctx, r, func(ctx context.Context, r Pages) (data.Page[data.ListedThread], error) {
			return r.lookThreads(ctx, &f)
		})
	}
	list, count, whose := selectThreads, countThreads, []any{f.Project}
	if f.User != "" {
		list, count, whose = selectThreadsOfUser, countThreadsOfUser, append(whose, f.User)
	}
	counting := slices.Concat(whose, []any{sqldb.CountTo(f.Count)})
	p, err := sqldb.PageOf(ctx, r.q, scanListedAnd, data.PageBytes, f.Limit, list,
		slices.Concat(counting, whose, []any{sqldb.Time(f.BeforeTime), f.BeforeKey})...)
	return sqldb.Counted(ctx, r.q, p, err, f.Count, count, counting...)
}
