package rows

import (
	"context"
	"database/sql"
	"slices"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const stepColumns = `run_key, number, id, generation, node_id, name, item, execution, round, status, input, output, error,
	started_at, completed_at`

const (
	upsertStep = `
INSERT INTO steps (` + stepColumns + `, tells_node)
VALUES (?::bigint, ?::bigint, ?::text, ?::bigint, ?::text, ?::text, ?::text, ?::bigint, ?::bigint, ?::text, ?::text, ?::text, ?::text,
	?::timestamptz, ?::timestamptz, ?::boolean)
ON CONFLICT (run_key, number) DO UPDATE SET
	id = excluded.id, generation = excluded.generation, node_id = excluded.node_id, name = excluded.name,
	item = excluded.item, execution = excluded.execution, round = excluded.round, status = excluded.status, input = excluded.input,
	output = excluded.output, error = excluded.error, started_at = excluded.started_at,
	completed_at = excluded.completed_at, tells_node = excluded.tells_node`

	selectSteps = selectStepsBy + countSteps + fromSteps + ` number > ?` + pageOfSteps

	// selectNodeSteps looks for the steps of one node among all of the run.
	selectNodeSteps = selectStepsBy + countNodeSteps + fromSteps + ` node_id = ? AND number > ?` + pageOfSteps

	selectStepsBy = `
SELECT ` + stepColumns + `, (`
	fromSteps = `), sized.found
FROM (SELECT sized_run, at, found
	FROM (SELECT sized_run, at, sum(size) OVER (ORDER BY at) - size AS behind, count(*) OVER () AS found
		FROM (SELECT run_key AS sized_run, number AS at, octet_length(input) + COALESCE(octet_length(output), 0) AS size FROM steps
			WHERE run_key = ` + runOfProject + ` AND`
	pageOfSteps = ` ORDER BY number LIMIT ?) AS plain) AS counted
	WHERE behind < ? ORDER BY at` + sqldb.SizedFirst + `
JOIN steps ON run_key = sized_run AND number = at ORDER BY at`

	// Steps are numbered from 1 without gaps.
	countSteps = `
SELECT COALESCE(max(number), 0) FROM steps WHERE run_key = ` + runOfProject

	countNodeSteps = `
SELECT count(*) FROM steps WHERE run_key = ` + runOfProject + ` AND node_id = ?`
)

func stepCells(s *data.Step) []any {
	return []any{
		s.RunKey, s.Number, s.ID, s.Generation, s.NodeID, s.Name, sqldb.JSON(s.Item), s.Execution, s.Round, string(s.Status), s.Input,
		s.Output, sqldb.JSON(s.Error), sqldb.Time(s.StartedAt), sqldb.Time(s.CompletedAt),
	}
}

func scanStepAnd(rows *sql.Rows, more ...any) (s data.Step, err error) {
	return sqldb.Scan(rows, &s, append([]any{
		&s.RunKey, &s.Number, &s.ID, &s.Generation, &s.NodeID, &s.Name, sqldb.Into(&s.Item), &s.Execution, &s.Round, &s.Status,
		&s.Input, &s.Output, sqldb.Into(&s.Error), sqldb.Into(&s.StartedAt), sqldb.Into(&s.CompletedAt),
	}, more...)...)
}

// Steps lists the steps of a run, or of one node of it, with a number above after, by number.
func (r *Project) Steps(ctx context.Context, project string, runKey int64, node string, after, limit int) (data.Page[data.Step], error) {
	query, count, of := selectSteps, countSteps, []any{runKey, project}
	if node != "" {
		query, count, of = selectNodeSteps, countNodeSteps, append(of, node)
	}
	p, err := sqldb.PageOf(ctx, r.q, scanStepAnd, data.PageBytes, limit, query, slices.Concat(of, of, []any{after})...)
	p, err = sqldb.Counted(ctx, r.q, p, err, true, count, of...)
	p.Counted = err == nil // however many they are
	return p, err
}
