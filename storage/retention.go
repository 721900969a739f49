package storage

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	nextProjectOfRuns = `
SELECT project_id FROM runs WHERE project_id > ? ORDER BY project_id LIMIT 1`

	nextProjectOfAttachments = `
SELECT project_id FROM attachments WHERE project_id > ? ORDER BY project_id LIMIT 1`

	nextProjectOfAudit = `
SELECT project_id FROM audit WHERE project_id > ? ORDER BY project_id LIMIT 1`

	// selectEndedRuns reads the oldest runs of a project, those that have ended and those that have not. What has ended before
	// a time came before it.
	selectEndedRuns = `
SELECT key, thread_key, created_at,
	CASE WHEN finished_at < ? AND status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN finished_at END,
	EXISTS (SELECT 1 FROM run_spans s WHERE s.run_key = runs.key)
FROM runs
WHERE project_id = ? AND created_at < ? AND (created_at, key) > (?, ?)
ORDER BY created_at, key LIMIT ?`

	// A segment may hold events of other runs, too: each event counts alike.
	selectEventsOf = `
SELECT s.run_key, s.first_event_id, s.last_event_id,
	(SELECT COALESCE(sum(octet_length(e.payload)), 0)
	FROM events e WHERE e.thread_key = s.thread_key AND e.last_event_id >= s.first_event_id AND e.last_event_id <= s.last_event_id
		AND e.run_key = s.run_key),
	(SELECT COALESCE(sum(octet_length(g.data) * (
		CASE WHEN g.last_event_id < s.last_event_id THEN g.last_event_id ELSE s.last_event_id END
		- CASE WHEN g.first_event_id > s.first_event_id THEN g.first_event_id ELSE s.first_event_id END + 1
		) / (g.last_event_id - g.first_event_id + 1)), 0)
	FROM event_segments g WHERE g.thread_key = s.thread_key AND g.last_event_id >= s.first_event_id AND g.first_event_id <= s.last_event_id)
FROM run_spans s WHERE s.run_key = ANY (?) LIMIT ?`
)

// Retention seals events, and removes old data.
type Retention struct {
	beside
	cfg   Config
	codec *eventlog.Codec
}

var _ data.Retainer = Retention{}

// Projects implements [data.Retainer]. It steps from one to the next in three indexes, each in its own order.
func (r Retention) Projects(ctx context.Context) (projects []string, err error) {
	for _, query := range []string{nextProjectOfRuns, nextProjectOfAttachments, nextProjectOfAudit} {
		for last := ""; ; {
			last, err = sqldb.One(ctx, r.read, sqldb.Scalar[string], query, last)
			if errors.Is(err, data.ErrNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			projects = append(projects, last)
		}
	}
	slices.Sort(projects)
	return slices.Compact(projects), nil
}

// EndedRuns implements [data.Retainer].
func (r Retention) EndedRuns(ctx context.Context, project string, before time.Time, after data.EndedRun, limit int) ([]data.EndedRun, error) {
	return sqldb.All(ctx, r.read, func(rows *sql.Rows) (e data.EndedRun, err error) {
		return sqldb.Scan(rows, &e, &e.Key, &e.Thread, sqldb.Into(&e.CreatedAt), sqldb.Into(&e.FinishedAt), &e.Events)
	}, selectEndedRuns, sqldb.Time(before), project, sqldb.Time(before), sqldb.Time(after.CreatedAt), after.Key, limit)
}

// EventsOf implements [data.Retainer].
func (r Retention) EventsOf(ctx context.Context, runKeys []int64) (map[int64]data.EventsSize, error) {
	sizes := make(map[int64]data.EventsSize)
	_, err := sqldb.All(ctx, r.read, func(rows *sql.Rows) (struct{}, error) {
		var run, first, last, plain, sealed int64
		err := rows.Scan(&run, &first, &last, &plain, &sealed)
		size := sizes[run]
		size.Events += int(max(last-first+1, 0))
		size.Bytes += plain + sealed
		sizes[run] = size
		return struct{}{}, err
	}, selectEventsOf, r.read.DB.List(runKeys), sqldb.MaxCount)
	return sizes, err
}

// keepAfter is how long the records of a run are kept after its end, for diagnosis.
const keepAfter = 24 * time.Hour

const (
	// selectRecorded finds runs with records that are no longer needed. An index has the runs that have records.
	selectRecorded = `
SELECT recorded.run_key,
	r.generation > recorded.generation OR r.status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND r.finished_at < ?
FROM (SELECT run_key, min(generation) AS generation FROM memos WHERE run_key > ? GROUP BY run_key ORDER BY run_key LIMIT 500)
	AS recorded
JOIN runs r ON r.key = recorded.run_key
ORDER BY recorded.run_key`

	deleteRecords = `
DELETE FROM memos WHERE (run_key, generation, step, place) IN (
	SELECT m.run_key, m.generation, m.step, m.place FROM runs r JOIN memos m ON m.run_key = r.key
	WHERE r.key = ANY (?) AND m.generation <
		r.generation + CASE WHEN r.status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND r.finished_at < ? THEN 1 ELSE 0 END
	LIMIT ?)`

	forgetKeys = `
DELETE FROM idempotency_keys WHERE scope IN (
	SELECT scope FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`

	deleteInstances = `
DELETE FROM instances WHERE id IN (
	SELECT id FROM instances WHERE fenced AND started_at < ? AND id NOT IN (
		SELECT owner_instance FROM runs WHERE status = 'RUNNING' AND status IN ('QUEUED', 'RUNNING', 'WAITING'))
	LIMIT ?)`
)

// recorded is a run with records.
type recorded struct {
	run  int64
	over bool // some of them are no longer needed
}

func scanRecorded(rows *sql.Rows) (r recorded, err error) {
	return sqldb.Scan(rows, &r, &r.run, &r.over)
}

// Prune removes rows that are no longer needed. These are the records (of Do, CallTool, Ask, Next) of earlier generations of a
// run and of runs that ended a day ago; fenced instances without runs that started at least a day ago; and API keys that
// were revoked or expired 90 days ago. Call it every few minutes. It blocks commits only for moments.
func (r Retention) Prune(ctx context.Context, now time.Time) error {
	before, after := sqldb.Time(now.Add(-keepAfter)), int64(0)
	err := members.InTurns(ctx, func() (more bool, err error) {
		list, err := sqldb.All(ctx, r.read, scanRecorded, selectRecorded, before, after)
		if err != nil || len(list) == 0 {
			return false, err
		}
		after = list[len(list)-1].run
		list = slices.DeleteFunc(list, func(r recorded) bool { return !r.over })
		if len(list) == 0 {
			return true, nil
		}
		runs := make([]int64, len(list))
		for i := range list {
			runs[i] = list[i].run
		}
		_, err = r.w.Tidy(ctx, deleteRecords, r.read.DB.List(runs), before)
		return true, err
	})
	if err != nil {
		return err
	}
	_, err = r.w.Tidy(ctx, deleteInstances, before)
	return errors.Join(err, r.forgetAPIKeys(ctx, now))
}

// ForgetKeys removes the idempotency keys that were put before a time.
func (r Retention) ForgetKeys(ctx context.Context, before time.Time) error {
	_, err := r.w.Tidy(ctx, forgetKeys, sqldb.Time(before))
	return err
}

const (
	forgetAudit = `
DELETE FROM audit WHERE key IN (SELECT key FROM audit WHERE project_id = ? AND at < ? ORDER BY at, key LIMIT ?)`

	countOldAudit = `
SELECT count(*) FROM audit WHERE project_id = ? AND at < ?`
)

// ForgetAudit deletes a project's audit rows before a time and returns their number; with dry it only counts.
func (r Retention) ForgetAudit(ctx context.Context, project string, before time.Time, dry bool) (n int, err error) {
	if dry {
		return sqldb.One(ctx, r.read, sqldb.Scalar[int], countOldAudit, project, sqldb.Time(before))
	}
	return r.w.Tidy(ctx, forgetAudit, project, sqldb.Time(before))
}

// ExpireAttachments implements [data.Retainer].
func (r Retention) ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (int, error) {
	return Attachments{r.beside}.ExpireAttachments(ctx, project, user, before, dry)
}
