package storage

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
	Asked       []string // what lists of threads have of it
}

func detailOf(t *testing.T, db *DB, key int64) (d detail) {
	t.Helper()
	var errs [6]error
	d.Run, errs[0] = db.Run(t.Context(), key)
	d.Listed, _, errs[1] = storagetest.Parts(db.Runs(t.Context(), model.RunFilter{Project: "p", Limit: 10}))
	d.Steps, d.Total, errs[2] = storagetest.Parts(db.Steps(t.Context(), "p", key, 0, 10))
	d.Page, _, errs[3] = storagetest.Parts(db.Steps(t.Context(), "p", key, 1, 1))
	d.Nodes, errs[4] = db.Nodes(t.Context(), key)
	threads, err := db.Threads(t.Context(), model.ThreadFilter{Project: "p", Limit: 10})
	for i := range threads.Rows {
		d.Asked = append(d.Asked, threads.Rows[i].Asked)
	}
	errs[5] = err
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
			commit(&model.Delete{ThreadKey: 1, RunKey: young, Limit: 1000})
			d = whole[old]
			d.Run.RunHead, d.Listed = again, detailOf(t, db, old).Listed
			whole[old] = d
			check("sealed again", old)
			delete(whole, old)
			commit(&model.Delete{ThreadKey: 1, RunKey: old, Limit: 1000})
			check("deleted")
		})
	}
}

// withEnded opens a database with runs that ended two days ago.
func withEnded(t *testing.T, url string, runs int, change func(key int64, run *model.Run)) *DB {
	t.Helper()
	db := openForPlans(t, url)
	if err := db.Join(t.Context(), "instance", ""); err != nil {
		t.Fatal(err)
	}
	rows := []model.Row{&model.Thread{ThreadHead: model.ThreadHead{Key: 1, Project: "p"}}}
	for key := range int64(runs) {
		of := endedRows(key+1, time.Now().Add(-2*sealIdle))
		if run, ok := of[0].(*model.Run); ok && change != nil {
			change(key+1, run)
		}
		rows = append(rows, of...)
	}
	if err := db.Commit(t.Context(), 1, &model.Batch{Rows: rows}); err != nil {
		t.Fatal(err)
	}
	return db
}

// do runs statements on the connection that writes.
func do(t *testing.T, db *DB, statements ...string) {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.transact(t.Context(), func(tx *tx) (err error) {
		for _, statement := range statements {
			err = errors.Join(err, tx.exec(statement))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A run that cannot be sealed, or is too large to be, keeps no other from being sealed.
func TestRunThatCannotBeSealedIsLeft(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			db := withEnded(t, url, 6, func(key int64, run *model.Run) {
				if key == 6 {
					run.InputQuery = strings.Repeat("x", maxSealed+1)
				}
			})
			do(t, db,
				`UPDATE steps SET error = '{' WHERE run_key = 1`, // cannot be read
				fmt.Sprintf(`INSERT INTO sealed_runs (run_key, data) VALUES (3, %s)`, map[bool]string{true: "x'00'", false: `'\x00'`}[db.d.single]), // cannot be written
				`UPDATE steps SET number = 1001, error = '{' WHERE run_key = 4 AND number = 2`,                                                      // is not even read
			)
			if _, err := db.Seal(t.Context(), time.Now()); err != nil {
				t.Error(err)
			}
			left, err := all(t.Context(), db.read, scalar[int64], `SELECT run_key FROM run_inputs ORDER BY run_key`)
			if diff := cmp.Diff([]int64{1, 3, 4, 6}, left); diff != "" || err != nil {
				t.Errorf("not sealed are (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

// What a page of a list reads of sealed runs is bounded before compression: a kilobyte of them may be megabytes.
func TestListsOfSealedRunsInflateLittle(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			const runs, plain = 16, 2 << 20
			db := withEnded(t, url, runs, nil)
			if _, err := db.Seal(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(&sealedRun{Input: new(strings.Repeat("x", plain)), InputQuery: "what?"})
			if err != nil {
				t.Fatal(err)
			}
			db.mu.Lock()
			err = db.transact(t.Context(), func(tx *tx) error { return tx.exec(`UPDATE sealed_runs SET data = ?`, db.zipRuns.EncodeAll(text, nil)) })
			db.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				text string
				rows int
			}{{"what?", runs}, {"nowhere", 0}} {
				f := model.RunFilter{Project: "p", Limit: 500, Text: c.text}
				rows, pages := 0, 0
				for more := true; more; pages++ {
					p, err := db.Runs(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					if rows += len(p.Rows); len(p.Rows)*plain > lookedBytes+plain {
						t.Errorf("a page for %q has inflated %d runs of %d bytes", c.text, len(p.Rows), plain)
					}
					if f.BeforeKey = p.Behind; p.More && p.Behind == 0 {
						f.BeforeKey = p.Rows[len(p.Rows)-1].Key
					}
					more = p.More
				}
				if least := runs * plain / (lookedBytes + plain); rows != c.rows || pages < least {
					t.Errorf("for %q %d runs are listed on %d pages, want %d on %d at least", c.text, rows, pages, c.rows, least)
				}
			}
		})
	}
}

// What is large is not sealed in one transaction, for which all commits would wait.
func TestLargeRunsAreSealedOneByOne(t *testing.T) {
	db := withEnded(t, storagetest.Postgres(t).NewDatabase(t), 6, func(key int64, run *model.Run) {
		if key <= 3 {
			run.InputQuery = strings.Repeat("x", maxSealing)
		}
	})
	if _, err := db.Seal(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	n, err := one(t.Context(), db.read, scalar[int], `SELECT count(DISTINCT xmin::text) FROM sealed_runs`)
	if n != 4 || err != nil {
		t.Errorf("sealed in %d transactions, %v, want 4", n, err)
	}
}

// Days are dropped although no run can be sealed.
func TestDaysAreDroppedWhateverBecomesOfRuns(t *testing.T) {
	db := withEnded(t, storagetest.Postgres(t).NewDatabase(t), 0, nil)
	do(t, db, `ALTER TABLE run_inputs RENAME TO others`)
	db.mu.Lock()
	err := db.transact(t.Context(), func(tx *tx) error { return tx.createDay(time.Now().UTC().Truncate(sealIdle).AddDate(0, 0, -9)) })
	db.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Seal(t.Context(), time.Now()); err == nil {
		t.Error("no error")
	}
	if days, err := all(t.Context(), db.read, scalar[string], selectPartitions); len(days) != 2 || err != nil {
		t.Errorf("there are %v, %v, want today and tomorrow", days, err)
	}
}

// meanwhile is a querier beside which something happens before the first of some queries.
type meanwhile struct {
	querier
	queries []string
	happens func()
}

func (m *meanwhile) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if slices.Contains(m.queries, query) && m.happens != nil {
		m.happens()
		m.happens = nil
	}
	return m.querier.query(ctx, query, args)
}

// A run that goes on while its detail is read has its steps and nodes.
func TestDetailIsReadWhileARunIsUnsealed(t *testing.T) {
	db := withEnded(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"), 1, nil)
	want := detailOf(t, db, 1)
	n := int64(1)
	beside := func() reader {
		if _, err := db.Seal(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		return reader{q: &meanwhile{db.read, []string{selectSealedRun, selectSealedOfProject}, func() {
			for _, status := range []model.Status{model.Queued, want.Run.Status} {
				n++
				head := want.Run.RunHead
				head.Status = status
				if err := db.Commit(t.Context(), n, &model.Batch{Rows: []model.Row{&head}}); err != nil {
					t.Error(err)
				}
			}
		}}, d: db.d, z: db.z}
	}
	steps, total, err := storagetest.Parts(beside().Steps(t.Context(), "p", 1, 0, 10))
	if diff := cmp.Diff(want.Steps, steps); diff != "" || total != want.Total || err != nil {
		t.Errorf("%d steps, %v (-want +got):\n%s", total, err, diff)
	}
	nodes, err := beside().Nodes(t.Context(), 1)
	if diff := cmp.Diff(want.Nodes, nodes); diff != "" || err != nil {
		t.Errorf("nodes, %v (-want +got):\n%s", err, diff)
	}
}

// A run that goes on while it is sealed stays as it is, and an instance that was fenced seals none.
func TestRunThatGoesOnIsNotSealed(t *testing.T) {
	db := withEnded(t, storagetest.Postgres(t).NewDatabase(t), 1, nil)
	beside, err := db.write.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := beside.Exec(`UPDATE runs SET status = 'QUEUED' WHERE key = 1`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := db.Seal(t.Context(), time.Now())
		done <- err
	}()
	for waiting := false; !waiting; {
		waiting, err = one(t.Context(), db.read, scalar[bool], `
			SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())`)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(beside.Commit(), <-done); err != nil {
		t.Fatal(err)
	}
	sealed := func() int {
		t.Helper()
		n, err := one(t.Context(), db.read, scalar[int], `SELECT count(*) FROM sealed_runs`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if sealed() != 0 {
		t.Error("a run that goes on was sealed")
	}
	do(t, db, `UPDATE runs SET status = 'COMPLETED'`, `UPDATE instances SET fenced = TRUE`)
	if _, err := db.Seal(t.Context(), time.Now()); !errors.Is(err, model.ErrFenced) || sealed() != 0 {
		t.Errorf("%d sealed, %v, want ErrFenced", sealed(), err)
	}
}
