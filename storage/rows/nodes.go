package rows

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// The latest step of a node usually implies the node's state. Then the step has tells_node set and the node has no row, or an
// outdated one. Otherwise the node's row has the state.

const toldColumns = `status, round, CASE status WHEN 'COMPLETED' THEN 1.0 ELSE 0.0 END, NULL, output, NULL, error, started_at, completed_at,
	number`

const nodeColumns = `run_key, node_id, status, round, progress, messages, output, map, error, started_at, completed_at`

const (
	upsertNode = `
INSERT INTO node_states (` + nodeColumns + `)
VALUES (?::bigint, ?::text, ?::text, ?::bigint, ?::float8, ?::text, ?::text, ?::text, ?::text, ?::timestamptz, ?::timestamptz)
ON CONFLICT (run_key, node_id) DO UPDATE SET
	status = excluded.status, round = excluded.round, progress = excluded.progress, messages = excluded.messages,
	output = excluded.output, map = excluded.map, error = excluded.error, started_at = excluded.started_at,
	completed_at = excluded.completed_at`

	// silenceSteps makes a node's row the one with its state.
	silenceSteps = `
UPDATE steps SET tells_node = FALSE
WHERE run_key = ?::bigint AND node_id = ?::text AND tells_node`

	// selectTold reads the states of nodes that steps imply.
	selectTold = `
SELECT run_key, node_id, ` + toldColumns + `
FROM steps WHERE run_key = ANY (?) AND tells_node
ORDER BY run_key, number`

	// selectNodes reads the rows of nodes whose state no step implies, and the steps that imply the state of the others. The latest
	// of a node's steps counts.
	selectNodes = `
SELECT ` + nodeColumns + `, 0 FROM node_states n
WHERE run_key = ? AND NOT EXISTS (
	SELECT 1 FROM steps s WHERE s.run_key = n.run_key AND s.node_id = n.node_id AND s.tells_node)
UNION ALL
SELECT run_key, node_id, ` + toldColumns + `
FROM steps WHERE run_key = ? AND tells_node
ORDER BY 2, 12 LIMIT ?`

	// selectNodeStates is selectNodes without outputs.
	selectNodeStates = `
SELECT run_key, node_id, status, round, progress, messages, NULL, map, error, started_at, completed_at, 0 FROM node_states n
WHERE run_key = ` + runOfProject + ` AND NOT EXISTS (
	SELECT 1 FROM steps s WHERE s.run_key = n.run_key AND s.node_id = n.node_id AND s.tells_node)
UNION ALL
SELECT run_key, node_id, status, round, CASE status WHEN 'COMPLETED' THEN 1.0 ELSE 0.0 END, NULL, NULL, NULL, error, started_at,
	completed_at, number
FROM steps WHERE run_key = ` + runOfProject + ` AND tells_node
ORDER BY 2, 12 LIMIT ?`
)

func nodeCells(n *data.Node) []any {
	return []any{
		n.RunKey, n.NodeID, string(n.Status), n.Round, n.Progress, sqldb.JSON(n.Messages), sqldb.JSON(n.Output), sqldb.JSON(n.Map), sqldb.JSON(n.Error),
		sqldb.Time(n.StartedAt), sqldb.Time(n.CompletedAt),
	}
}

// telling is a step with its tells_node.
type telling struct {
	data.Step
	node bool
}

func tellingCells(s *telling) []any { return append(stepCells(&s.Step), s.node) }

// tells reports that the step implies the node's state.
func tells(s *data.Step, n *data.Node) bool {
	progress := 0.0
	if s.Status == data.Completed {
		progress = 1
	}
	return n.Map == nil && n.Status == s.Status && n.Round == s.Round && n.Progress == progress && len(n.Messages) == 0 && n.Error == s.Error &&
		same(n.StartedAt, &s.StartedAt) && same(n.CompletedAt, s.CompletedAt) && bytes.Equal(n.Output, toldOutput(s))
}

func same(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Truncate(time.Millisecond).Equal(b.Truncate(time.Millisecond))
}

// toldOutput is the output of a node that consists of its step's answer alone.
func toldOutput(s *data.Step) json.RawMessage {
	if s.Status != data.Completed || s.Output == nil {
		return nil
	}
	text, err := json.Marshal(agui.WorkerOutput{Status: agui.StatusSuccess, Answer: *s.Output})
	if err != nil {
		panic(err) // it is two strings
	}
	return text
}

// writeSteps writes the pending steps and nodes.
func (tx *Tx) writeSteps() error {
	p := tx.pending
	if len(p.steps.rows)+len(p.nodes.rows) == 0 {
		return tx.Err()
	}
	steps, latest := make([]telling, len(p.steps.rows)), make(map[label]int, len(p.steps.rows))
	for i := range p.steps.rows {
		s := &p.steps.rows[i]
		steps[i], latest[label{s.RunKey, s.NodeID}] = telling{Step: *s}, i
	}
	nodes, err := tx.toldNodes(latest)
	if err != nil {
		return err
	}
	for i := range p.nodes.rows {
		n := &p.nodes.rows[i]
		if at, ok := latest[label{n.RunKey, n.NodeID}]; ok && tells(&steps[at].Step, n) {
			steps[at].node = true
		} else {
			nodes = append(nodes, *n)
		}
	}
	known := slices.DeleteFunc(slices.Clone(nodes), func(n data.Node) bool { return p.runs.get(n.RunKey) != nil })
	sqldb.Write(tx.Tx, known, silenceSteps, nodeKeyCells)
	sqldb.Write(tx.Tx, steps, upsertStep, tellingCells)
	sqldb.Write(tx.Tx, nodes, upsertNode, nodeCells)
	return tx.Err()
}

// toldNodes returns the nodes whose state is implied by a step that is about to change while the node does not.
func (tx *Tx) toldNodes(steps map[label]int) ([]data.Node, error) {
	var runs [][]any
	for key := range steps {
		if tx.pending.nodes.get(key) == nil && tx.pending.runs.get(key.of) == nil {
			runs = append(runs, []any{key.of})
		}
	}
	list, err := sqldb.Find(tx.Context(), tx, scanNode, selectTold, runs)
	var told table[label, data.Node] // the latest step of a node counts
	for i := range list {
		key := label{list[i].RunKey, list[i].NodeID}
		if _, ok := steps[key]; ok && tx.pending.nodes.get(key) == nil {
			told.put(key, &list[i])
		}
	}
	return told.rows, err
}

func nodeKeyCells(n *data.Node) []any { return []any{n.RunKey, n.NodeID} }

func scanNode(rows *sql.Rows) (n data.Node, err error) {
	var output sql.NullString
	var step int
	err = rows.Scan(&n.RunKey, &n.NodeID, &n.Status, &n.Round, &n.Progress, sqldb.Into(&n.Messages), &output, sqldb.Into(&n.Map), sqldb.Into(&n.Error),
		sqldb.Into(&n.StartedAt), sqldb.Into(&n.CompletedAt), &step)
	switch {
	case !output.Valid:
	case step == 0:
		n.Output = json.RawMessage(output.String)
	default:
		n.Output = toldOutput(&data.Step{Status: n.Status, Output: &output.String})
	}
	return n, err
}

// Nodes returns the states of the run's nodes, by their ids.
func (r *Reader) Nodes(ctx context.Context, runKey int64) ([]data.Node, error) {
	return latestNodes(ctx, r.q, selectNodes, runKey, runKey)
}

// NodeStates is Nodes of a project's run, without their outputs.
func (r *Project) NodeStates(ctx context.Context, project string, runKey int64) ([]data.Node, error) {
	return latestNodes(ctx, r.q, selectNodeStates, runKey, project, runKey, project)
}

// latestNodes reads nodes, ordered by id and step, and returns the latest state of each.
func latestNodes(ctx context.Context, q sqldb.Querier, query string, args ...any) ([]data.Node, error) {
	nodes, err := sqldb.Whole(ctx, q, scanNode, sqldb.MaxCount, query, args...)
	slices.Reverse(nodes)
	nodes = slices.CompactFunc(nodes, func(a, b data.Node) bool { return a.NodeID == b.NodeID })
	slices.Reverse(nodes)
	return nodes, err
}
