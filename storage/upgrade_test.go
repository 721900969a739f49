package storage

import (
	"encoding/base64"
	"maps"
	"path/filepath"
	"reflect"
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

// segmentOnce is a segment of three events, the last of which is of another run.
const segmentOnce = "KLUv/QQAGQIAAQECI3sidHlwZSI6IlJVTl9TVEFSVEVEIn0KT0REIHsiYSI6MX0KAgMDGHsidHlwZSI6IlJVTl9GSU5JU0hFRCJ9Cn/1Og8="

// added tells which version of the schema has brought a table or a column that earlier ones with rows do not have.
var added = map[string]int64{
	"steps.tells_node": 19, "interrupts.project_id": 20, "interrupts.user_id": 20, "stats_buckets": 20, "stats_open": 20,
	"api_key_projects": 21, "api_keys.name": 21, "audit.subject": 21, "tokens": 23,
}

// stored are rows of every table that a schema has, and what is named of those that later ones have.
func stored(schema int64, later ...string) []row {
	has := func(name string) bool { return added[name] <= schema || slices.Contains(later, name) }
	var list []row
	for _, r := range storedRows() {
		if has(r.table) {
			maps.DeleteFunc(r.values, func(column string, _ any) bool { return !has(r.table + "." + column) })
			list = append(list, r)
		}
	}
	return list
}

func storedRows() []row {
	hour := func(n int) time.Time { return oldDay.Add(time.Duration(n) * time.Hour) }
	thread := func(id string, last, sealed int) row {
		return row{"threads", map[string]any{
			"project_id": "p", "user_id": "u", "thread_id": id, "conversation_id": "c " + id, "last_seq": last, "sealed_to": sealed,
			"last_message_seq": 2, "title": "title of " + id, "metadata": `{"b": 2}`, "archived": id == "over", "created_at": oldDay,
			"updated_at": hour(last),
		}}
	}
	run := func(thread int, id, status string, finished any) row {
		return row{"runs", map[string]any{
			"thread_key": thread, "id": id, "project_id": "p", "user_id": "u", "agent": "echo", "workflow_id": "echo", "status": status,
			"output_summary": "sum of " + id, "error": `{"code":"c","message":"m"}`,
			"usage":      `[{"provider":"x","model":"y","inputTokens":3,"outputTokens":4,"totalTokens":7}]`,
			"generation": 2, "attempt": 1, "spans": 1, "span_name": "again", "turn": 3, "answered": id == "asks", "owner_instance": "gone",
			"replaces": `[{"run":1,"generation":1}]`, "roll_back": id == "waits", "closed_event_id": 2, "created_at": hour(thread),
			"queued_at": hour(thread), "started_at": hour(thread + 1), "finished_at": finished,
		}}
	}
	input := func(key int) row {
		return row{"run_inputs", map[string]any{
			"run_key": key, "input": `{"i":1}`, "definition": `{"nodes": []}`, "input_query": "query", "context_item_ids": `["x"]`,
			"metadata": `{"m":1}`, "parent_run": "parent",
		}}
	}
	span := func(run, thread, first, last int) row {
		return row{"run_spans", map[string]any{
			"run_key": run, "n": 1, "thread_key": thread, "run_id": "again", "generation": 2, "first_event_id": first,
			"last_event_id": last, "state": `{"s":1}`,
		}}
	}
	message := func(thread, run, seq int, state string, m agui.Message) row {
		r := oldMessage(m, seq, oldDay)
		maps.Copy(r.values, map[string]any{
			"thread_key": thread, "run_key": run, "state": state, "context_item_ids": `["y"]`, "day": oldDay.Unix() / 86400,
		})
		return r
	}
	events := func(thread, run, first, last int, lines string) row {
		return row{"events", map[string]any{
			"thread_key": thread, "first_event_id": first, "last_event_id": last, "run_key": run, "committed_at": oldDay, "payload": lines,
		}}
	}
	interrupt := func(id, status, project, user string, payload any) row {
		return row{"interrupts", map[string]any{
			"run_key": 3, "interrupt_id": id, "step": 1, "place": "ask#1", "tool": "pick", "frontend": true, "body": `{"id":"q"}`,
			"status": status, "payload": payload, "expires_at": hour(1), "created_at": oldDay, "project_id": project, "user_id": user,
		}}
	}
	key := func(id, project string, created time.Time) row {
		return row{"api_keys", map[string]any{
			"id": id, "hash": "h", "user_id": "u", "projects": `["` + project + `"]`, "role": "admin", "created_at": created,
			"expires_at": hour(2), "revoked_at": hour(1), "name": "key " + id,
		}}
	}
	attachment := func(path, state string) row {
		return row{"attachments", map[string]any{
			"project_id": "p", "user_id": "u", "path": path, "filename": "f", "type": "image/png", "size": 5, "state": state,
			"created_at": oldDay, "used_at": oldDay,
		}}
	}
	segment, _ := base64.StdEncoding.DecodeString(segmentOnce)
	return []row{
		thread("over", 5, 3), thread("open", 4, 0), thread("empty", 0, 0),
		{"thread_states", map[string]any{"thread_key": 1, "state": `{"a": 1}`}},
		{"thread_states", map[string]any{"thread_key": 2, "state": nil}},
		{"thread_states", map[string]any{"thread_key": 3, "state": `{}`}},
		run(1, "plain", "COMPLETED", hour(3)), run(1, "sealed", "FAILED", hour(3)), run(2, "asks", "WAITING", nil), run(2, "waits", "QUEUED", nil),
		input(1), input(3), input(4),
		{"sealed_runs", map[string]any{"run_key": 2, "data": sealedOnce}},
		{"run_names", map[string]any{"project_id": "p", "user_id": "u", "name": "plain", "run_key": 1, "body_hash": "h"}},
		span(1, 1, 1, 2), span(2, 1, 3, 5), span(3, 2, 1, 4),
		{"event_segments", map[string]any{"thread_key": 1, "first_event_id": 1, "last_event_id": 3, "events": 3, "data": segment}},
		events(1, 2, 4, 5, `{"type":"CUSTOM"}`+"\n"+`{"type":"RUN_ERROR"}`+"\n"), events(2, 3, 1, 4, strings.Repeat(`ODD {"a":"\u0000"}`+"\n", 4)),
		{"steps", map[string]any{
			"run_key": 1, "number": 1, "id": "s", "generation": 2, "node_id": "told", "name": "node", "execution": 3, "status": "COMPLETED",
			"input": "in", "output": "out", "error": `{"code":"c","message":"m"}`, "started_at": oldDay, "completed_at": hour(1),
			"tells_node": true,
		}},
		{"node_states", map[string]any{
			"run_key": 1, "node_id": "n", "status": "COMPLETED", "progress": 0.5, "messages": `["a"]`, "output": `{"answer":"x"}`,
			"error": `{"code":"c","message":"m"}`, "started_at": oldDay, "completed_at": hour(1),
		}},
		message(1, 1, 1, "consumed", agui.Message{ID: "a", Role: agui.RoleUser, Content: "a\x00b"}),
		message(1, 1, 2, "hidden", agui.Message{ID: "b", Role: agui.RoleTool, ToolCallID: "call", Content: "b"}),
		message(2, 4, 0, "queued", agui.Message{ID: "c", Role: agui.RoleUser, Content: "c"}),
		{"memos", map[string]any{
			"run_key": 3, "generation": 2, "step": 1, "place": "ask#1", "tool": "pick", "agent": "a", "hash": "h", "call_id": "q",
			"begun": true, "done": true, "output": `{"o":1}`,
		}},
		interrupt("q", "open", "p", "u", nil), interrupt("answered", "answered", "", "", `{"yes":true}`),
		{"instances", map[string]any{
			"id": "gone", "fenced": true, "addr": "a:1", "commit_no": 7, "started_at": oldDay, "leased_until": oldDay, "process": "p",
			"ended": "left",
		}},
		{"idempotency_keys", map[string]any{"scope": "s", "body_hash": "h", "run_key": 1, "answer": `{"w":1}`, "created_at": oldDay}},
		key("k", "p", oldDay), key("l", "q", hour(1)),
		{"api_key_projects", map[string]any{"project_id": "p", "id": "k"}},
		{"api_key_projects", map[string]any{"project_id": "q", "id": "l"}},
		{"secrets", map[string]any{"purpose": "links", "value": "secret", "created_at": oldDay}},
		{"audit", map[string]any{
			"project_id": "p", "user_id": "u", "actor": "admin", "action": "start", "thread_id": "over", "run_id": "plain", "credential": "k",
			"address": "127.0.0.1", "request": "r", "at": oldDay, "subject": "k",
		}},
		attachment("used", "used"), attachment("kept", "kept"), attachment("lost", "gone"),
		{"attachment_uses", map[string]any{"run_key": 1, "attachment_key": 2}},
		{"stats_buckets", map[string]any{"project_id": "p", "step": 3600, "at": oldDay, "data": `{"s":5,"c":4,"f":1}`}},
		{"stats_open", map[string]any{"run_key": 3, "project_id": "p", "usage": `[{"provider":"x","model":"y","inputTokens":1,"totalTokens":1}]`}},
		{"tokens", map[string]any{"at": oldDay, "project_id": "p", "tokens": 9}},
	}
}

// filled makes a database of a version that has these rows, and returns which tables have none. What migrations have counted
// before there were rows is set right.
func filled(t *testing.T, url string, version int64, rows []row) (empty []string) {
	t.Helper()
	fillOld(t, url, version, rows)
	d, err := dialectOf(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := d.open(Config{URL: url}.withDefaults(), writing)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if slices.ContainsFunc(rows, func(r row) bool { return r.table == "stats_buckets" }) {
		db.MustExecContext(t.Context(), "UPDATE stats_mark SET run_key = 3")
	}
	if d.single && version >= 25 {
		db.MustExecContext(t.Context(), "UPDATE given_keys SET last = CASE name WHEN 'runs' THEN 4 ELSE 3 END")
	}
	tables := "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
	if d.single {
		tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
	}
	if err := db.SelectContext(t.Context(), &empty, tables); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(empty, func(table string) bool {
		var n int
		if err := db.GetContext(t.Context(), &n, "SELECT count(*) FROM "+table); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// shownBy is all that a database shows of what stored has put there, by what is asked for.
func shownBy(t *testing.T, db *DB) map[string]any {
	t.Helper()
	ctx, now := t.Context(), oldDay.AddDate(0, 0, 1)
	all := make(map[string]any)
	see := func(what string) func(any, error) {
		return func(got any, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			all[what] = got
		}
	}
	see("a thread")(db.Thread(ctx, 1))
	see("a thread by its name")(db.ThreadByID(ctx, "p", "u", "empty"))
	see("a thread by its conversation")(db.ThreadByConversation(ctx, "p", "c open"))
	see("the latest thread")(db.LatestThread(ctx, "p", "u"))
	see("a listed thread")(db.ListedThread(ctx, "p", 1))
	see("threads")(db.Threads(ctx, model.ThreadFilter{Project: "p", Limit: 9}))
	see("users")(db.Users(ctx, model.UserFilter{Project: "p", Limit: 9}))
	see("a run")(db.Run(ctx, 1))
	see("a sealed run")(db.Run(ctx, 2))
	see("runs by name")(db.RunsByName(ctx, "p", "u", "plain"))
	see("runs")(db.Runs(ctx, model.RunFilter{Project: "p", Limit: 9}))
	see("open runs")(db.OpenRuns(ctx, 2))
	see("the last run")(db.LastRun(ctx, 2))
	see("what waits")(db.Unfinished(ctx, model.Waiting, 0, 0, 9))
	see("ended runs")(db.EndedRuns(ctx, "p", now, model.EndedRun{}, 9))
	see("projects")(db.Projects(ctx))
	see("steps")(db.Steps(ctx, "p", 1, 0, 9))
	see("sealed steps")(db.Steps(ctx, "p", 2, 0, 9))
	see("nodes")(db.Nodes(ctx, 1))
	see("sealed nodes")(db.Nodes(ctx, 2))
	see("states of nodes")(db.NodeStates(ctx, "p", 1))
	see("messages of a run")(db.RunMessages(ctx, "p", 1, 0, 9))
	see("messages")(db.Messages(ctx, 1, 0, 9))
	see("messages before")(db.MessagesBefore(ctx, "p", 1, 0, true, 9))
	see("messages by id")(db.MessagesByID(ctx, 1, []string{"a", "call"}))
	see("queued messages")(db.Queued(ctx, 4))
	see("the last seq")(db.LastSeq(ctx, 1))
	see("a day of history")(db.HistoryDay(ctx, "p", 1, now))
	see("history")(db.History(ctx, "p", 1, oldDay, 0, 9))
	see("events")(db.Events(ctx, 1, 0, 9))
	see("events that are not sealed")(db.Events(ctx, 2, 0, 9))
	see("the last event")(db.LastEventID(ctx, 1))
	see("spans")(db.Spans(ctx, 1))
	see("the next span")(db.SpanAfter(ctx, 1, 1))
	see("weight")(db.Weight(ctx, 1, 1))
	see("memos")(db.Memos(ctx, 3, 2))
	see("interrupts")(db.Interrupts(ctx, 3))
	see("what has expired")(db.Expired(ctx, now, 9))
	see("questions")(db.Questions(ctx, model.QuestionFilter{Project: "p", User: "u", Limit: 9}))
	see("audit")(db.Audit(ctx, model.AuditFilter{Project: "p", Limit: 9}))
	see("keys")(db.APIKeys(ctx, []string{"k", "l"}))
	see("keys of a project")(db.ProjectAPIKeys(ctx, "p", 9, 9))
	see("keys of another project")(db.ProjectAPIKeys(ctx, "q", 9, 9))
	see("a secret")(db.Secret(ctx, "links"))
	see("an attachment")(db.AttachmentByPath(ctx, "p", "used"))
	see("attachments of a user")(db.AttachmentsOf(ctx, "p", "u"))
	see("tokens")(db.TokensAfter(ctx, model.Tokens{}, 9))
	see("an instance")(db.Instance(ctx, "gone"))
	see("the next thread")(db.NewThreadKey(ctx))
	see("the next run")(db.NewRunKey(ctx))
	see("attachments that nobody needs")(db.CollectAttachments(ctx, now, &model.Attachment{}, 9))
	stats, err := db.Stats(ctx, "p", time.Hour, oldDay, now)
	stats.Instances = nil // among them the one that asks
	see("stats")(stats, err)
	decided := model.Batch{
		Asks: []model.Ask{{Thread: 2, RunName: model.Name{Project: "p", User: "u", ID: "plain"}, Scope: "s", IDs: []string{"c"}, Interrupts: []string{"answered"}}},
		Decide: func(_ int, v *model.View) model.Changes {
			shown := *v
			shown.Now = time.Time{}
			all["a decision"] = shown
			return model.Changes{}
		},
	}
	if err := db.Commit(ctx, 1, &decided); err != nil {
		t.Error(err)
	}
	return all
}

// What the schema before the newest has keeps its rows, and so do the tables that migrations since have built anew: of all of them the
// newest shows what it shows of the same rows that were never migrated.
func TestMigrationKeepsEveryTable(t *testing.T) {
	files, err := migrations.ReadDir("migrations/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	version := func(back int) int64 {
		n, err := goose.NumericComponent(files[len(files)-back].Name())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, from := range map[string]int64{"from the one before": version(2), "from before tables were built anew": 18} {
		for kind, url := range map[string]func(file string) string{
			"sqlite":   func(file string) string { return "sqlite:" + filepath.Join(t.TempDir(), file) },
			"postgres": func(string) string { return storagetest.Postgres(t).NewDatabase(t) },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				look := func(url string) map[string]any {
					db := openForPlans(t, url)
					if err := db.Join(t.Context(), "instance", ""); err != nil {
						t.Fatal(err)
					}
					return shownBy(t, db)
				}
				old, never := url("old.db"), url("never.db")
				if empty := filled(t, old, from, stored(from)); len(empty) > 0 {
					t.Errorf("nothing is stored in %v", empty)
				}
				filled(t, never, version(1), stored(from, "api_key_projects", "interrupts.project_id", "interrupts.user_id"))
				got, want := look(old), look(never)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				for what, got := range got {
					v := reflect.ValueOf(got)
					if from >= added[what] && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0) {
						t.Errorf("%s: there is nothing", what)
					}
				}
			})
		}
	}
}
