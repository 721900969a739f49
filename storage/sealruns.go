package storage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/batonrun/baton/runtime/model"
)

// A run that ended a day ago is sealed: what only its detail shows (its input and answer, its steps and nodes, which
// repeat each other) leaves the tables and becomes one compressed row. What finds and lists runs stays. A run that goes
// on from there, because a message was appended to it, gets its rows back first.

const (
	// selectSealableRuns reads runs that are not sealed, oldest first, and whether they can be.
	selectSealableRuns = `
SELECT r.key, r.created_at, r.status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND r.finished_at < ?
FROM (SELECT run_key FROM run_inputs WHERE run_key > ? ORDER BY run_key LIMIT 200) AS plain
JOIN runs r ON r.key = plain.run_key
ORDER BY plain.run_key`

	sizeOfPlainRun = `
SELECT (` + countAllSteps + `), octet_length(input_query) + COALESCE(octet_length(input), 0) + COALESCE(octet_length(definition), 0)
	+ (SELECT COALESCE(sum(octet_length(input) + COALESCE(octet_length(output), 0)), 0) FROM steps WHERE run_key = ?)
	+ (SELECT COALESCE(sum(octet_length(output)), 0) FROM node_states WHERE run_key = ?)
FROM run_inputs WHERE run_key = ?`

	// takeInput is the lock of a run that is sealed: nobody else seals it, and it has not gone on since it was read.
	takeInput = `
DELETE FROM run_inputs WHERE run_key = ? AND EXISTS (
	SELECT 1 FROM runs WHERE key = ? AND status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND finished_at < ? FOR UPDATE)`

	insertSealedRun = `
INSERT INTO sealed_runs (run_key, data)
VALUES (?, ?)`

	takeSteps = `
DELETE FROM steps WHERE run_key = ?`

	takeNodes = `
DELETE FROM node_states WHERE run_key = ?`

	setAnswer = `
UPDATE runs SET output_summary = ?::text
WHERE key = ?::bigint`

	selectSealedRun = `
SELECT data FROM sealed_runs WHERE run_key = ?`

	selectSealedOfProject = `
SELECT data FROM sealed_runs WHERE run_key = ` + runOfProject

	selectSealedRuns = `
SELECT run_key, data FROM sealed_runs WHERE run_key = ANY (?)`

	deleteSealedRun = `
DELETE FROM sealed_runs WHERE run_key = ?`
)

const (
	maxSealedSteps = 1000    // keeps runs small that are read whole for one of their steps
	maxSealed      = 8 << 20 // bytes before compression, likewise
	maxTogether    = 16      // runs that one transaction seals
	maxSealing     = 2 << 20 // bytes before compression of such runs, when they are several: commits wait for it
)

// sealedRun is what sealed_runs holds, as JSON, compressed. JSON of others is text in it, which keeps it as it is.
type sealedRun struct {
	Input          *string      `json:",omitempty"`
	Definition     *string      `json:",omitempty"`
	InputQuery     string       `json:",omitempty"`
	OutputSummary  *string      `json:",omitempty"`
	ContextItemIDs []string     `json:",omitempty"`
	Metadata       *string      `json:",omitempty"`
	ParentRun      string       `json:",omitempty"`
	Steps          []model.Step `json:",omitempty"`
	Nodes          []sealedNode `json:",omitempty"`
}

type sealedNode struct {
	model.Node
	Output *string `json:",omitempty"` // in the place of the node's
}

// commonText is what sealed runs have in common, so that none of them holds it. It cannot be changed any more.
const commonText = `,"Metadata":"{\"","ParentRun":"","ContextItemIDs":["` +
	`"Status":"CANCELLED","Error":{"code":"cancelled","message":"The run was cancelled"},` +
	`"Status":"FAILED","Error":{"code":"internal","message":"` +
	`{"Input":"{}","Definition":"{\"nodes\":[{\"id\":\"","InputQuery":"","OutputSummary":"","Steps":[{"RunKey":0,"Number":1,"ID":"01` +
	`","Generation":1,"NodeID":"main","Name":"main","Execution":1,"Status":"COMPLETED","Input":"","Output":"","Error":null,` +
	`"StartedAt":"2027-01-01T12:00:00.000Z","CompletedAt":"2026-12-31T12:00:00.000Z"},{"RunKey":0,"Number":2,"ID":"` +
	`"}],"Nodes":[{"RunKey":0,"NodeID":"main","Status":"COMPLETED","Progress":1,"Messages":null,"Error":null,` +
	`"StartedAt":"2026-11-30T12:00:00.000Z","CompletedAt":"2026-10-31T12:00:00.000Z","Output":"{\"status\":\"success\",\"answer\":\"` +
	`\"}"},{"RunKey":0,"NodeID":"\"}"}]}`

// commonID is how zstd's frames name commonText.
const commonID = 1

func newRunZip() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true),
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderDictRaw(commonID, []byte(commonText)))
}

func (r reader) unsealed(data []byte) (s sealedRun, err error) {
	text, err := r.z.DecodeAll(data, nil)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		err = fmt.Errorf("sealed run: %w", err)
	}
	return s, err
}

// plainSize is how much was sealed, as the head of its frame says: a thousand times what it is now, perhaps.
func plainSize(data []byte) int {
	var h zstd.Header
	if len(data) == 0 || h.Decode(data) != nil || !h.HasFCS {
		return len(data)
	}
	return int(min(h.FrameContentSize, math.MaxInt32))
}

// newSealedRun is the run as it is sealed.
func newSealedRun(run *model.Run, steps []model.Step, nodes []model.Node) *sealedRun {
	s := &sealedRun{
		Input: textOf(run.Input), Definition: textOf(run.Definition), InputQuery: run.InputQuery,
		OutputSummary: run.OutputSummary, ContextItemIDs: run.ContextItemIDs, Metadata: textOf(run.Metadata),
		ParentRun: run.ParentRun, Steps: steps,
	}
	for i := range s.Steps {
		s.Steps[i].RunKey = 0
	}
	for _, n := range nodes {
		n.RunKey = 0
		s.Nodes = append(s.Nodes, sealedNode{n, textOf(n.Output)})
	}
	return s
}

// fill gives the run what it was sealed with.
func (s *sealedRun) fill(run *model.Run) {
	run.Input, run.Definition, run.InputQuery = rawOf(s.Input), rawOf(s.Definition), s.InputQuery
	run.OutputSummary, run.ContextItemIDs = s.OutputSummary, s.ContextItemIDs
	run.Metadata, run.ParentRun = rawOf(s.Metadata), s.ParentRun
}

func (s *sealedRun) steps(runKey int64) []model.Step {
	for i := range s.Steps {
		s.Steps[i].RunKey = runKey
	}
	return s.Steps
}

func (s *sealedRun) nodes(runKey int64) (list []model.Node) {
	for _, n := range s.Nodes {
		n.RunKey, n.Node.Output = runKey, rawOf(n.Output)
		list = append(list, n.Node)
	}
	return list
}

func textOf(text json.RawMessage) *string {
	if len(text) == 0 {
		return nil
	}
	return new(string(text))
}

func rawOf(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}

// sealRuns seals runs that ended a day ago, a few at once. A run that cannot be sealed stays as it is.
func (db *DB) sealRuns(ctx context.Context, now time.Time) error {
	type sealable struct {
		key     int64
		created time.Time
		over    sql.NullBool
	}
	before := ms(now.Add(-keepAfter))
	for after := int64(0); ; {
		list, err := all(ctx, db.read, func(rows *sql.Rows) (s sealable, err error) {
			err = rows.Scan(&s.key, timeInto{&s.created}, &s.over)
			return s, err
		}, selectSealableRuns, before, after)
		if err != nil {
			return fmt.Errorf("seal runs: %w", err)
		}
		if len(list) == 0 || list[0].created.After(before) { // nor are those behind it
			return nil
		}
		var keys []int64
		for _, s := range list {
			if s.over.Bool {
				keys = append(keys, s.key)
			}
		}
		if err := db.sealTheseRuns(ctx, keys, before); err != nil {
			return err
		}
		after = list[len(list)-1].key
	}
}

// sealTheseRuns seals runs, as many in one transaction as commits may wait for.
func (db *DB) sealTheseRuns(ctx context.Context, keys []int64, before time.Time) error {
	var together []sealedRow
	size := 0
	for _, key := range keys {
		row, plain, err := db.readToSeal(ctx, key)
		if err := db.sealFailed(ctx, key, err); err != nil {
			return err
		}
		if row.data == nil {
			continue
		}
		if len(together) == maxTogether || len(together) > 0 && size+plain > maxSealing {
			if err := db.sealTogether(ctx, together, before); err != nil {
				return err
			}
			together, size = nil, 0
		}
		together, size = append(together, row), size+plain
	}
	return db.sealTogether(ctx, together, before)
}

// sealTogether seals runs in one transaction, or each in its own when one of them cannot be sealed.
func (db *DB) sealTogether(ctx context.Context, rows []sealedRow, before time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	err := db.writeSealed(ctx, rows, before)
	if err == nil || len(rows) == 1 {
		return db.sealFailed(ctx, rows[0].run, err)
	}
	for i := range rows {
		if err := db.sealTogether(ctx, rows[i:i+1], before); err != nil {
			return err
		}
	}
	return nil
}

// sealFailed tells that a run could not be sealed, and returns err when nor can the others.
func (db *DB) sealFailed(ctx context.Context, key int64, err error) error {
	if err == nil {
		return nil
	}
	if db.hinders(ctx, err) {
		return fmt.Errorf("seal run %d: %w", key, err)
	}
	db.cfg.Log.Error("a run was not sealed", "run", key, "error", err)
	return nil
}

func (db *DB) writeSealed(ctx context.Context, rows []sealedRow, before time.Time) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.tidyUp(ctx, func(tx *tx) error {
		for _, row := range rows {
			if err := tx.sealRun(row.run, row.data, before); err != nil {
				return err
			}
		}
		return nil
	})
}

// readToSeal returns what a run is sealed as, without data when it is not to be sealed, and its size before compression.
func (db *DB) readToSeal(ctx context.Context, key int64) (row sealedRow, plain int, err error) {
	small, err := one(ctx, db.read, func(rows *sql.Rows) (bool, error) {
		var steps, bytes int
		err := rows.Scan(&steps, &bytes)
		return steps <= maxSealedSteps && bytes <= maxSealed, err
	}, sizeOfPlainRun, key, key, key, key)
	if errors.Is(err, model.ErrNotFound) {
		return row, 0, nil
	}
	if err != nil || !small {
		return row, 0, err
	}
	run, err := db.Run(ctx, key)
	if errors.Is(err, model.ErrNotFound) {
		return row, 0, nil
	}
	if err != nil {
		return row, 0, err
	}
	var steps []model.Step
	for more := true; more; {
		p, err := db.Steps(ctx, run.Project, key, len(steps), maxSealedSteps)
		if err != nil || p.Total > maxSealedSteps {
			return row, 0, err
		}
		steps, more = append(steps, p.Rows...), p.More
	}
	nodes, err := db.Nodes(ctx, key)
	if err != nil {
		return row, 0, err
	}
	text, err := json.Marshal(newSealedRun(&run, steps, nodes))
	if err != nil {
		return row, 0, err
	}
	return sealedRow{key, db.zipRuns.EncodeAll(text, nil)}, len(text), nil
}

func (tx *tx) sealRun(key int64, data []byte, before time.Time) error {
	if n, err := tx.count(takeInput, key, key, before); n == 0 {
		return err
	}
	return cmp.Or(
		tx.exec(insertSealedRun, key, data), tx.exec(takeSteps, key), tx.exec(takeNodes, key), tx.exec(setAnswer, nil, key),
	)
}

// sealedRow is a row of sealed_runs.
type sealedRow struct {
	run  int64
	data []byte
}

// unseal gives those of the runs their rows back that are queued again after they were sealed.
func (tx *tx) unseal(heads []model.RunHead) error {
	var queued [][]any
	for i := range heads {
		if heads[i].Status == model.Queued {
			queued = append(queued, []any{heads[i].Key})
		}
	}
	list, err := find(tx, func(rows *sql.Rows) (r sealedRow, err error) {
		err = rows.Scan(&r.run, &r.data)
		return r, err
	}, selectSealedRuns, queued)
	if err != nil {
		return err
	}
	for _, row := range list {
		s, err := tx.unsealed(row.data)
		if err != nil {
			return tx.fail(err)
		}
		run := model.Run{RunHead: model.RunHead{Key: row.run}}
		s.fill(&run)
		write(tx, []model.Run{run}, insertInput, inputCells)
		write(tx, s.steps(row.run), upsertStep, silentCells)
		write(tx, s.nodes(row.run), upsertNode, nodeCells)
		if err := cmp.Or(tx.err, tx.exec(setAnswer, run.OutputSummary, row.run), tx.exec(deleteSealedRun, row.run)); err != nil {
			return err
		}
	}
	return nil
}

// sealed returns what the run was sealed with, or ErrNotFound.
func (r reader) sealed(ctx context.Context, runKey int64) (sealedRun, error) {
	return r.sealedBy(ctx, selectSealedRun, runKey)
}

// sealedOf is sealed for a project's run.
func (r reader) sealedOf(ctx context.Context, project string, runKey int64) (sealedRun, error) {
	return r.sealedBy(ctx, selectSealedOfProject, runKey, project)
}

func (r reader) sealedBy(ctx context.Context, query string, args ...any) (s sealedRun, err error) {
	data, err := one(ctx, r.q, scalar[[]byte], query, args...)
	if err != nil {
		return s, err
	}
	s, err = r.unsealed(data)
	if err != nil {
		err = r.q.failed(ctx, err)
	}
	return s, err
}

// sealedSteps returns a page of the steps of a run that was sealed, or ErrNotFound.
func (r reader) sealedSteps(ctx context.Context, project string, runKey int64, after, limit int) (model.Page[model.Step], error) {
	s, err := r.sealedOf(ctx, project, runKey)
	if err != nil {
		return model.Page[model.Step]{}, err
	}
	p := model.Page[model.Step]{Total: len(s.Steps)}
	size := 0
	for _, step := range s.steps(runKey) {
		if step.Number <= after {
			continue
		}
		if p.More = len(p.Rows) == limit || size >= model.PageBytes; p.More {
			break
		}
		p.Rows = append(p.Rows, step)
		size += sizeOfStep(&step)
	}
	return p, nil
}
