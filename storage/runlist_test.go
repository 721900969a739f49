package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/storagetest"
)

// A page looks at so many runs for what no index has, says where it goes on, and its list ends.
func TestPagesLookAtSoManyRuns(t *testing.T) {
	const n = 2*lookedAt + 500
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			db := openForPlans(t, url)
			fillRuns(t, db, n)
			if _, err := db.write.ExecContext(t.Context(), `INSERT INTO run_names (project_id, name, user_id, run_key) VALUES ('p', 'r17', 'u', 17)`); err != nil {
				t.Fatal(err)
			}
			list := func(f model.RunFilter) (keys []int64, pages, uncounted int) {
				t.Helper()
				f.Project, f.Limit, f.Count = "p", 500, true
				for {
					p, err := db.Runs(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					if pages++; !p.Counted {
						uncounted++
					}
					for i := range p.Rows {
						keys = append(keys, p.Rows[i].Key)
					}
					if !p.More {
						return keys, pages, uncounted
					}
					if f.BeforeKey = p.Behind; f.BeforeKey == 0 {
						f.BeforeKey = p.Rows[len(p.Rows)-1].Key
					}
				}
			}
			readsByKey(t, db, model.RunFilter{Project: "p", User: "u", Statuses: []model.Status{model.Completed}})
			if keys, pages, uncounted := list(model.RunFilter{User: "u", Statuses: []model.Status{model.Running}}); len(keys) != 0 || pages != 1 || uncounted != 0 {
				t.Errorf("of what is not there %d runs are listed on %d pages, %d of them without a total", len(keys), pages, uncounted)
			}
			if keys, _, _ := list(model.RunFilter{User: "u", Statuses: []model.Status{model.Cancelled}}); !slices.Equal(keys, []int64{20001, 10001, 1}) {
				t.Errorf("the user's cancelled runs are %v", keys)
			}
			if keys, pages, uncounted := list(model.RunFilter{User: "u", Statuses: []model.Status{model.Cancelled}, Oldest: true}); !slices.Equal(keys, []int64{1, 10001, 20001}) || pages != 1 || uncounted != 0 {
				t.Errorf("the user's cancelled runs, the oldest first, are %v on %d pages, %d of them without a total", keys, pages, uncounted)
			}
			if keys, _, uncounted := list(model.RunFilter{User: "rare", Statuses: []model.Status{model.Failed}}); len(keys) != 20 || uncounted != 0 {
				t.Errorf("of few runs %d are listed, on %d pages without a total", len(keys), uncounted)
			}
			keys, pages, _ := list(model.RunFilter{Text: "R17"})
			if len(keys) == 0 || pages < n/lookedAtText || slices.Contains(keys, 18) || !slices.Contains(keys, 17) {
				t.Errorf("by a part of a name %d runs are listed on %d pages", len(keys), pages)
			}
			fillAudit(t, db, n)
			audit := func(f model.AuditFilter) (rows, pages int) {
				t.Helper()
				f.Project, f.Limit = "p", 500
				for {
					p, err := db.Audit(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					rows, pages = rows+len(p.Rows), pages+1
					if !p.More {
						return rows, pages
					}
					if f.BeforeTime, f.BeforeKey = p.BehindAt, p.Behind; p.Behind == 0 {
						last := &p.Rows[len(p.Rows)-1]
						f.BeforeTime, f.BeforeKey = last.At, last.Key
					}
				}
			}
			if rows, pages := audit(model.AuditFilter{Actor: "ann", Action: "rare"}); rows != 20 || pages != 3 {
				t.Errorf("of two names the audit has %d rows on %d pages", rows, pages)
			}
			if rows, pages := audit(model.AuditFilter{Actor: "ann", Action: "start", Since: time.UnixMilli(100_000), Until: time.UnixMilli(200_000)}); rows != 100 || pages != 1 {
				t.Errorf("of a time the audit has %d rows on %d pages", rows, pages)
			}
			if rows, pages := audit(model.AuditFilter{Run: "r17"}); rows != 1 || pages != 1 {
				t.Errorf("of a run the audit has %d rows on %d pages", rows, pages)
			}
			stats, err := db.Stats(t.Context(), "p", time.Hour, time.UnixMilli(0), time.UnixMilli(n*1000))
			if err != nil || stats.Counting {
				t.Errorf("of %d runs %v are left out, %v", n, stats.Counting, err)
			}
			named, _, _ := list(model.RunFilter{Text: "r17"})
			if named[0] != 17 || len(named) != len(keys) {
				t.Errorf("by the whole name %d runs are listed, the first is %d, want 17 and as many as by its parts: %d", len(named), named[0], len(keys))
			}
		})
	}
}

// readsByKey fails when PostgreSQL would read all runs for what of those at hand a filter admits.
func readsByKey(t *testing.T, db *DB, f model.RunFilter) {
	t.Helper()
	if db.d.name != "postgres" {
		return
	}
	after := []any{time.UnixMilli(1 << 50), 1 << 60}
	known := indexed(&f)
	look, args := lookQuery(&f, &known, after)
	count := countingQuery(&f, &known, after)
	for query, args := range map[string][]any{look: args, count.text(&f): count.args} {
		plan, err := all(t.Context(), db.read, scalar[string], "EXPLAIN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(plan, func(line string) bool { return strings.Contains(line, "Seq Scan on runs") }) {
			t.Errorf("%s", strings.Join(plan, "\n"))
		}
	}
}

// fillAudit writes n rows of the audit.
func fillAudit(tb testing.TB, db *DB, n int) {
	tb.Helper()
	at := "i * 1000"
	if db.d.name == "postgres" {
		at = "to_timestamp(i)"
	}
	for _, query := range []string{
		fmt.Sprintf(`INSERT INTO audit (project_id, user_id, actor, action, thread_id, run_id, credential, address, request, at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT 'p', 'u', 'ann', CASE WHEN i %% 1000 = 0 THEN 'rare' ELSE 'start' END, 't', 'r' || i, '', '', '', %s FROM n`, n, at),
		`ANALYZE`,
	} {
		if _, err := db.write.ExecContext(tb.Context(), query); err != nil {
			tb.Fatal(err)
		}
	}
}

// While more rows wait for RollUp than Stats reads, Stats returns those it has read and says so.
func TestStats_SaysWhatIsLeftOut(t *testing.T) {
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	now := time.UnixMilli(1 << 40)
	if _, err := db.write.ExecContext(t.Context(), `
INSERT INTO ended_runs (project_id, agent, status, code, first_generation, created_at, begun_at, finished_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT 'p', 'a', 'COMPLETED', '', 1, ?2, ?2, ?2 FROM n`, maxWaiting+10, now.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	completed := func() (n int, counting bool) {
		t.Helper()
		s, err := db.Stats(t.Context(), "p", model.HourStep, now.Add(-time.Hour), now)
		if err != nil {
			t.Fatal(err)
		}
		for _, tally := range s.Tallies {
			n += tally.Completed
		}
		return n, s.Counting
	}
	if n, counting := completed(); !counting || n < maxWaiting {
		t.Errorf("%d runs are counted, some left out: %v", n, counting)
	}
	if n, err := db.RollUp(t.Context(), now); n != maxWaiting+10 || err != nil {
		t.Fatalf("%d rows are rolled up, %v", n, err)
	}
	if n, counting := completed(); counting || n != maxWaiting+10 {
		t.Errorf("%d runs are counted after the roll-up, some left out: %v", n, counting)
	}
}

// Searches wait for each other, and nobody else for them: they leave connections to those who ask for little.
func TestSearchesLeaveConnections(t *testing.T) {
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	fillRuns(t, db, 10)
	slots := int64(db.cfg.Readers / 4)
	if err := db.searches.places.Acquire(t.Context(), slots); err != nil { // as many as there may be
		t.Fatal(err)
	}
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	yes := true
	if _, err := db.Runs(given, model.RunFilter{Project: "p", Text: "r1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a search of runs: %v", err)
	}
	if _, err := db.Threads(given, model.ThreadFilter{Project: "p", User: "u", Archived: &yes}); !errors.Is(err, context.Canceled) {
		t.Errorf("a search of threads: %v", err)
	}
	for _, f := range []model.RunFilter{{Project: "p"}, {Project: "p", User: "u"}, {Project: "p", Statuses: []model.Status{model.Failed, model.Running}}} {
		if _, err := db.Runs(t.Context(), f); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	db.searches.places.Release(slots)
	if p, err := db.Runs(t.Context(), model.RunFilter{Project: "p", Text: "r1"}); err != nil || len(p.Rows) == 0 {
		t.Errorf("a search whose turn has come: %+v, %v", p, err)
	}
}
