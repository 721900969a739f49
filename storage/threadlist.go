package storage

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// A search of threads reads so many rows at most for a page. Then the page ends, and the next one continues.
const (
	lookedAt   = 10_000
	lookAtOnce = 1_000
)

const (
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
func (r reader) lookThreads(ctx context.Context, f *data.ThreadFilter) (p data.Page[data.ListedThread], err error) {
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
