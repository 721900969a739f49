package storage

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

	// takeInput is the lock of a run that is sealed: nobody else seals it, and it has not gone on since it was read.
	takeInput = `
DELETE FROM run_inputs WHERE run_key = ? AND EXISTS (
	SELECT 1 FROM runs WHERE key = ? AND status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND finished_at < ?)`

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

	selectSealedRuns = `
SELECT run_key, data FROM sealed_runs WHERE run_key = ANY (?)`

	deleteSealedRun = `
DELETE FROM sealed_runs WHERE run_key = ?`
)

// maxSealedSteps keeps runs small that are read whole for one of their steps.
const maxSealedSteps = 1000

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

// seal returns the run as its row in sealed_runs.
func (s *sealedRun) seal(z *zstd.Encoder) ([]byte, error) {
	text, err := json.Marshal(s)
	return z.EncodeAll(text, nil), err
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
		if err != nil || len(list) == 0 || list[0].created.After(before) { // nor are those behind it
			return err
		}
		var keys []int64
		for _, s := range list {
			if s.over.Bool {
				keys = append(keys, s.key)
			}
		}
		for some := range slices.Chunk(keys, 16) {
			if err := db.sealSomeRuns(ctx, some, before); err != nil {
				return err
			}
		}
		after = list[len(list)-1].key
	}
}

func (db *DB) sealSomeRuns(ctx context.Context, keys []int64, before time.Time) error {
	sealed := make(map[int64][]byte)
	for _, key := range keys {
		data, err := db.readToSeal(ctx, key)
		if err != nil {
			return err
		}
		if data != nil {
			sealed[key] = data
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.transact(ctx, func(tx *tx) error {
		for _, key := range keys {
			if sealed[key] == nil {
				continue
			}
			if err := tx.sealRun(key, sealed[key], before); err != nil {
				return err
			}
		}
		return nil
	})
}

// readToSeal returns what a run is sealed as, nil when it is not to be sealed.
func (db *DB) readToSeal(ctx context.Context, key int64) ([]byte, error) {
	run, err := db.Run(ctx, key)
	if errors.Is(err, model.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	steps, total, err := db.Steps(ctx, key, 0, maxSealedSteps)
	if err != nil || total > len(steps) {
		return nil, err
	}
	nodes, err := db.Nodes(ctx, key)
	if err != nil {
		return nil, err
	}
	data, err := newSealedRun(&run, steps, nodes).seal(db.zipRuns)
	if err != nil {
		db.cfg.Log.Error("a run was not sealed", "run", run.ID, "error", err)
		return nil, nil
	}
	return data, nil
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
		write(tx, s.steps(row.run), upsertStep, stepCells)
		write(tx, s.nodes(row.run), upsertNode, nodeCells)
		if err := cmp.Or(tx.err, tx.exec(setAnswer, run.OutputSummary, row.run), tx.exec(deleteSealedRun, row.run)); err != nil {
			return err
		}
	}
	return nil
}

// sealed returns what the run was sealed with, or ErrNotFound.
func (r reader) sealed(ctx context.Context, runKey int64) (s sealedRun, err error) {
	data, err := one(ctx, r.q, scalar[[]byte], selectSealedRun, runKey)
	if err != nil {
		return s, err
	}
	s, err = r.unsealed(data)
	if err != nil {
		err = r.q.failed(ctx, err)
	}
	return s, err
}

// sealedSteps returns a page of the steps of a run that was sealed, and how many there are.
func (r reader) sealedSteps(ctx context.Context, runKey int64, after, limit int) ([]model.Step, int, error) {
	s, err := r.sealed(ctx, runKey)
	if err != nil && !errors.Is(err, model.ErrNotFound) {
		return nil, 0, err
	}
	rest := s.steps(runKey)
	for len(rest) > 0 && rest[0].Number <= after {
		rest = rest[1:]
	}
	return rest[:min(len(rest), limit)], len(s.Steps), nil
}
