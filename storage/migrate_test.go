package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/storagetest"
)

// row is a row of an older schema.
type row struct {
	table  string
	values map[string]any
}

// migrated fills databases of each kind that have an older version, and tests what they have become.
func migrated(t *testing.T, version int64, fill []row, test func(*testing.T, *DB)) {
	t.Helper()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			fillOld(t, url, version, fill)
			db := openForPlans(t, url)
			if err := db.Join(t.Context(), "instance", ""); err != nil {
				t.Fatal(err)
			}
			test(t, db)
		})
	}
}

func fillOld(t *testing.T, url string, version int64, fill []row) {
	t.Helper()
	d, err := dialectOf(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := d.open(Config{URL: url}.withDefaults(), migrating)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir, err := fs.Sub(migrations, "migrations/"+d.name)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(d.goose, db.DB, dir, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, row := range fill {
		columns := slices.Sorted(maps.Keys(row.values))
		query := fmt.Sprintf("INSERT INTO %s (%s) VALUES (:%s)", row.table, strings.Join(columns, ", "), strings.Join(columns, ", :"))
		if _, err := db.NamedExecContext(t.Context(), query, row.values); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

var oldDay = time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)

func oldThread(id string) row {
	return row{"threads", map[string]any{
		"project_id": "p", "user_id": "u", "thread_id": id, "conversation_id": "c " + id, "last_seq": 7,
		"state": `{"a": 1}`, "title": "title", "metadata": `{"b": 2}`, "created_at": oldDay, "updated_at": oldDay,
	}}
}

func oldMessage(m agui.Message, seq int, created time.Time) row {
	return row{"messages", map[string]any{
		"thread_key": 1, "seq": seq, "event_id": seq, "state": "consumed", "message_id": m.ID, "tool_call_id": m.ToolCallID,
		"message": string(m.AppendJSON(nil, agui.Stored)), "created_at": created,
	}}
}

// Messages that were stored before there were days of history stand in them like later ones.
func TestMigrationFindsDaysOfHistory(t *testing.T) {
	fill := []row{oldThread("t")}
	for i, m := range []agui.Message{
		{ID: `"\"role":"reasoning`, Role: agui.RoleUser, Content: "a\x00b"},
		{ID: "first", Role: agui.RoleAssistant, Content: `{"id":"x","role":"activity"}`},
		{ID: `}"role":"user"`, Role: agui.RoleReasoning},
		{ID: "last", Role: agui.RoleTool, ToolCallID: "c", Metadata: []byte(`{"id":"x","role":"activity"}`)},
		{ID: "had to wait", Role: agui.RoleUser, Content: "more"},
	} {
		fill = append(fill, oldMessage(m, i+1, oldDay.Add(time.Duration(i%4)*8*time.Hour)))
	}
	migrated(t, 1, fill, func(t *testing.T, db *DB) {
		history := func(at time.Time) (ids []string) {
			t.Helper()
			msgs, err := db.History(t.Context(), "p", 1, at, 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range msgs.Rows {
				ids = append(ids, m.ID)
			}
			return ids
		}
		want := [][]string{{`"\"role":"reasoning`, "first"}, {"last", "had to wait"}}
		if diff := cmp.Diff(want, [][]string{history(oldDay), history(oldDay.AddDate(0, 0, 1))}); diff != "" {
			t.Error(diff)
		}
	})
}

// Threads and runs of a database in which decisions read whole rows keep what they had.
func TestMigrationKeepsThreadsAndRuns(t *testing.T) {
	empty := oldThread("empty")
	empty.values["state"], empty.values["metadata"] = nil, nil
	run := func(id string, input any) row {
		return row{"runs", map[string]any{
			"thread_key": 1, "id": id, "project_id": "p", "user_id": "u", "agent": "echo", "workflow_id": "echo",
			"status": "QUEUED", "input": input, "definition": input, "input_query": "query " + id, "output_summary": "sum",
			"error": `{"code":"c","message":"m"}`, "usage": nil, "context_item_ids": `["x"]`, "metadata": `{"m":1}`,
			"parent_run": "parent", "background": true, "generation": 2, "attempt": 1, "answered": false, "owner_instance": "o",
			"closed_event_id": 3, "created_at": oldDay, "queued_at": oldDay,
		}}
	}
	span := func(n, first, last int) row {
		return row{"run_spans", map[string]any{
			"run_key": 1, "n": n, "thread_key": 1, "run_id": "r", "generation": 1, "first_event_id": first, "last_event_id": last,
		}}
	}
	fill := []row{
		oldThread("t"), empty, run("first", `{"i":1}`), run("second", nil), span(1, 1, 0), span(2, 4, 6), span(3, 7, 0),
		oldMessage(agui.Message{ID: "a", Role: agui.RoleUser, Content: "a"}, 4, oldDay),
		oldMessage(agui.Message{ID: "b", Role: agui.RoleUser, Content: "b"}, 9, oldDay),
		{"run_names", map[string]any{"project_id": "p", "user_id": "u", "name": "first", "run_key": 1}},
		{"idempotency_keys", map[string]any{"scope": "s", "body_hash": "h", "run_key": 1, "status": 0, "created_at": oldDay}},
	}
	head := func(key int64, id string, spans int) model.RunHead {
		return model.RunHead{
			Key: key, ThreadKey: 1, Project: "p", User: "u", ID: id, Agent: "echo", WorkflowID: "echo", Status: model.Queued,
			Generation: 2, Attempt: 1, Spans: spans, Owner: "o", ClosedEvent: 3, Error: &agui.OutputError{Code: "c", Message: "m"},
			CreatedAt: oldDay, QueuedAt: oldDay,
		}
	}
	migrated(t, 2, fill, func(t *testing.T, db *DB) {
		ctx := t.Context()
		thread, err := db.ThreadByID(ctx, "p", "u", "t")
		want := model.Thread{
			ThreadHead: model.ThreadHead{
				Key: 1, Project: "p", User: "u", ID: "t", ConversationID: "c t", LastEventID: 7, LastSeq: 9, CreatedAt: oldDay,
				UpdatedAt: oldDay,
			},
			State: []byte(`{"a": 1}`), Title: "title", Metadata: []byte(`{"b": 2}`),
		}
		if diff := cmp.Diff(want, thread); err != nil || diff != "" {
			t.Errorf("the thread: %v\n%s", err, diff)
		}
		thread, err = db.ThreadByID(ctx, "p", "u", "empty")
		if err != nil || thread.State != nil || thread.LastSeq != 0 {
			t.Errorf("the empty thread: %+v, %v", thread, err)
		}
		runs := make([]model.Run, 2)
		for i := range runs {
			var err error
			if runs[i], err = db.Run(ctx, int64(2-i)); err != nil {
				t.Error(err)
			}
		}
		input := []byte(`{"i":1}`)
		wantRuns := []model.Run{{RunHead: head(2, "second", 0)}, {RunHead: head(1, "first", 3), Input: input, Definition: input}}
		for i := range wantRuns {
			r := &wantRuns[i]
			r.InputQuery, r.OutputSummary, r.ContextItemIDs = "query "+r.ID, new("sum"), []string{"x"}
			r.Metadata, r.ParentRun, r.ThreadID, r.ConversationID = []byte(`{"m":1}`), "parent", "t", "c t"
			r.ThreadTitle = "title"
		}
		if diff := cmp.Diff(wantRuns, runs); err != nil || diff != "" {
			t.Errorf("the runs: %v\n%s", err, diff)
		}
		named, err := db.RunsByName(ctx, "p", "u", "first")
		if err != nil || len(named) != 1 || named[0].Key != 1 {
			t.Errorf("the run by its name: %v, %v", named, err)
		}
		spans, err := db.Spans(ctx, 1)
		if err != nil || len(spans) != 3 || spans[0].Last != 3 || spans[1].Last != 6 || spans[2].Last != 0 {
			t.Errorf("the spans: %+v, %v", spans, err)
		}
		key, err := db.NewRunKey(ctx)
		if err != nil || key != 3 {
			t.Errorf("the next run has key %d, %v", key, err)
		}
	})
}

// What open runs had recorded is found at the places where their workers look for it now.
func TestMigrationPlacesRecordsOfOpenRuns(t *testing.T) {
	run := func(key int, status string) row {
		return row{"runs", map[string]any{
			"key": key, "thread_key": 1, "id": fmt.Sprint(key), "project_id": "p", "user_id": "u", "agent": "a",
			"workflow_id": "a", "status": status, "input_query": "", "parent_run": "", "background": false, "generation": 2,
			"attempt": 0, "answered": false, "owner_instance": "", "closed_event_id": 0, "created_at": oldDay, "queued_at": oldDay,
		}}
	}
	memo := func(run, generation int, name string, n int, call string, done bool) row {
		return row{"memos", map[string]any{
			"run_key": run, "generation": generation, "step": 1, "name": name, "n": n, "call_id": call, "done": done,
		}}
	}
	interrupt := func(id, name string, n int, body any) row {
		return row{"interrupts", map[string]any{
			"run_key": 1, "interrupt_id": id, "step": 1, "name": name, "n": n, "frontend": body == nil, "body": body,
			"status": "open", "created_at": oldDay,
		}}
	}
	long := strings.Repeat("x", 300)
	fill := []row{
		oldThread("t"), run(1, "WAITING"), run(2, "COMPLETED"),
		memo(1, 1, "ask", 1, "", true), memo(2, 2, "ask", 1, "", true), // nobody needs them
		memo(1, 2, "do:fetch page", 2, "", true), memo(1, 2, "do:50%/a#b", 1, "", true), memo(1, 2, "do:"+long, 1, "", true),
		memo(1, 2, "next", 1, "", true),
		memo(1, 2, "tool:deploy", 1, "call-1", true), // refused before anybody was asked
		memo(1, 2, "tool:deploy", 2, "call-2", false), memo(1, 2, "approve:deploy", 1, "q-2", true),
		memo(1, 2, "tool:deploy", 3, "call-3", false), memo(1, 2, "approve:deploy", 2, "q-3", false),
		memo(1, 2, "agent:child#1/tool:pick", 1, "call-4", false), memo(1, 2, "tool:slow", 1, "call-5", false),
		memo(1, 2, "agent:child", 1, "sub", false), memo(1, 2, "agent:child#1/ask", 1, "q-1", false),
		memo(1, 2, "agent:child#1/agent:child#1/agent:grandchild#1/ask", 1, "q-4", true),
		interrupt("q-1", "agent:child#1/ask", 1, `{"id":"q-1"}`),
		interrupt("q-2", "approve:deploy", 1, `{"id":"q-2","toolCallId":"call-2"}`),
		interrupt("q-3", "approve:deploy", 2, `{"id":"q-3","toolCallId":"call-3","metadata":{"args":"\u0000"}}`),
		interrupt("call-4", "agent:child#1/tool:pick", 1, nil),
	}
	placed := func(p, tool, agent, call string, begun, done bool) model.Memo {
		return model.Memo{
			RunKey: 1, Generation: 2, Step: 1, Place: p, Tool: tool, Agent: agent, CallID: call, Begun: begun, Done: done,
		}
	}
	migrated(t, 2, fill, func(t *testing.T, db *DB) {
		memos, err := db.Memos(t.Context(), 1, 2)
		if diff := cmp.Diff([]model.Memo{
			placed("?agent:child#1/agent:child#1/agent:grandchild#1/ask#1", "", "", "q-4", false, true),
			placed("?do:"+long+"#1", "", "", "", false, true),
			placed("agent:child#1", "", "child", "sub", false, false),
			placed("agent:child#1/ask#1", "", "", "q-1", false, false),
			placed("agent:child#1/tool:pick#1", "pick", "", "call-4", false, false),
			placed("do:50%25%2Fa%23b#1", "", "", "", false, true),
			placed("do:fetch page#2", "", "", "", false, true),
			placed("next#1", "", "", "", false, true),
			placed("tool:deploy#1", "deploy", "", "call-1", false, true),
			placed("tool:deploy#2", "deploy", "", "call-2", true, false),
			placed("tool:deploy#2/approval", "", "", "q-2", false, true),
			placed("tool:deploy#3", "deploy", "", "call-3", false, false),
			placed("tool:deploy#3/approval", "", "", "q-3", false, false),
			placed("tool:slow#1", "slow", "", "call-5", true, false),
		}, memos); err != nil || diff != "" {
			t.Errorf("the records: %v\n%s", err, diff)
		}
		for _, old := range []model.Memo{{RunKey: 1, Generation: 1}, {RunKey: 2, Generation: 2}} {
			if memos, err := db.Memos(t.Context(), old.RunKey, old.Generation); err != nil || len(memos) != 0 {
				t.Errorf("records that nobody needs: %v, %v", memos, err)
			}
		}
		asks, err := db.Interrupts(t.Context(), 1)
		var got []string
		for _, in := range asks {
			got = append(got, fmt.Sprint(in.ID, " ", in.Place, " ", in.Tool))
		}
		want := []string{
			"q-1 agent:child#1/ask#1 ", "q-2 tool:deploy#2/approval ", "q-3 tool:deploy#3/approval ",
			"call-4 agent:child#1/tool:pick#1 pick",
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("the interrupts: %v\n%s", err, diff)
		}
	})
}

// Runs, their names, spans and steps, and the states of threads and nodes outlive that they are kept in fewer rows.
func TestMigrationKeepsRunsInFewerRows(t *testing.T) {
	thread := func(id string) row {
		r := oldThread(id)
		delete(r.values, "state")
		r.values["last_message_seq"] = 0
		return r
	}
	fill := []row{
		thread("t"), thread("empty"), thread("stateless"),
		{"thread_states", map[string]any{"thread_key": 1, "state": `{"a": 1}`}},
		{"thread_states", map[string]any{"thread_key": 2, "state": `{}`}},
		{"runs", map[string]any{
			"thread_key": 1, "id": "first", "project_id": "p", "user_id": "u", "agent": "echo", "workflow_id": "echo",
			"status": "RUNNING", "generation": 1, "attempt": 0, "answered": false, "owner_instance": "o", "closed_event_id": 0,
			"created_at": oldDay, "queued_at": oldDay, "spans": 2,
		}},
		{"run_inputs", map[string]any{"run_key": 1, "input_query": "q", "parent_run": ""}},
		{"run_names", map[string]any{"project_id": "p", "user_id": "u", "name": "first", "run_key": 1, "body_hash": "h"}},
		{"run_names", map[string]any{"project_id": "p", "user_id": "u", "name": "later", "run_key": 1}},
	}
	for n, last := range []int{3, 0} {
		fill = append(fill, row{"run_spans", map[string]any{
			"run_key": 1, "n": n + 1, "thread_key": 1, "run_id": "r", "generation": 1, "first_event_id": 3*n + 1, "last_event_id": last,
			"state": `{"s":1}`,
		}})
	}
	for n, node := range []string{"a", "b"} {
		fill = append(fill, row{"steps", map[string]any{
			"run_key": 1, "number": n + 1, "id": "s" + node, "generation": 1, "node_id": node, "name": node, "execution": 1,
			"status": "COMPLETED", "input": "in", "output": "out " + node, "started_at": oldDay, "completed_at": oldDay,
		}}, row{"node_states", map[string]any{
			"run_key": 1, "node_id": node, "status": "COMPLETED", "progress": 1, "output": `{"answer":"` + node + `"}`,
			"started_at": oldDay, "completed_at": oldDay,
		}})
	}
	migrated(t, 15, fill, func(t *testing.T, db *DB) {
		ctx := t.Context()
		for id, want := range map[string]string{"t": `{"a": 1}`, "empty": `{}`, "stateless": ""} {
			if th, err := db.ThreadByID(ctx, "p", "u", id); err != nil || string(th.State) != want {
				t.Errorf("the state of %s is %s, %v", id, th.State, err)
			}
		}
		for _, name := range []string{"first", "later"} {
			if runs, err := db.RunsByName(ctx, "p", "u", name); err != nil || len(runs) != 1 || runs[0].InputQuery != "q" {
				t.Errorf("the run named %s: %v, %v", name, runs, err)
			}
		}
		if runs, err := db.Runs(ctx, model.RunFilter{Project: "p", Agent: "echo"}); err != nil || runs.Total != 1 || len(runs.Rows) != 1 {
			t.Errorf("runs of the agent: %v, %v", runs, err)
		}
		if open, err := db.Unfinished(ctx, model.Running, 0, 0, 10); err != nil || len(open) != 1 {
			t.Errorf("open runs: %v, %v", open, err)
		}
		spans, err := db.Spans(ctx, 1)
		if err != nil || len(spans) != 2 || spans[0].Last != 3 || spans[1].First != 4 || string(spans[1].State) != `{"s":1}` {
			t.Errorf("the spans: %+v, %v", spans, err)
		}
		page, err := db.Steps(ctx, "p", 1, 0, 10)
		if steps := page.Rows; err != nil || len(steps) != 2 || *steps[1].Output != "out b" || !steps[1].CompletedAt.Equal(oldDay) {
			t.Errorf("the steps: %+v, %v", page, err)
		}
		nodes, err := db.Nodes(ctx, 1)
		if err != nil || len(nodes) != 2 || string(nodes[1].Output) != `{"answer":"b"}` {
			t.Errorf("the nodes: %+v, %v", nodes, err)
		}
		second := model.Span{RunKey: 1, N: 3, ThreadKey: 1, RunID: "r", First: 7}
		if err := db.Commit(ctx, 1, &model.Batch{Rows: []model.Row{&second}}); err == nil {
			t.Error("a span begins while another is open")
		}
		end := model.Batch{Rows: []model.Row{&model.SpanEnd{RunKey: 1, N: 2, Last: 6}, &second}}
		if err := db.Commit(ctx, 1, &end); err != nil {
			t.Error(err)
		}
		if err := db.Commit(ctx, 2, &model.Batch{Rows: []model.Row{&model.Delete{ThreadKey: 1, Limit: 500}}}); err != nil {
			t.Error(err)
		}
		for _, table := range []string{"runs", "run_inputs", "run_names", "run_spans", "steps", "node_states"} {
			if n, err := one(ctx, db.read, scalar[int], "SELECT count(*) FROM "+table); err != nil || n != 0 {
				t.Errorf("of the thread %d rows of %s are left, %v", n, table, err)
			}
		}
	})
}

// A database that a server has is not migrated under it: who only migrates is told who it is, who is to serve waits until
// it has left, and who takes over fences it.
func TestNoDatabaseIsMigratedUnderItsServer(t *testing.T) {
	for name, takeover := range map[string]bool{"leaves": false, "is fenced": true} {
		t.Run(name, func(t *testing.T) {
			url := storagetest.Postgres(t).NewDatabase(t)
			fillOld(t, url, leasesVersion, []row{{"instances", map[string]any{
				"id": "first", "fenced": false, "addr": "a:1", "commit_no": 0, "started_at": oldDay, "leased_until": time.Now().Add(time.Hour),
			}}})
			first := model.HeldError{Instance: "first", Addr: "a:1"}
			if held, ok := errors.AsType[*model.HeldError](Migrate(t.Context(), Config{URL: url})); !ok || *held != first {
				t.Errorf("Migrate: %v, want it to name the first", held)
			}
			told := make(chan string, 10)
			type opened struct {
				db  *DB
				err error
			}
			result := make(chan opened, 1)
			go func() {
				db, err := Open(t.Context(), Config{URL: url, Migrate: true, Takeover: takeover, Log: slog.New(slog.NewTextHandler(lines(told), nil))})
				result <- opened{db, err}
			}()
			direct, err := openPostgres(Config{URL: url}.withDefaults(), writing)
			if err != nil {
				t.Fatal(err)
			}
			defer direct.Close()
			if !takeover {
				if line := <-told; !strings.Contains(line, "a:1") {
					t.Errorf("it says %q", line)
				}
				if got := (opened{}); len(result) > 0 {
					got = <-result
					t.Fatalf("it did not wait: %v", got.err)
				}
				if _, err := direct.Exec(`UPDATE instances SET fenced = TRUE, ended = 'left'`); err != nil {
					t.Fatal(err)
				}
			}
			got := <-result
			if got.err != nil {
				t.Fatal(got.err)
			}
			defer got.db.Close()
			if in, err := got.db.Instance(t.Context(), "first"); err != nil || takeover != (in.End == model.EndFenced) {
				t.Errorf("the first: %+v, %v", in, err)
			}
		})
	}
}

// A server that has been silent for longer than its lease lasts does not write on after a migration.
func TestMigrationFencesTheSilent(t *testing.T) {
	url := storagetest.Postgres(t).NewDatabase(t)
	fillOld(t, url, leasesVersion, []row{{"instances", map[string]any{
		"id": "silent", "fenced": false, "addr": "a:1", "commit_no": 0, "started_at": oldDay, "leased_until": oldDay,
	}}})
	db := openForPlans(t, url)
	if in, err := db.Instance(t.Context(), "silent"); err != nil || in.End != model.EndCrashed {
		t.Errorf("the silent one: %+v, %v, want the end %q", in, err, model.EndCrashed)
	}
}

// lines is a writer that passes on what it is told.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
