package storage

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

// countingDecoder counts decompressed bytes.
type countingDecoder struct {
	eventlog.Decoder
	n atomic.Int64
}

func (c *countingDecoder) DecodeAll(input, dst []byte) ([]byte, error) {
	c.n.Add(1)
	return c.Decoder.DecodeAll(input, dst)
}

// Two readers of the pages of a sealed log decompress each segment once. They do not see events that are removed from a segment
// meanwhile.
func TestSegmentsAreDecompressedOnce(t *testing.T) {
	t.Parallel()
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	ctx, now := t.Context(), time.Now()
	must(t, db.Members().Join(ctx, "instance", ""))
	const events, perRun = 10_000, 2500
	rows := []data.Row{&data.Thread{ThreadHead: data.ThreadHead{Key: 1, LastEventID: events, CreatedAt: now, UpdatedAt: now}}}
	for run := range int64(events / perRun) {
		head := data.RunHead{Key: run + 1, ThreadKey: 1, ID: fmt.Sprint(run), Status: data.Completed, CreatedAt: now, QueuedAt: now, FinishedAt: &now}
		rows = append(rows, &data.Run{RunHead: head},
			&data.Span{RunKey: run + 1, N: 1, ThreadKey: 1, First: run*perRun + 1, Last: (run + 1) * perRun})
	}
	said := make([]data.StoredEvent, events)
	for i := range said {
		payload := fmt.Sprintf(`{"type":"CUSTOM","name":"%d"}`, i)
		said[i] = data.StoredEvent{ThreadKey: 1, ID: int64(i + 1), RunKey: int64(i/perRun + 1), Kind: agui.TypeCustom, Payload: []byte(payload)}
	}
	must(t, db.Commit(ctx, 1, &data.Batch{Rows: rows, Events: said}))
	if n, err := db.Retention.Seal(ctx, now.Add(48*time.Hour)); err != nil || n != events {
		t.Fatalf("%d events are sealed: %v", n, err)
	}
	segments, err := sqldb.One(ctx, db.read, sqldb.Scalar[int64], "SELECT count(*) FROM event_segments")
	if err != nil || segments < 9 {
		t.Fatalf("%d segments, %v", segments, err)
	}
	c := &countingDecoder{Decoder: db.codec.Decoder}
	db.codec.Decoder = c
	// next reads a page behind at, and returns its end and the number of the second run's events.
	next := func(at int64) (end int64, second int) {
		t.Helper()
		page, err := db.Events(ctx, 1, at, 500)
		must(t, err)
		for i := range page {
			if want := fmt.Sprintf(`"name":"%d"`, page[i].ID-1); !strings.Contains(string(page[i].Payload), want) {
				t.Fatalf("event %d is %s", page[i].ID, page[i].Payload)
			}
			if page[i].RunKey == 2 {
				second++
			}
			at = page[i].ID
		}
		return at, second
	}
	for one, other := int64(0), int64(0); one < events; {
		one, _ = next(one)
		other, _ = next(other)
	}
	if n := c.n.Load(); n != segments {
		t.Errorf("two readers have %d segments decompressed, want %d", n, segments)
	}
	must(t, db.Commit(ctx, 2, &data.Batch{Rows: []data.Row{&data.Delete{ThreadKey: 1, RunKey: 2, Limit: 100}}}))
	for at := int64(0); at < events; {
		var removed int
		if at, removed = next(at); removed > 0 {
			t.Fatalf("%d events of a run that was deleted", removed)
		}
	}
}
