package storage

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime"
)

const stepColumns = `run_key, number, id, generation, node_id, name, execution, status, input, output, error,
	started_at, completed_at`

const (
	upsertStep = `
INSERT INTO steps (` + stepColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_key, number) DO UPDATE SET
	id = excluded.id, generation = excluded.generation, node_id = excluded.node_id, name = excluded.name,
	execution = excluded.execution, status = excluded.status, input = excluded.input,
	output = excluded.output, error = excluded.error, started_at = excluded.started_at,
	completed_at = excluded.completed_at`

	selectSteps = `
SELECT ` + stepColumns + ` FROM steps WHERE run_key = ? AND number > ? ORDER BY number LIMIT ?`

	countSteps = `
SELECT count(*) FROM (SELECT 1 FROM steps WHERE run_key = ? LIMIT ?) AS counted`

	selectOpenSteps = `
SELECT ` + stepColumns + ` FROM steps
WHERE run_key = ? AND status IN ('RUNNING', 'WAITING') ORDER BY number LIMIT 10000`
)

func stepArgs(s *runtime.Step) []any {
	return []any{
		s.RunKey, s.Number, s.ID, s.Generation, s.NodeID, s.Name, s.Execution, string(s.Status), s.Input,
		s.Output, jsonOf(s.Error), ms(s.StartedAt), msOrNull(s.CompletedAt),
	}
}

func scanStep(rows *sql.Rows) (s runtime.Step, err error) {
	err = rows.Scan(&s.RunKey, &s.Number, &s.ID, &s.Generation, &s.NodeID, &s.Name, &s.Execution, &s.Status,
		&s.Input, &s.Output, jsonInto{&s.Error}, timeInto{&s.StartedAt}, timePtrInto{&s.CompletedAt})
	return s, err
}

// Steps lists a run's steps with a number above after, by number, and counts all, up to 10 000.
func (r reader) Steps(ctx context.Context, runKey int64, after, limit int) ([]runtime.Step, int, error) {
	total, err := one(ctx, r.q, scalar[int], countSteps, runKey, maxCount)
	if err != nil {
		return nil, 0, err
	}
	steps, err := all(ctx, r.q, scanStep, selectSteps, runKey, after, limit)
	return steps, total, err
}

// OpenSteps returns the run's steps that are RUNNING or WAITING.
func (r reader) OpenSteps(ctx context.Context, runKey int64) ([]runtime.Step, error) {
	return all(ctx, r.q, scanStep, selectOpenSteps, runKey)
}

const nodeColumns = `run_key, node_id, status, progress, messages, output, error, started_at, completed_at`

const (
	upsertNode = `
INSERT INTO node_states (` + nodeColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_key, node_id) DO UPDATE SET
	status = excluded.status, progress = excluded.progress, messages = excluded.messages,
	output = excluded.output, error = excluded.error, started_at = excluded.started_at,
	completed_at = excluded.completed_at`

	selectNodes = `
SELECT ` + nodeColumns + ` FROM node_states WHERE run_key = ? ORDER BY node_id LIMIT 10000`
)

func nodeArgs(n *runtime.Node) []any {
	return []any{
		n.RunKey, n.NodeID, string(n.Status), n.Progress, jsonOf(n.Messages), raw(n.Output), jsonOf(n.Error),
		msOrNull(n.StartedAt), msOrNull(n.CompletedAt),
	}
}

func scanNode(rows *sql.Rows) (n runtime.Node, err error) {
	err = rows.Scan(&n.RunKey, &n.NodeID, &n.Status, &n.Progress, jsonInto{&n.Messages}, rawInto{&n.Output},
		jsonInto{&n.Error}, timePtrInto{&n.StartedAt}, timePtrInto{&n.CompletedAt})
	return n, err
}

// Nodes returns the states of the run's nodes, by their ids.
func (r reader) Nodes(ctx context.Context, runKey int64) ([]runtime.Node, error) {
	return all(ctx, r.q, scanNode, selectNodes, runKey)
}
