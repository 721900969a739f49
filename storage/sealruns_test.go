package storage

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/storagetest"
)

// detail is all that is shown of a run.
type detail struct {
	Run         model.Run
	Listed      []model.Run
	Steps, Page []model.Step
	Total       int
	Nodes       []model.Node
}

func detailOf(t *testing.T, db *DB, key int64) (d detail) {
	t.Helper()
	var errs [5]error
	d.Run, errs[0] = db.Run(t.Context(), key)
	d.Listed, _, errs[1] = db.Runs(t.Context(), model.RunFilter{Project: "p", Limit: 10})
	d.Steps, d.Total, errs[2] = db.Steps(t.Context(), key, 0, 10)
	d.Page, _, errs[3] = db.Steps(t.Context(), key, 1, 1)
	d.Nodes, errs[4] = db.Nodes(t.Context(), key)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return d
}

// endedRows are the rows of a run that ended at a time.
func endedRows(key int64, at time.Time) []model.Row {
	fault := &agui.OutputError{Code: "c", Message: "m"}
	return []model.Row{
		&model.Run{
			RunHead: model.RunHead{
				Key: key, ThreadKey: 1, ID: "r", Project: "p", Status: model.Completed, CreatedAt: at, QueuedAt: at, FinishedAt: &at,
			},
			Input: []byte(`{"a": "<>&"}`), Metadata: []byte(`{ }`), InputQuery: "what?", OutputSummary: new("that"), ParentRun: "parent",
			ContextItemIDs: []string{"c"}, Usage: []agui.TokenUsage{{Model: "m"}},
		},
		&model.Step{RunKey: key, Number: 1, ID: "s1", NodeID: "n", Status: model.Failed, Error: fault, StartedAt: at},
		&model.Step{
			RunKey: key, Number: 2, ID: "s2", NodeID: "n", Status: model.Completed, Input: "what?", Output: new("that"),
			StartedAt: at, CompletedAt: &at,
		},
		&model.Node{RunKey: key, NodeID: "m", Status: model.Failed, Error: fault, Messages: []string{"a"}},
		&model.Node{
			RunKey: key, NodeID: "n", Status: model.Completed, Progress: 1, Output: json.RawMessage(`{"answer": "that"}`),
			StartedAt: &at, CompletedAt: &at,
		},
	}
}

// A run that ended a day ago looks as before once it is sealed, and when it goes on it is as it was.
func TestSealedRunsAreWhole(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			db := openForPlans(t, url)
			if err := db.Join(t.Context(), "instance", ""); err != nil {
				t.Fatal(err)
			}
			n := int64(0)
			commit := func(rows ...model.Row) {
				t.Helper()
				n++
				if err := db.Commit(t.Context(), n, &model.Batch{Rows: rows}); err != nil {
					t.Fatal(err)
				}
			}
			const old, young = 1, 2
			now := time.Now().UTC().Truncate(time.Millisecond)
			commit(&model.Thread{ThreadHead: model.ThreadHead{Key: 1, Project: "p"}})
			commit(endedRows(old, now.Add(-25*time.Hour))...)
			commit(endedRows(young, now.Add(-23*time.Hour))...)
			whole := map[int64]detail{old: detailOf(t, db, old), young: detailOf(t, db, young)}
			check := func(what string, sealed ...int64) {
				t.Helper()
				for key, want := range whole {
					if diff := cmp.Diff(want, detailOf(t, db, key)); diff != "" {
						t.Errorf("%s: run %d (-want +got):\n%s", what, key, diff)
					}
				}
				got, err := all(t.Context(), db.read, scalar[int64], `SELECT run_key FROM sealed_runs ORDER BY run_key`)
				if diff := cmp.Diff(sealed, got); diff != "" || err != nil {
					t.Errorf("%s: sealed are (-want +got):\n%s%v", what, diff, err)
				}
				for _, table := range []string{"steps", "node_states", "run_inputs"} {
					left, err := one(t.Context(), db.read, scalar[int], `SELECT count(DISTINCT run_key) FROM `+table)
					if left != len(whole)-len(sealed) || err != nil {
						t.Errorf("%s: %s has rows of %d runs, %v", what, table, left, err)
					}
				}
			}
			seal := func() {
				t.Helper()
				if _, err := db.Seal(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			check("before")
			seal()
			check("sealed", old)

			again := whole[old].Run.RunHead
			again.Status, again.Generation, again.FinishedAt = model.Queued, 2, nil
			commit(&again)
			d := whole[old]
			d.Run.RunHead, d.Listed = again, detailOf(t, db, young).Listed
			whole[old] = d
			d = whole[young]
			d.Listed = whole[old].Listed
			whole[young] = d
			seal()
			check("queued again")

			before := now.Add(-25 * time.Hour)
			again.Status, again.FinishedAt = model.Failed, &before
			commit(&again)
			seal()
			seal()
			delete(whole, young)
			commit(&model.Delete{ThreadKey: 1, RunKey: young})
			d = whole[old]
			d.Run.RunHead, d.Listed = again, detailOf(t, db, old).Listed
			whole[old] = d
			check("sealed again", old)
			delete(whole, old)
			commit(&model.Delete{ThreadKey: 1, RunKey: old})
			check("deleted")
		})
	}
}
