package storage

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// The only step of a single agent's run usually begins and ends with the run, and says what the run's row says. Then it has no row: the
// run's row has its id and its times, and implies the rest and the state of its node. A row in steps replaces the implied step. It is
// written when the step differs from the run, and before the run's row changes without the step.

const (
	impliedColumns = `
SELECT r.key, 1, r.step_id, r.generation, r.agent, r.agent, 1, r.status, i.input_query,
	CASE r.status WHEN 'COMPLETED' THEN r.output_summary END, r.error, r.step_started_at, r.step_completed_at`

	fromImplied = `
FROM runs r JOIN run_inputs i ON i.run_key = r.key
WHERE r.step_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.run_key = r.key)`

	selectImplied = impliedColumns + fromImplied + ` AND r.key = ?`

	selectImpliedOfProject = selectImplied + ` AND r.project_id = ?`

	// insertImplied writes the rows of steps that runs imply.
	insertImplied = `
INSERT INTO steps (` + stepColumns + `, tells_node)` + impliedColumns + `, TRUE` + fromImplied + ` AND r.key = ANY (?)`

	// upsertEnded is upsertStep for a step that ends with its run. It writes no row if the run implies the step.
	upsertEnded = `
INSERT INTO steps (` + stepColumns + `, tells_node)
SELECT ` + stepParams + `
WHERE NOT EXISTS (SELECT 1` + fromImplied + ` AND r.key = ?::bigint AND r.step_id = ?::text
	AND r.generation = ?::bigint AND r.step_started_at = ?::timestamptz AND i.input_query = ?::text)` + replaceStep
)

func endedStepCells(s *data.Step) []any {
	return append(tellingCells(&telling{*s, true}), s.RunKey, s.ID, s.Generation, ms(s.StartedAt), s.Input)
}

// implied are the pending steps that their runs imply, by run.
type implied map[int64]*data.Step

// implied finds the pending steps that their runs imply.
func (p *pending) implied() implied {
	var im implied
	for i := range p.steps.rows {
		s := &p.steps.rows[i]
		n := p.nodes.get(label{s.RunKey, s.NodeID})
		if n == nil || !tells(s, n) {
			continue
		}
		var ok bool
		if run := p.runs.get(s.RunKey); run != nil {
			ok = s.Input == run.InputQuery && implies(&run.RunHead, run.OutputSummary, s)
		} else if head, result := p.heads.get(s.RunKey), p.results.get(s.RunKey); head != nil && result != nil {
			ok = head.Status.Final() && implies(head, result.OutputSummary, s)
		}
		if ok && im == nil {
			im = make(implied)
		}
		if ok {
			im[s.RunKey] = s
		}
	}
	return im
}

// implies reports whether a run's row implies the step, apart from its input, its id and its times.
func implies(run *data.RunHead, output *string, s *data.Step) bool {
	if s.Status != data.Completed {
		output = nil
	}
	return s.Number == 1 && s.Execution == 1 && s.Generation == run.Generation && s.ID != "" && run.Agent != "" && s.NodeID == run.Agent &&
		s.Name == run.Agent && s.Status == run.Status && s.Error == run.Error && (s.Output == nil) == (output == nil) && (output == nil || *s.Output == *output)
}

// writeImplied writes the rows of stored steps that their runs will no longer imply.
func (tx *commitTx) writeImplied() error {
	p := tx.pending
	var runs []int64
	add := func(run int64) {
		if p.runs.get(run) == nil && !slices.Contains(runs, run) {
			runs = append(runs, run)
		}
	}
	for i := range p.heads.rows {
		if h := &p.heads.rows[i]; h.Agent != "" && p.steps.get(ordinal{h.Key, 1}) == nil {
			add(h.Key)
		}
	}
	for i := range p.results.rows {
		if key := p.results.rows[i].Key; p.heads.get(key) == nil {
			add(key)
		}
	}
	stepOf := make(map[label]bool, len(p.steps.rows))
	for i := range p.steps.rows {
		s := &p.steps.rows[i]
		key := label{s.RunKey, s.NodeID}
		if stepOf[key] = true; p.nodes.get(key) == nil {
			add(s.RunKey)
		}
	}
	for i := range p.nodes.rows {
		if n := &p.nodes.rows[i]; !stepOf[label{n.RunKey, n.NodeID}] {
			add(n.RunKey)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return tx.exec(insertImplied, tx.d.list(runs))
}

// begunRun is a new run with the step that it implies.
type begunRun struct {
	*data.Run
	step *data.Step // nil for none
}

func begunCells(r *begunRun) []any {
	cells := runCells(r.Run)
	if r.step == nil {
		return append(cells, nil, nil, nil)
	}
	return append(cells, r.step.ID, ms(r.step.StartedAt), msOrNull(r.step.CompletedAt))
}

// completedAt returns when the run's implied step ended, nil if it has none.
func (im implied) completedAt(run int64) *time.Time {
	if s := im[run]; s != nil {
		return s.CompletedAt
	}
	return nil
}

// impliedStep returns the step that a run implies, or none.
func impliedStep(ctx context.Context, q querier, query string, args ...any) ([]data.Step, error) {
	return all(ctx, q, func(rows *sql.Rows) (data.Step, error) { return scanStepAnd(rows) }, query, args...)
}

// nodesOf returns the states of the nodes of implied steps.
func nodesOf(steps []data.Step) (list []data.Node) {
	for i := range steps {
		s := &steps[i]
		n := data.Node{
			RunKey: s.RunKey, NodeID: s.NodeID, Status: s.Status, Output: toldOutput(s), Error: s.Error, StartedAt: &s.StartedAt, CompletedAt: s.CompletedAt,
		}
		if s.Status == data.Completed {
			n.Progress = 1
		}
		list = append(list, n)
	}
	return list
}
