package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
	"github.com/batonrun/baton/storage/lists"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/storagetest"
)

// A list by several columns has all that fit, on full pages.
func TestRuns_BySeveralColumns(t *testing.T) {
	t.Parallel()
	const n = 7_000
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			db := openForPlans(t, url)
			fillRuns(t, db, n)
			fillTerms(t, db)
			for _, test := range []struct {
				f    data.RunFilter
				want []int64 // the first runs
				all  int
			}{
				{data.RunFilter{User: "u", Statuses: []data.Status{data.Running}}, nil, 0},
				{data.RunFilter{User: "u", Statuses: []data.Status{data.Cancelled}}, []int64{1}, 1},
				{data.RunFilter{User: "rare", Statuses: []data.Status{data.Failed}}, []int64{7000, 6000, 5000}, 7},
				{data.RunFilter{User: "rare", Statuses: []data.Status{data.Failed}, Oldest: true}, []int64{1000, 2000, 3000}, 7},
				{data.RunFilter{User: "rare", Statuses: []data.Status{data.Failed, data.Completed}, Agent: "a1"}, []int64{6000}, 1},
				{data.RunFilter{ThreadKey: 2, Since: time.UnixMilli(12_000), Until: time.UnixMilli(15_000)}, []int64{14, 13, 12}, 3},
				// By terms: few with a beginning, and many.
				{data.RunFilter{Text: "number 77"}, []int64{779, 778, 777}, 11},
				{data.RunFilter{Text: "r69"}, []int64{6999, 6998, 6997}, 111},
				{data.RunFilter{Text: "r69", Oldest: true}, []int64{69, 690, 691}, 111},
				{data.RunFilter{Text: "r69", Since: time.UnixMilli(690_000), Until: time.UnixMilli(695_000)}, []int64{694, 693, 692}, 5},
				{data.RunFilter{Text: "numb", Statuses: []data.Status{data.Cancelled}}, []int64{1}, 1},
				{data.RunFilter{Text: "numb", Statuses: []data.Status{data.Running, data.Waiting}}, nil, 0},
				{data.RunFilter{Text: "number", User: "rare", Statuses: []data.Status{data.Failed}, Since: time.UnixMilli(3_000_000), Oldest: true}, []int64{3000, 4000, 5000}, 5},
				{data.RunFilter{Text: "r699", Statuses: []data.Status{data.Completed, data.Failed}, Agent: "a1"}, []int64{6994}, 1},
			} {
				f := test.f
				f.Project, f.Limit, f.Count = "p", 3, true
				plannedByKey(t, db, f)
				var got []int64
				for more := true; more; {
					p, err := db.ByProject().Runs(t.Context(), f)
					if err != nil {
						t.Fatalf("%+v: %v", f, err)
					}
					if !p.Counted || p.Total != test.all || p.More && len(p.Rows) != f.Limit {
						t.Errorf("%+v: a page of %d, of %d runs, want %d", f, len(p.Rows), p.Total, test.all)
					}
					for i := range p.Rows {
						f.BeforeKey = p.Rows[i].Key
						got = append(got, f.BeforeKey)
					}
					more = p.More
				}
				if len(got) != test.all || !slices.Equal(got[:len(test.want)], test.want) {
					t.Errorf("%+v lists %v, want %d runs, the first %v", test.f, got, test.all, test.want)
				}
			}
			fillAudit(t, db, n)
			audit := func(f data.AuditFilter) (rows, pages int) {
				t.Helper()
				f.Project, f.Limit = "p", 5
				for {
					p, err := db.ByProject().Audit(t.Context(), f)
					must(t, err)
					rows, pages = rows+len(p.Rows), pages+1
					if !p.More {
						return rows, pages
					}
					last := &p.Rows[len(p.Rows)-1]
					f.BeforeTime, f.BeforeKey = last.At, last.Key
				}
			}
			if rows, pages := audit(data.AuditFilter{Actor: "ann", Action: "rare"}); rows != 7 || pages != 2 {
				t.Errorf("of two names the audit has %d rows on %d pages", rows, pages)
			}
			if rows, pages := audit(data.AuditFilter{Actor: "ann", Action: "start", Since: time.UnixMilli(100_000), Until: time.UnixMilli(200_000)}); rows != 100 || pages != 20 {
				t.Errorf("of a time the audit has %d rows on %d pages", rows, pages)
			}
			if rows, pages := audit(data.AuditFilter{Run: "r17"}); rows != 1 || pages != 1 {
				t.Errorf("of a run the audit has %d rows on %d pages", rows, pages)
			}
			stats, err := db.Counter.Stats(t.Context(), "p", time.Hour, time.UnixMilli(0), time.UnixMilli(n*1000))
			if err != nil || stats.Counting {
				t.Errorf("of %d runs %v are left out, %v", n, stats.Counting, err)
			}
		})
	}
}

// On SQLite a search by prefix lists the terms with that prefix, unless there are many.
func TestSearchFor_NamesWhatIsFew(t *testing.T) {
	t.Parallel()
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	fillRuns(t, db, 400)
	fillTerms(t, db)
	scope := strings.TrimSuffix(terms.Of(&data.Run{RunHead: data.RunHead{Project: "p"}})[0], "#")
	for text, want := range map[string]string{
		"say numb": `"say" AND ("number")`,
		"r40":      `("r40" OR "r400")`,
		"r3":       `"r3"*`,
		"nothing":  `"nothing"*`,
	} {
		rec := &recorder{Querier: db.read}
		_, err := lists.NewPages(db.d, rec, sqldb.Turns{}).Runs(t.Context(), data.RunFilter{Project: "p", Text: text})
		searches := func(arg any) bool { text, ok := arg.(string); return ok && strings.ReplaceAll(text, scope, "") == want }
		if err != nil || !slices.ContainsFunc(rec.args, searches) {
			t.Errorf("%q searches for %q, %v", text, rec.args, err)
		}
	}
}

// plannedByKey fails when PostgreSQL would read all runs for a page.
func plannedByKey(t *testing.T, db *DB, f data.RunFilter) {
	t.Helper()
	if db.d.Name != "postgres" {
		return
	}
	rec := &recorder{Querier: db.read}
	f.Count = false
	_, err := lists.NewPages(db.d, rec, sqldb.Turns{}).Runs(t.Context(), f)
	must(t, err)
	plan, err := sqldb.All(t.Context(), db.read, sqldb.Scalar[string], "EXPLAIN "+rec.queries[0], rec.args...)
	must(t, err)
	if slices.ContainsFunc(plan, func(line string) bool { return strings.Contains(line, "Seq Scan on runs") }) {
		t.Errorf("%s", strings.Join(plan, "\n"))
	}
}

// A search ends after its time, as one that was too slow.
func TestSearched_FailsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := lists.NewPages(nil, silent{}, sqldb.Turns{}).Users(t.Context(), data.UserFilter{Text: "u"})
		if !errors.Is(err, data.ErrTooSlow) {
			t.Errorf("it failed with %v", err)
		}
	})
}

// silent is a Querier that does not answer.
type silent struct{}

func (silent) Query(ctx context.Context, _ string, _ []any) (*sql.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Failed(_ context.Context, err error) error { return err }

// fillAudit writes n rows of the audit.
func fillAudit(tb testing.TB, db *DB, n int) {
	tb.Helper()
	at := "i * 1000"
	if db.d.Name == "postgres" {
		at = "to_timestamp(i)"
	}
	for _, query := range []string{
		fmt.Sprintf(`INSERT INTO audit (project_id, user_id, actor, action, thread_id, run_id, credential, address, request, at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT 'p', 'u', 'ann', CASE WHEN i %% 1000 = 0 THEN 'rare' ELSE 'start' END, 't', 'r' || i, '', '', '', %s FROM n`, n, at),
		`ANALYZE`,
	} {
		if _, err := db.w.Pool.SQL.ExecContext(tb.Context(), query); err != nil {
			tb.Fatal(err)
		}
	}
}

// While more rows wait for RollUp than Stats reads, Stats returns those it has read and says so.
func TestStats_SaysWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	now := time.UnixMilli(1 << 40)
	const maxWaiting = 50_000 // as in package lists
	if _, err := db.w.Pool.SQL.ExecContext(t.Context(), `
INSERT INTO ended_runs (run_key, project_id, agent, status, code, first_generation, created_at, begun_at, finished_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT 0, 'p', 'a', 'COMPLETED', '', 1, ?2, ?2, ?2 FROM n`, maxWaiting+10, now.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	completed := func() (n int, counting bool) {
		t.Helper()
		s, err := db.Counter.Stats(t.Context(), "p", data.HourStep, now.Add(-time.Hour), now)
		must(t, err)
		for _, tally := range s.Tallies {
			n += tally.Completed
		}
		return n, s.Counting
	}
	if n, counting := completed(); !counting || n < maxWaiting {
		t.Errorf("%d runs are counted, some left out: %v", n, counting)
	}
	if n, err := db.Counter.RollUp(t.Context(), now); n != maxWaiting+10 || err != nil {
		t.Fatalf("%d rows are rolled up, %v", n, err)
	}
	if n, counting := completed(); counting || n != maxWaiting+10 {
		t.Errorf("%d runs are counted after the roll-up, some left out: %v", n, counting)
	}
}

// Searches wait for each other, and nobody else for them: they leave connections to those who ask for little.
func TestSearchesLeaveConnections(t *testing.T) {
	t.Parallel()
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	fillRuns(t, db, 10)
	searches := sqldb.TurnsOf(1)
	r := lists.NewPages(db.d, db.read, searches)
	end, err := searches.Take(t.Context(), db.read)
	must(t, err)
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	yes := true
	if _, err := r.Runs(given, data.RunFilter{Project: "p", Text: "r1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a search of runs: %v", err)
	}
	if _, err := r.Threads(given, data.ThreadFilter{Project: "p", User: "u", Archived: &yes}); !errors.Is(err, context.Canceled) {
		t.Errorf("a search of threads: %v", err)
	}
	for _, f := range []data.RunFilter{{Project: "p"}, {Project: "p", User: "u"}, {Project: "p", Statuses: []data.Status{data.Failed, data.Running}}} {
		if _, err := r.Runs(t.Context(), f); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	end()
	if p, err := r.Runs(t.Context(), data.RunFilter{Project: "p", User: "u", Agent: "a1"}); err != nil || len(p.Rows) == 0 {
		t.Errorf("a search whose turn has come: %+v, %v", p, err)
	}
}
