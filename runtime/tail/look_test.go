package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// logRows is a shared store with the log of one thread, which another instance writes.
type logRows struct {
	data.Reader

	log   []data.StoredEvent
	busy  bool
	few   int // events that come with a head
	heads int // reads
	pages int
}

func (s *logRows) behind(after int64, limit int) []data.StoredEvent {
	rest := s.log[min(int(after), len(s.log)):]
	return rest[:min(limit, len(rest))]
}

func (s *logRows) LogHeads(_ context.Context, of []data.LogPlace) ([]data.LogHead, error) {
	s.heads++
	h := data.LogHead{Thread: of[0].Thread, Last: int64(len(s.log)), Busy: s.busy}
	if of[0].After >= 0 {
		h.Latest = s.behind(of[0].After, s.few)
	}
	return []data.LogHead{h}, nil
}

func (s *logRows) Events(_ context.Context, _, after int64, limit int) ([]data.StoredEvent, error) {
	s.pages++
	return s.behind(after, limit), nil
}

func (s *logRows) write(n int) {
	for range n {
		id := int64(len(s.log) + 1)
		s.log = append(s.log, data.StoredEvent{ThreadKey: 1, ID: id, RunKey: 7, RunID: "run", Kind: agui.TypeCustom, Payload: fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, id)})
	}
}

// A look brings the first events of the other instance's run, and its readers read pages only for those behind them. No look is made for a
// reader at the end of a log with a run.
func TestLook_BringsTheLatestEvents(t *testing.T) { synctest.Test(t, testLook) }

func testLook(t *testing.T) {
	s := &logRows{busy: true, few: 8}
	s.write(2)
	logs := New(Config{Store: s, Shared: true, RingEvents: 100, RingBytes: 1 << 20, RingsBytes: 1 << 20})
	cur, err := logs.Read(t.Context(), quota.Owner{}, 1, "thread", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	next := int64(1)
	read := func(heads, pages int) {
		t.Helper()
		for !cur.Waits() && !cur.Ended() {
			recs, err := cur.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range recs {
				if rec.ID != next {
					t.Fatalf("event %d comes where %d is next", rec.ID, next)
				}
				next++
			}
		}
		if s.busy {
			ctx, leave := context.WithCancel(t.Context())
			go func() { // until the reader leaves
				synctest.Wait()
				leave()
			}()
			if _, err := cur.Next(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a reader at the end does not wait: %v", err)
			}
		}
		if next != int64(len(s.log))+1 || s.heads != heads || s.pages != pages {
			t.Errorf("before event %d of %d after %d heads and %d pages; want %d and %d", next, len(s.log), s.heads, s.pages, heads, pages)
		}
	}
	look := func(n int) {
		t.Helper()
		s.write(n)
		if err := logs.Look(t.Context(), Foreign); err != nil {
			t.Fatal(err)
		}
	}
	read(1, 1)
	look(5)
	read(2, 1)
	look(3)
	read(3, 1)
	look(20) // 8 come with the head
	read(4, 2)
	s.busy = false
	look(1)
	if _, err := cur.Next(t.Context()); err != nil {
		t.Error(err)
	}
	next++
	if _, err := cur.Next(t.Context()); !errors.Is(err, io.EOF) { // after another look, as the last one began before the reader had its event
		t.Errorf("the reader does not end: %v", err)
	}
	read(6, 2)
}
