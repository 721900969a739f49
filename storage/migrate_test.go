package storage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/storagetest"
)

// Messages that were stored before there were days of history stand in them like later ones.
func TestMigrationFindsDaysOfHistory(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db := openForPlans(t, url)
			if err := db.Join(ctx, "instance", ""); err != nil {
				t.Fatal(err)
			}
			day := time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)
			thread := &runtime.Thread{Project: "p", User: "u", ID: "t", ConversationID: "c", CreatedAt: day, UpdatedAt: day}
			err := db.Commit(ctx, 1, nil, func(tx runtime.Tx) error {
				if err := tx.Put(thread); err != nil {
					return err
				}
				for i, m := range []agui.Message{
					{ID: `"\"role":"reasoning`, Role: agui.RoleUser, Content: "a\x00b"},
					{ID: "first", Role: agui.RoleAssistant, Content: `{"id":"x","role":"activity"}`},
					{ID: `}"role":"user"`, Role: agui.RoleReasoning},
					{ID: "last", Role: agui.RoleTool, ToolCallID: "c", Metadata: []byte(`{"id":"x","role":"activity"}`)},
					{ID: "had to wait", Role: agui.RoleUser, Content: "more"},
				} {
					row := &runtime.Message{
						ThreadKey: thread.Key, Seq: int64(i + 1), State: runtime.MessageConsumed, Message: m,
						CreatedAt: day.Add(time.Duration(i%4) * 8 * time.Hour),
					}
					if err := tx.Put(row); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			history := func(at time.Time) (ids []string) {
				t.Helper()
				msgs, err := db.History(ctx, thread.Key, at, 0, 10)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range msgs {
					ids = append(ids, m.ID)
				}
				return ids
			}
			for _, back := range []string{
				`DROP INDEX messages_day`, `DROP INDEX idempotency_keys_run`, `ALTER TABLE messages DROP COLUMN day`,
				`DELETE FROM schema_versions WHERE version_id = 2`,
			} {
				if err := db.session.exec(ctx, back); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = openForPlans(t, url)
			want := [][]string{{`"\"role":"reasoning`, "first"}, {"last", "had to wait"}}
			if diff := cmp.Diff(want, [][]string{history(day), history(day.AddDate(0, 0, 1))}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
