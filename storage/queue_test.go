package storage

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batonrun/baton/storage/storagetest"
)

// growQueue adds rows of 3 projects, 20 users and 7 workflows, of every hundred one to be cancelled and one to be woken.
const growQueue = `
INSERT INTO queue (thread_key, todo, run_key, project_id, user_id, workflow, agent, rank, since)
WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 20000)
SELECT n, CASE n % 100 WHEN 0 THEN 1 WHEN 1 THEN 3 ELSE 2 END, n, 'p' || (n % 3), 'u' || (n % 20), 'w' || (n % 7), '', 2, clock_timestamp() FROM counted`

// Line costs the same however long the queue is, and also with a plan of the time when it was empty: each row is found in the
// index, and nothing is sorted.
func TestLine_FollowsItsIndex(t *testing.T) {
	t.Parallel()
	texts := constants(t)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
		check := func(when string) {
			t.Helper()
			for query, want := range map[string]string{
				texts["selectProject"]: "queue_lanes (project_id>?)",
				texts["selectLane"]:    "queue_lanes (project_id=? AND (user_id,workflow,agent,rank)>(?,?,?,?))",
				texts["selectRows"]:    "queue_lanes (project_id=? AND user_id=? AND workflow=? AND agent=? AND (rank,since)>(?,?))",
				texts["selectCancels"]: "queue_cancel (thread_key>?)",
				texts["selectDue"]:     "queue_wake (since>? AND since<?)",
			} {
				plan := planSQLite(t, db, when, db.d.Forms(query)[0])
				if len(plan) != 1 || plan[0] != "0 SEARCH q USING INDEX "+want {
					t.Errorf("the plan %s is\n%s\nwant %s\n%s", when, strings.Join(plan, "\n"), want, query)
				}
			}
		}
		check("for an empty queue")
		db.w.Pool.SQL.MustExecContext(t.Context(), db.d.Forms(growQueue)[0])
		check("for a long queue") // Baton never analyzes a file
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := openForPlans(t, storagetest.Postgres(t).NewDatabase(t))
		conn, err := db.looks.SQL.Connx(t.Context())
		must(t, err)
		defer conn.Close()
		wants := map[string]struct {
			index string
			conds []string
		}{
			texts["selectProjects"]: {"queue_lanes", []string{"(project_id > $1)", "(project_id > found_1.project_id)"}},
			texts["selectLanes"]: {"queue_lanes", []string{
				"((project_id = $1) AND (ROW(user_id, workflow, agent, rank) > ROW($2, $3, $4, 3)))",
				"((project_id = found_1.project_id) AND (ROW(user_id, workflow, agent, rank) > ROW(found_1.user_id, found_1.workflow, found_1.agent, 3)))",
			}},
			texts["selectRows"]: {"queue_lanes", []string{
				"((project_id = $1) AND (user_id = $2) AND (workflow = $3) AND (agent = $4) AND (ROW(rank, since, thread_key) > ROW($5, $6, $7)))",
			}},
			texts["selectCancels"]: {"queue_cancel", []string{"(thread_key > $1)"}},
			texts["selectDue"]:     {"queue_wake", []string{"((since <= now()) AND (ROW(since, thread_key) > ROW($1, $2)))"}},
		}
		prepare := func(query string) {
			t.Helper()
			for _, statement := range []string{"DEALLOCATE ALL", "PREPARE planned AS " + db.d.Forms(query)[0]} {
				if _, err := conn.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		}
		check := func(when, query string) {
			t.Helper()
			plan, err := execAll(t, conn, "EXPLAIN EXECUTE planned("+strings.Repeat("NULL, ", strings.Count(query, "?")-1)+"NULL)")
			want := wants[query]
			fine := err == nil && strings.Count(plan, "Index Scan using "+want.index+" on queue") == len(want.conds) &&
				!regexp.MustCompile("Sort|Bitmap|Seq Scan").MatchString(plan)
			for _, cond := range want.conds {
				fine = fine && strings.Contains(plan, "Index Cond: "+cond)
			}
			if !fine {
				t.Errorf("the plan %s is, with %v,\n%s\n%s", when, err, plan, query)
			}
		}
		for query := range wants {
			db.w.Pool.SQL.MustExecContext(t.Context(), "TRUNCATE queue")
			prepare(query)
			check("for an empty queue", query)
			db.w.Pool.SQL.MustExecContext(t.Context(), growQueue)
			check("of an empty queue for a long one", query)
			prepare(query)
			check("for a long queue", query)
			db.w.Pool.SQL.MustExecContext(t.Context(), "ANALYZE queue")
			prepare(query)
			check("for a known queue", query)
		}
	})
}
