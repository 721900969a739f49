package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/storagetest"
)

// fillRuns stores n finished runs of one project, one second after another, in threads of ten.
func fillRuns(tb testing.TB, db *DB, n int) {
	tb.Helper()
	numbers := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
	no, at := "0", func(i string) string { return "(" + i + ") * 1000" }
	if db.d.Name == "postgres" {
		no, at = "FALSE", func(i string) string { return "to_timestamp(" + i + ")" }
	}
	for _, query := range []string{
		`INSERT INTO threads (key, project_id, user_id, thread_id, conversation_id, last_seq, title, created_at, updated_at)
		` + numbers + `SELECT i, 'p', 'u', 't' || i, 'c' || i, 0, '', ` + at("i") + `, ` + at("i") + ` FROM n WHERE i <= ` + fmt.Sprint(n/10),
		`INSERT INTO runs (key, thread_key, id, project_id, user_id, agent, workflow_id, status, output_summary, generation,
			attempt, answered, owner_instance, closed_event_id, created_at, queued_at)
		` + numbers + `SELECT i, (i - 1) / 10 + 1, 'r' || i, 'p', CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'u' END, 'a' || (i % 7), 'a' || (i % 7),
			CASE WHEN i % 100 = 0 THEN 'FAILED' WHEN i % 10000 = 1 THEN 'CANCELLED' ELSE 'COMPLETED' END, '` + strings.Repeat("x", 500) +
			`', 0, 0, ` + no + `, '', 0, ` + at("i") + `, ` + at("i") + ` FROM n`,
		`INSERT INTO run_inputs (run_key, input_query, parent_run) SELECT key, 'say number ' || key, '' FROM runs`,
		`ANALYZE`,
	} {
		if _, err := db.w.Pool.SQL.ExecContext(tb.Context(), query); err != nil {
			tb.Fatal(err)
		}
	}
}

// fillTerms writes the terms of all runs.
func fillTerms(tb testing.TB, db *DB) {
	tb.Helper()
	if _, err := db.w.Pool.SQL.ExecContext(tb.Context(), `
INSERT INTO ended_runs (run_key, project_id, agent, status, code, first_generation, created_at, begun_at, finished_at)
SELECT key, project_id, agent, status, '', answered, created_at, created_at, created_at FROM runs`); err != nil {
		tb.Fatal(err)
	}
	other, err := Open(tb.Context(), db.cfg) // RollUp keeps SQLite's one connection that writes
	must(tb, err)
	_, err = other.Counter.RollUp(tb.Context(), time.UnixMilli(0))
	must(tb, errors.Join(err, other.Close()))
	_, err = db.w.Pool.SQL.ExecContext(tb.Context(), `ANALYZE`)
	must(tb, err)
}

// BenchmarkRuns lists a page of 200 000 runs by each filter, newest and oldest. It also opens their database, and reads their
// statistics.
func BenchmarkRuns(b *testing.B) {
	n := int64(200_000)
	if testing.Short() {
		n /= 100
	}
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(b).NewDatabase(b),
	} {
		db, err := Open(b.Context(), Config{URL: url, Migrate: true, Timeout: time.Hour, Lease: 24 * time.Hour})
		must(b, err)
		defer db.Close()
		fillRuns(b, db, int(n))
		fillTerms(b, db)
		since := func(i int64) time.Time { return time.Unix(i, 0) }
		b.Run(name+"/opening the database", func(b *testing.B) {
			for b.Loop() {
				again, err := Open(b.Context(), Config{URL: url, Migrate: true})
				must(b, err)
				must(b, again.Close())
			}
		})
		b.Run(name+"/statistics", func(b *testing.B) {
			for b.Loop() {
				if _, err := db.Counter.Stats(b.Context(), "p", time.Hour, since(0), since(n)); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, c := range []struct {
			name string
			f    data.RunFilter
		}{
			{"all", data.RunFilter{}},
			{"user", data.RunFilter{User: "u"}},
			{"agent", data.RunFilter{Agent: "a1"}},
			{"since the first", data.RunFilter{Since: since(1)}},
			{"since the middle", data.RunFilter{Since: since(n / 2)}},
			{"since lately", data.RunFilter{Since: since(n - 10)}},
			{"since tomorrow", data.RunFilter{Since: since(n + 10)}},
			{"since the first, page back", data.RunFilter{Since: since(1), BeforeKey: n / 10}},
			{"statuses", data.RunFilter{Statuses: []data.Status{data.Failed, data.Cancelled}}},
			{"statuses that none has", data.RunFilter{Statuses: []data.Status{data.Running, data.Waiting}}},
			{"oldest first", data.RunFilter{Oldest: true}},
			{"status of a user", data.RunFilter{User: "u", Statuses: []data.Status{data.Failed}}},
			{"a status that no run of a user has", data.RunFilter{User: "u", Statuses: []data.Status{data.Running}}},
			{"a status of a user, page back", data.RunFilter{User: "u", Statuses: []data.Status{data.Cancelled}, BeforeKey: n / 2}},
			{"common word", data.RunFilter{Text: "number"}},
			{"common beginning", data.RunFilter{Text: "numb"}},
			{"common word, few runs", data.RunFilter{Text: "number", Statuses: []data.Status{data.Cancelled}}},
			{"common word, since lately", data.RunFilter{Text: "number", Since: since(n - 10)}},
			{"rare word", data.RunFilter{Text: "number 77"}},
			{"word that none has", data.RunFilter{Text: "number nowhere"}},
			{"word of a rare user", data.RunFilter{Text: "number", User: "rare"}},
			{"name", data.RunFilter{Text: "r17"}},
			{"since lately, agent", data.RunFilter{Since: since(n - 10), Agent: "a1", User: "u"}},
		} {
			c.f.Project = "p"
			b.Run(name+"/"+c.name, func(b *testing.B) {
				for range b.N {
					if _, _, err := storagetest.Parts(db.ByProject().Runs(b.Context(), c.f)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
