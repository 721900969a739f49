package storage

import (
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/storagetest"
)

// A damaged row keeps no look from the other logs. Its readers get the error.
func TestLogHeads_LeaveOutDamagedEvents(t *testing.T) {
	t.Parallel()
	db := joins(t, Config{URL: storagetest.Postgres(t).NewDatabase(t), Migrate: true, Lease: time.Hour}, "x")
	for _, insert := range []string{
		`INSERT INTO threads (key, project_id, user_id, thread_id, conversation_id, last_seq, title, created_at, updated_at)
			SELECT k, 'p', 'ann', k::text, k::text, 1, '', now(), now() FROM generate_series(1, 2) AS k`,
		`INSERT INTO run_spans (run_key, n, thread_key, run_id, generation, first_event_id, last_event_id) SELECT k, 1, k, 'run', 1, 1, 1 FROM generate_series(1, 2) AS k`,
		`INSERT INTO events (thread_key, first_event_id, last_event_id, run_key, committed_at, payload)
			VALUES (1, 1, 1, 1, now(), 'no line'), (2, 1, 1, 2, now(), E'{"type":"CUSTOM"}\n')`,
	} {
		if _, err := db.w.Pool.SQL.ExecContext(t.Context(), insert); err != nil {
			t.Fatal(err)
		}
	}
	heads, err := db.LogHeads(t.Context(), []data.LogPlace{{Thread: 1}, {Thread: 2}})
	must(t, err)
	for _, h := range heads {
		if want := int(h.Thread - 1); h.Last != 1 || len(h.Latest) != want {
			t.Errorf("thread %d ends at %d, with %d events; want %d", h.Thread, h.Last, len(h.Latest), want)
		}
	}
	if _, err := db.Events(t.Context(), 1, 0, 1); len(heads) != 2 || err == nil {
		t.Errorf("%d heads, and the damaged event is read: %v", len(heads), err)
	}
}
