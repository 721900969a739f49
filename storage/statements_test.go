package storage

import (
	"context"
	"database/sql"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/lists"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/storagetest"
)

// onlyPostgres are the statements that SQLite never sees; templates have a name to be filled in.
var (
	onlyPostgres = []string{
		"selectSession", "selectEncoding", "hasSchema", "selectGrants", "selectTables", "mayCreate",
		"appendEvents", "lockPartitions", "partitionExists", "hasStray", "selectPartitions", "deleteStray",
		"reserveKeys", "lockInstances", "lockNames", "selectThreadKeys", "lockJoining",
		"selectServerVersion", "selectClock", "selectQueueUsage", "selectSnapshots", "selectThreadsByID",
		"lookAtInstances", "drainServer", "fenceSilent", "endSessions", "insertServer", "deleteServers", "selectIdentity",
		"insertChunk", "selectChunk", "deleteChunks", "tellAbout", "tellLoad", "selectServers",
		"selectDuty", "takeDuty", "holdDuty", "leaveDuties", "countRunningOfProjects", "countRunningOfUsers", "countQueued",
		"takeTie", "untieRun", "dropTie", "joinThread", "selectDropped", "claimOverdue",
		"lockReserved", "selectReserved", "deleteReserved", "insertReserved", "deleteReservedOfEnded",
		"selectLanes", "selectProjects", "takeRows", "giveBackRows", "selectLatest",
	}
	templates = []string{"partitionHasUnsealed"}
	// These become whole with a filter.
	needFilter = []string{
		"setHead", "selectRun", "selectStepsBy", "runColumns", "subjectColumns", "openInOrder", "listRuns", "countSome", "keysByTime", "keysByKey", "keysByTerms", "keysByName", "keysOfTime", "listAudit", "countAudit", "lookAtThreads", "listedColumns", "questionColumns", "selectThreadHead", "selectWholeThread", "endedColumns", "callColumns", "newestFrom",
	}
	// This reads a table of SQLite's.
	onlySQLite = []string{"selectLastKey", "giveKeys", "selectSQLiteVersion", "selectListedThreads", "selectBegun", "selectForeign"}
)

// mayScan are the statements that need not be fast: they are for tables with few rows, or for the janitor.
var mayScan = []string{
	"selectVersion", "selectOldest", "selectForeign", "selectInstances", "selectPartitions", "hasStray", "deleteStray", "partitionHasUnsealed", "deleteInstances", "deleteServers", "selectServers", "deleteReservedOfEnded", "endSessions", "leaveDuties", "selectIdentity", "selectSnapshots",
	"selectMisplaced", "selectBacklog", "selectLastKey", "selectEndedOfProject", "selectCallsOfProject",
	"selectRecorded", // SQLite's word for reading a subquery's rows
}

// beginnings are the columns that an index which serves a request begins with: the caller's project, or the key of a row that was found for
// the caller. Other tenants' data then has no part in how long a request takes.
var beginnings = []string{"project_id", "thread_key", "run_key", "attachment_key", "key", "rowid"}

// unshared are the other columns that an index may begin with: its rows are of servers and their duties, or what it is asked for is secret,
// or a hash of what only its owner has.
var unshared = []string{
	"id", "instance", "owner_instance", "name", "purpose", "datname", "nspname", "relname", "oid", "inhparent", // servers, their credentials, the database's own tables
	"scope", "blob", "piece",
	"status", "state", "step", "day", "at", "since", "created_at", "expires_at", "revoked_at", "used_at", "ends_at", "committed_at", // duties
}

// unboundSQLite returns the lines of a plan that look into an index by something else than beginnings.
func unboundSQLite(plan []string) (lines []string) {
	for _, line := range plan {
		_, step, _ := strings.Cut(line, " ")
		if _, cond, ok := strings.Cut(step, "INDEX"); ok && strings.HasPrefix(step, "SEARCH ") && !strings.Contains(step, "AUTOMATIC") && !strings.Contains(step, "VIRTUAL TABLE") {
			_, cond, _ = strings.Cut(cond, "(")
			cond = strings.TrimPrefix(cond, "(") // of a row
			if column := cond[:max(0, strings.IndexAny(cond, "=<>,)"))]; !slices.Contains(slices.Concat(beginnings, unshared), column) {
				lines = append(lines, step)
			}
		}
	}
	return lines
}

// looksUp is the condition with which PostgreSQL looks into an index.
var looksUp = regexp.MustCompile(`Index Cond: .*`)

// begun finds one of beginnings or unshared in it.
var begun = regexp.MustCompile(`\b(project_id|thread_key|run_key|attachment_key|key)\b|terms @@|Index Cond: \(+(` + strings.Join(unshared, "|") + `)\b`)

// unboundPostgres is unboundSQLite for PostgreSQL. All terms begin with their scope: see package terms.
func unboundPostgres(plan string) (lines []string) {
	for _, line := range looksUp.FindAllString(plan, -1) {
		if !begun.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// listsUser reports whether a statement lists what a user has. The audit is for admins.
func listsUser(name string) bool {
	return !strings.Contains(name, "audit") && (strings.HasSuffix(name, "sOfUser") || strings.Contains(name, "runs of user") || strings.Contains(name, ", user"))
}

// TestStatementsUseIndexes prepares and plans every statement of the package on both databases. A table that
// grows is never read from end to end.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	statements := allStatements(t)
	maps.Copy(statements, listed(t))
	t.Run("sqlite", func(t *testing.T) {
		db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
		for _, name := range slices.Sorted(maps.Keys(statements)) {
			if slices.Contains(onlyPostgres, name) || slices.Contains(templates, name) {
				continue
			}
			query := db.d.Forms(statements[name])[0]
			if strings.Contains(query, "LIMIT ?") {
				t.Errorf("%s is compiled each time it is carried out:\n%s", name, query)
			}
			plan := planSQLite(t, db, name, query)
			if strings.Contains(query, sqldb.SizedFirst) && slices.Contains(plan, "0 USE TEMP B-TREE FOR ORDER BY") {
				t.Errorf("%s has all of a page in memory, to sort it:\n%s", name, strings.Join(plan, "\n"))
			}
			if lines := unboundSQLite(plan); len(lines) > 0 {
				t.Errorf("%s looks into all tenants' rows:\n%s", name, strings.Join(lines, "\n"))
			}
			for _, line := range plan {
				_, step, _ := strings.Cut(line, " ")
				if listsUser(name) && strings.Contains(step, "(project_id=?") && !strings.Contains(step, "user_id=?") && !strings.Contains(step, "name=?") {
					t.Errorf("%s looks into all users' rows:\n%s", name, step)
				}
				if strings.HasSuffix(name, "runs of thread") && strings.HasPrefix(step, "SEARCH runs ") &&
					!strings.Contains(line, "runs_thread") {
					t.Errorf("%s reads a whole project:\n%s", name, line)
				}
				if strings.HasSuffix(name, "since") && strings.HasPrefix(step, "SEARCH runs ") && !strings.Contains(line, "created_at>") {
					t.Errorf("%s reads what is older:\n%s", name, line)
				}
				if strings.Contains(line, "(status=?)") && !slices.Contains(mayScan, name) {
					t.Errorf("%s reads the open runs of all threads:\n%s", name, line)
				}
				if scansSQLite(line) && !slices.Contains(mayScan, name) {
					t.Errorf("%s reads a whole table:\n%s\n%s", name, statements[name], strings.Join(plan, "\n"))
				}
			}
		}
	})
	t.Run("postgres", func(t *testing.T) {
		db := openForPlans(t, storagetest.Postgres(t).NewDatabase(t))
		for _, name := range slices.Sorted(maps.Keys(statements)) {
			query := statements[name]
			if slices.Contains(onlySQLite, name) {
				continue
			}
			if slices.Contains(templates, name) {
				query = strings.ReplaceAll(query, "%[1]s", "events_default")
			}
			plan := planPostgres(t, db, name, db.d.Forms(query)[0])
			if readsAllPostgres(plan) && !slices.Contains(mayScan, name) {
				t.Errorf("%s reads a whole table:\n%s\n%s", name, query, plan)
			}
			if lines := unboundPostgres(plan); len(lines) > 0 {
				t.Errorf("%s looks into all tenants' rows:\n%s", name, strings.Join(lines, "\n"))
			}
			for _, line := range looksUp.FindAllString(plan, -1) {
				if listsUser(name) && strings.Contains(line, "project_id") && !strings.Contains(line, "user_id") && !strings.Contains(line, "name") {
					t.Errorf("%s looks into all users' rows:\n%s", name, line)
				}
			}
		}
	})
	t.Run("many rows", func(t *testing.T) {
		db := openForPlans(t, storagetest.Postgres(t).NewDatabase(t))
		for _, name := range slices.Sorted(maps.Keys(statements)) {
			forms := db.d.Forms(statements[name])
			if !strings.Contains(forms[1], " AS given (") {
				continue
			}
			plan := planPostgres(t, db, name, forms[1])
			if readsAllPostgres(plan) {
				t.Errorf("%s of many rows reads a whole table:\n%s", name, plan)
			}
		}
	})
	t.Run("some rows", func(t *testing.T) {
		db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
		some := 0
		for _, name := range slices.Sorted(maps.Keys(statements)) {
			forms := db.d.Forms(statements[name])
			query := forms[1]
			if slices.Contains(onlyPostgres, name) || query == forms[0] || strings.Contains(query, "RETURNING") {
				continue
			}
			some++
			if given, want := strings.Count(query, "?"), strings.Count(statements[name], "?"); given != 2*want {
				t.Errorf("%s of two rows has %d parameters, of one %d", name, given, want)
			}
			reads := func(line string) bool { // except parameters
				return scansSQLite(line) && !strings.Contains(line, "VALUES CLAUSE") && !strings.Contains(line, "CONSTANT ROWS")
			}
			if plan := planSQLite(t, db, name, query); slices.ContainsFunc(plan, reads) {
				t.Errorf("%s of two rows reads a whole table:\n%s", name, strings.Join(plan, "\n"))
			}
		}
		if some < 10 {
			t.Errorf("there are %d statements that insert", some)
		}
	})
	t.Run("one element", func(t *testing.T) {
		db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
		for _, name := range slices.Sorted(maps.Keys(statements)) {
			forms := db.d.Forms(statements[name])
			if slices.Contains(onlyPostgres, name) || forms[2] == forms[0] {
				continue
			}
			if plan := planSQLite(t, db, name, forms[2]); slices.ContainsFunc(plan, scansSQLite) {
				t.Errorf("%s of one reads a whole table:\n%s", name, strings.Join(plan, "\n"))
			}
		}
	})
}

func openForPlans(t *testing.T, url string) *DB {
	t.Helper()
	db, err := Open(t.Context(), Config{URL: url, Migrate: true, Lease: time.Minute}) // a busy machine may take long for a statement
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// scansSQLite reports whether a line of a plan means reading a table, or a whole index of one.
func scansSQLite(line string) bool {
	_, line, _ = strings.Cut(line, " ")
	if !strings.HasPrefix(line, "SCAN ") {
		return false
	}
	for _, fine := range []string{"SCAN json_each", "SCAN CONSTANT ROW", "SCAN counted", "SCAN admitted", "SCAN asked", "SCAN plain", "SCAN page", "SCAN sized", "SCAN several", "SCAN opened", "SCAN named", "SCAN begun", "SCAN span", "SCAN run_terms EXISTS", "SCAN (subquery-"} {
		if strings.HasPrefix(line, fine) {
			return false
		}
	}
	if strings.HasPrefix(line, "SCAN run_terms VIRTUAL TABLE INDEX") { // with a search, or a key
		return !strings.Contains(line, ":M") && !strings.HasSuffix(line, ":=")
	}
	if strings.HasPrefix(line, "SCAN run_words VIRTUAL TABLE INDEX") { // from a term
		return strings.HasSuffix(line, "INDEX 0:")
	}
	// Partial indexes hold the few rows that are meant.
	return !strings.Contains(line, "INDEX runs_unfinished") && !strings.Contains(line, "INDEX threads_unsealed") &&
		!strings.Contains(line, "INDEX instances_open")
}

// filtersThreads finds the threads of a user being read for one of a name.
var filtersThreads = regexp.MustCompile(`Filter: .*\bthread_id\b`)

// readsAllPostgres reports whether a plan reads a table, or all threads of a user. A bitmap of a whole index is one
// without a condition.
func readsAllPostgres(plan string) bool {
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		if strings.Contains(line, "Bitmap Index Scan") && (i+1 == len(lines) || !strings.Contains(lines[i+1], "Index Cond")) &&
			!strings.Contains(line, "instances_open") {
			return true
		}
	}
	return strings.Contains(plan, "Seq Scan") || filtersThreads.MatchString(strings.ReplaceAll(plan, "found.thread_id", "")) // found has one
}

// planSQLite returns the lines of a plan, each behind the number of its parent, 0 for the whole plan.
func planSQLite(t *testing.T, db *DB, name, query string) []string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	rows, err := db.w.Pool.SQL.QueryxContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, query)
		return nil
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, fmt.Sprintf("%d %s", parent, detail))
	}
	return plan
}

func planPostgres(t *testing.T, db *DB, name, query string) string {
	t.Helper()
	conn, err := db.w.Pool.SQL.Connx(t.Context())
	must(t, err)
	defer conn.Close()
	args := ""
	if n := len(regexp.MustCompile(`\$\d+`).FindAllString(query, -1)); n > 0 {
		args = "(" + strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ") + ")"
	}
	// With sequential scans forbidden and the parameters unknown, one is left only where no index will do.
	plan, err := execAll(t, conn, "SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off",
		"PREPARE planned AS "+query, "EXPLAIN EXECUTE planned"+args)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, query)
	}
	if _, err := conn.ExecContext(t.Context(), "DEALLOCATE ALL"); err != nil {
		t.Fatal(err)
	}
	return plan
}

// execAll runs statements and returns the output of the last one.
func execAll(t *testing.T, conn *sqlx.Conn, statements ...string) (string, error) {
	t.Helper()
	for _, s := range statements[:len(statements)-1] {
		if _, err := conn.ExecContext(t.Context(), s); err != nil {
			return "", err
		}
	}
	var lines []string
	err := conn.SelectContext(t.Context(), &lines, statements[len(statements)-1])
	return strings.Join(lines, "\n"), err
}

// listed returns the statements of lists by each filter that a transport may give, in the words of PostgreSQL.
func listed(t *testing.T) map[string]string {
	t.Helper()
	db, ctx, now := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db")), t.Context(), time.Now()
	begun, statements := constants(t)["selectBegun"], make(map[string]string)
	note := func(name string, list func(r lists.Pages, count bool) error) {
		for _, count := range []bool{true, false} {
			rec := &recorder{Querier: db.read}
			must(t, list(lists.NewPages(db.d, rec, sqldb.Turns{}), count))
			queries := slices.DeleteFunc(rec.queries, func(query string) bool { return query == begun })
			if !count {
				name = "uncounted " + name
			} else {
				statements["count of "+name] = queries[1] // of an empty page
			}
			statements[name] = queries[0]
		}
	}
	for name, f := range map[string]data.RunFilter{
		"": {}, "user": {User: "u"}, "status": {Statuses: []data.Status{"s"}}, "agent": {Agent: "a"}, "workflow": {WorkflowID: "w"},
		"statuses": {Statuses: []data.Status{"a", "b", "c"}}, "statuses, oldest first": {Statuses: []data.Status{"a", "b"}, Oldest: true},
		"oldest first": {Oldest: true}, "until": {Until: now},
		"thread": {ThreadKey: 1}, "since": {Since: now}, "agent since": {Agent: "a", Since: now},
		"user since": {User: "u", Since: now}, "status since": {Statuses: []data.Status{"s"}, Since: now},
		"workflow since":  {WorkflowID: "w", Since: now},
		"user and status": {User: "u", Statuses: []data.Status{"s"}}, "workflow and statuses since": {Agent: "a", Statuses: []data.Status{"a", "b"}, Since: now},
		"user and statuses of a thread": {ThreadKey: 1, User: "u", Statuses: []data.Status{"s"}, Oldest: true}, "thread from then": {ThreadKey: 1, Since: now},
		"a name alone": {Text: "!"},
		// By terms.
		"text": {Text: "t"}, "text, oldest first": {Text: "t", Oldest: true}, "text since": {Text: "t", Since: now},
		"tags": {Tags: []string{"a", "b"}}, "text, user and statuses": {Text: "t", User: "u", Statuses: []data.Status{"a", "b"}},
		"text, user and time": {Text: "t", User: "u", Since: now}, "text, statuses and time": {Text: "t", Statuses: []data.Status{"a"}, Since: now, Oldest: true},
		"text and tags": {Text: "t", Tags: []string{"a"}},
	} {
		note("runs of "+name, func(r lists.Pages, count bool) error {
			f.Project, f.Count = "p", count
			_, err := r.Runs(ctx, f)
			return err
		})
	}
	for name, f := range map[string]data.AuditFilter{
		"all": {}, "an actor": {Actor: "a"}, "an action": {Action: "a"}, "a user": {User: "a"}, "a run": {Run: "a"}, "since": {Since: now},
		"an hour": {Since: now, Until: now}, "an actor since": {Actor: "a", Since: now},
		"an actor and an action": {Actor: "a", Action: "a"},
	} {
		note("audit of "+name, func(r lists.Pages, count bool) error {
			f.Project, f.Count = "p", count
			_, err := r.Audit(ctx, f)
			return err
		})
	}
	return statements
}

// recorder is a Querier that notes statements.
type recorder struct {
	sqldb.Querier
	queries []string
	args    []any // of the last one
}

func (r *recorder) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	r.queries, r.args = append(r.queries, query), args
	return r.Querier.Query(ctx, query, args)
}

var startsStatement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b`)

// allStatements returns the constants that are whole statements.
func allStatements(t *testing.T) map[string]string {
	t.Helper()
	statements := constants(t)
	maps.DeleteFunc(statements, func(name, text string) bool {
		return !startsStatement.MatchString(text) || slices.Contains(needFilter, name)
	})
	if len(statements) < 60 {
		t.Fatalf("found only %d statements", len(statements))
	}
	return statements
}

// constants reads the sources of storage and its rooms for constants that are texts.
func constants(t *testing.T) map[string]string {
	t.Helper()
	exprs, texts := make(map[string]ast.Expr), make(map[string]string)
	var files []string
	for _, room := range []string{"", "sqldb", "members", "rows", "lists"} {
		found, err := filepath.Glob(filepath.Join(room, "*.go"))
		must(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		for _, decl := range parsed.Decls {
			if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.CONST {
				for _, spec := range decl.Specs {
					spec := spec.(*ast.ValueSpec)
					for i, value := range spec.Values {
						if name := spec.Names[i].Name; exprs[name] != nil {
							t.Errorf("two constants are named %s", name) // and only one is tested
						} else {
							exprs[name] = value
						}
					}
				}
			}
		}
	}
	for name, expr := range exprs {
		texts[name] = stringValue(exprs, expr)
	}
	return texts
}

// stringValue evaluates a constant expression of strings, "" if it is none.
func stringValue(exprs map[string]ast.Expr, expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(expr.Value)
		return text
	case *ast.Ident:
		return stringValue(exprs, exprs[expr.Name])
	case *ast.SelectorExpr: // of another room
		return stringValue(exprs, expr.Sel)
	case *ast.BinaryExpr:
		return stringValue(exprs, expr.X) + stringValue(exprs, expr.Y)
	}
	return ""
}

func TestMigrationsHaveTheSameVersions(t *testing.T) {
	t.Parallel()
	list := func(dialect string) []string {
		entries, err := fs.ReadDir(migrationsOf(dialect), ".")
		must(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if sqlite, postgres := list("sqlite"), list("postgres"); !slices.Equal(sqlite, postgres) {
		t.Errorf("sqlite has %v, postgres %v", sqlite, postgres)
	}
}

// Each start of a run looks for its thread. Planning that statement takes several times as long as executing it.
func TestPlanOfThreadsByNameIsKept(t *testing.T) {
	t.Parallel()
	db, texts := openForPlans(t, storagetest.Postgres(t).NewDatabase(t)), constants(t)
	conn, err := db.read.SQL.Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	statements := []string{"PREPARE named AS " + db.d.Forms(texts["selectThreadsByID"])[0]}
	for range 7 { // PostgreSQL tries five plans for these very parameters first
		statements = append(statements, "EXECUTE named('{p}', '{u}', '{t}')")
	}
	kept, err := execAll(t, conn, append(statements, "SELECT generic_plans FROM pg_prepared_statements WHERE name = 'named'")...)
	if err != nil || kept != "2" {
		t.Errorf("of 7 executions %q had a plan for any parameters, %v, want 2", kept, err)
	}
}

// PostgreSQL plans a statement once, with the statistics of that moment. The plan must stay good when the tables have
// grown.
func TestPlansOfGrowingTablesStayGood(t *testing.T) {
	t.Parallel()
	db, texts := openForPlans(t, storagetest.Postgres(t).NewDatabase(t)), constants(t)
	conn, err := db.w.Pool.SQL.Connx(t.Context())
	must(t, err)
	defer conn.Close()
	soon, err := execAll(t, conn, `
SELECT relname FROM pg_class JOIN pg_index ON indrelid = pg_class.oid AND NOT indisprimary
WHERE relkind = 'r' AND NOT COALESCE(reloptions && ARRAY['autovacuum_analyze_threshold=2000'], FALSE)
	AND relname IN ('threads', 'runs', 'run_names', 'run_spans', 'messages', 'interrupts', 'idempotency_keys')`)
	if err != nil || soon != "" {
		t.Errorf("what is known of these soon: %s, %v", soon, err)
	}
	reads, err := db.read.SQL.Connx(t.Context())
	must(t, err)
	defer reads.Close()
	if _, err := reads.ExecContext(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	const insert = `
INSERT INTO threads (project_id, user_id, thread_id, conversation_id, last_seq, title, created_at, updated_at)
SELECT 'p', 'u', n, n, 0, '', now(), now() FROM `
	for _, size := range []struct{ name, grow string }{
		{"empty", ""},
		{"small", insert + "generate_series(1, 300) n"},
		{"small and known", "ANALYZE threads"},
		{"large", insert + "generate_series(301, 5000) n"},
		{"large and known", "ANALYZE threads"},
	} {
		if _, err := conn.ExecContext(t.Context(), size.grow); err != nil {
			t.Fatal(err)
		}
		for name, conn := range map[string]*sqlx.Conn{"selectThreadsByID": reads, "selectThreadByID": reads, "selectThreadsNamed": conn} {
			query, params := db.d.Forms(texts[name])[0], strings.Count(texts[name], "?")
			plan, err := execAll(t, conn, "PREPARE planned AS "+query, "EXPLAIN EXECUTE planned("+strings.Repeat("NULL, ", params-1)+"NULL)")
			if err != nil || !strings.Contains(plan, "threads_project_id_user_id_thread_id_key") || readsAllPostgres(plan) {
				t.Errorf("the plan for a table that is %s is, with %v,\n%s\n%s", size.name, err, query, plan)
			}
			if _, err := conn.ExecContext(t.Context(), "DEALLOCATE planned"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
