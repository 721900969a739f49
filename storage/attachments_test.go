package storage_test

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
)

// onBoth runs a test on a new database of each kind, which this process has joined.
func onBoth(t *testing.T, test func(t *testing.T, db *storage.DB)) {
	t.Helper()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			joined(t, db)
			test(t, db)
		})
	}
}

var plenty = data.Quota{Files: 100, Bytes: math.MaxInt64}

// attached returns a kept attachment.
func attached(t *testing.T, db *storage.DB, user, path string, created time.Time) data.Attachment {
	t.Helper()
	a := data.Attachment{Project: "p", User: user, Path: path, Filename: "f.png", Type: "image/png", Size: 10, CreatedAt: created.UTC().Truncate(time.Millisecond)}
	a.UsedAt = a.CreatedAt
	must(t, db.Attachments.ReserveAttachment(t.Context(), &a, plenty))
	must(t, db.Attachments.KeepAttachment(t.Context(), a.Key, 7))
	a.Size = 7
	return a
}

func keysOf(list []data.Attachment) (keys []int64) {
	for _, a := range list {
		keys = append(keys, a.Key)
	}
	slices.Sort(keys)
	return keys
}

func TestAttachmentsAreFoundOnceTheyAreThere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		now := time.Now()
		a := attached(t, db, "alice", "a", now)
		got, err := db.Attachments.AttachmentByPath(t.Context(), "p", "a")
		if err != nil || got != a {
			t.Errorf("got %+v, %v, want %+v", got, err, a)
		}
		for _, path := range []string{"b", "", "A", "a\x00", "\xff"} {
			if _, err := db.Attachments.AttachmentByPath(t.Context(), "p", path); !errors.Is(err, data.ErrNotFound) {
				t.Errorf("%q: %v", path, err)
			}
		}
		if _, err := db.Attachments.AttachmentByPath(t.Context(), "q", "a"); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("in another project: %v", err)
		}
		reserved := data.Attachment{Project: "p", User: "alice", Path: "r", CreatedAt: now}
		must(t, db.Attachments.ReserveAttachment(t.Context(), &reserved, plenty))
		if _, err := db.Attachments.AttachmentByPath(t.Context(), "p", "r"); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("while it is reserved: %v", err)
		}
		if err := db.Attachments.KeepAttachment(t.Context(), a.Key, 8); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("kept twice: %v", err)
		}
		must(t, db.Attachments.LoseAttachments(t.Context(), a.Key))
		if _, err := db.Attachments.AttachmentByPath(t.Context(), "p", "a"); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("once it is gone: %v", err)
		}
	})
}

// TestQuotaHoldsForManyAtOnce reserves more attachments concurrently than the quota allows.
func TestQuotaHoldsForManyAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		for _, c := range []struct {
			user string
			most data.Quota
			want int
		}{{"files", data.Quota{Files: 5, Bytes: 1000}, 5}, {"bytes", data.Quota{Files: 50, Bytes: 75}, 7}} {
			var wg sync.WaitGroup
			errs := make([]error, 20)
			for i := range errs {
				wg.Go(func() {
					a := data.Attachment{Project: "p", User: c.user, Path: c.user + string(rune('a'+i)), Size: 10, CreatedAt: time.Now()}
					errs[i] = db.Attachments.ReserveAttachment(t.Context(), &a, c.most)
				})
			}
			wg.Wait()
			n := 0
			for _, err := range errs {
				if err == nil {
					n++
				} else if !errors.Is(err, data.ErrQuota) {
					t.Error(err)
				}
			}
			if n != c.want {
				t.Errorf("%s: %d were reserved, want %d", c.user, n, c.want)
			}
			other := data.Attachment{Project: "p", User: "other", Path: "other" + c.user, Size: 10, CreatedAt: time.Now()}
			if err := db.Attachments.ReserveAttachment(t.Context(), &other, c.most); err != nil {
				t.Errorf("another user: %v", err)
			}
		}
	})
}

func TestOnlyOwnAttachmentsAreUsed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		a, b := attached(t, db, "alice", "a", time.Now()), attached(t, db, "bob", "b", time.Now())
		list, err := db.Attachments.UseAttachments(t.Context(), "p", "alice", []string{a.Path, b.Path, "c", "\x00"})
		if err != nil || !slices.Equal(keysOf(list), []int64{a.Key}) {
			t.Errorf("got %v, %v", list, err)
		}
		if list, err = db.Attachments.UseAttachments(t.Context(), "p", "alice", nil); err != nil || len(list) > 0 {
			t.Errorf("got %v, %v", list, err)
		}
	})
}

// TestOnlyOrphansAreCollected has attachments that are new, old, asked for, used by runs, and used by runs that go.
func TestOnlyOrphansAreCollected(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		ctx, now := t.Context(), time.Now()
		old := now.Add(-48 * time.Hour)
		fresh := attached(t, db, "alice", "fresh", now)
		orphan := attached(t, db, "alice", "orphan", old)
		asked := attached(t, db, "alice", "asked", old)
		of1, of2, both := attached(t, db, "alice", "1", old), attached(t, db, "alice", "2", old), attached(t, db, "alice", "both", old)
		never := data.Attachment{Project: "p", User: "alice", Path: "never", CreatedAt: old}
		must(t, db.Attachments.ReserveAttachment(ctx, &never, plenty))
		if _, err := db.Attachments.UseAttachments(ctx, "p", "alice", []string{"asked"}); err != nil {
			t.Fatal(err)
		}
		threads, runs := make([]int64, 2), make([]int64, 2)
		for i := range threads {
			thread, run := newThreadAndRun(t, db, string(rune('a'+i)))
			threads[i], runs[i] = thread, run
			rows := []data.Row{&data.AttachmentUse{RunKey: run, Key: both.Key}, &data.AttachmentUse{RunKey: run, Key: []int64{of1.Key, of2.Key}[i]}}
			commit(t, db, int64(2*i+2), rows...)
		}
		collect := func(want ...int64) {
			t.Helper()
			list, err := db.Attachments.CollectAttachments(ctx, now.Add(-24*time.Hour), new(data.Attachment), 100)
			slices.Sort(want)
			if got := keysOf(list); err != nil || !slices.Equal(got, want) {
				t.Errorf("collected %v, %v, want %v", got, err, want)
			}
			if err := db.Attachments.ForgetAttachments(ctx, keysOf(list)...); err != nil {
				t.Error(err)
			}
		}
		collect(orphan.Key, never.Key)
		collect()
		n := int64(5)
		remove := func(d *data.Delete) {
			t.Helper()
			commit(t, db, n, d)
			n++
		}
		remove(&data.Delete{ThreadKey: threads[0], Limit: 1000})
		collect(of1.Key)
		remove(&data.Delete{ThreadKey: threads[1], RunKey: runs[1], Limit: 1000})
		collect(of2.Key, both.Key)
		for _, a := range []data.Attachment{fresh, asked} {
			if _, err := db.Attachments.AttachmentByPath(ctx, "p", a.Path); err != nil {
				t.Errorf("%s: %v", a.Path, err)
			}
		}
	})
}

func TestAttachmentsExpire(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		ctx, now := t.Context(), time.Now()
		old := now.Add(-time.Hour)
		attached(t, db, "alice", "1", old)
		attached(t, db, "alice", "2", now)
		attached(t, db, "bob", "3", old)
		_, run := newThreadAndRun(t, db, "a")
		used := attached(t, db, "alice", "4", old)
		commit(t, db, 2, &data.AttachmentUse{RunKey: run, Key: used.Key})
		for _, c := range []struct {
			user   string
			before time.Time
			dry    bool
			want   int
		}{
			{"alice", now.Add(-time.Minute), true, 2},
			{"alice", now.Add(-time.Minute), false, 2},
			{"alice", now.Add(-time.Minute), false, 0},
			{"", now.Add(-time.Minute), true, 1},
			{"", now.Add(time.Minute), false, 2},
		} {
			if n, err := db.Attachments.ExpireAttachments(ctx, "p", c.user, c.before, c.dry); err != nil || n != c.want {
				t.Errorf("%+v: %d, %v", c, n, err)
			}
		}
		var got []int64
		for behind := new(data.Attachment); ; { // one after the other
			list, err := db.Attachments.CollectAttachments(ctx, old, behind, 1)
			must(t, err)
			if len(list) == 0 {
				break
			}
			got, behind = append(got, list[0].Key), &list[0]
		}
		if slices.Sort(got); len(slices.Compact(got)) != 4 {
			t.Errorf("%v are gone", got)
		}
	})
}

// commit writes rows as batch n.
func commit(t *testing.T, db *storage.DB, n int64, rows ...data.Row) {
	t.Helper()
	must(t, db.Commit(t.Context(), n, &data.Batch{Rows: rows}))
}

// newThreadAndRun writes a thread with a run, as the next odd batch.
func newThreadAndRun(t *testing.T, db *storage.DB, name string) (thread, run int64) {
	t.Helper()
	thread, err := db.NewThreadKey(t.Context())
	must(t, err)
	if run, err = db.NewRunKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	th := data.ThreadHead{Key: thread, Project: "p", User: "alice", ID: name, ConversationID: name, CreatedAt: now, UpdatedAt: now}
	head := data.RunHead{
		Key: run, ThreadKey: thread, Project: "p", User: "alice", ID: name, Agent: "a", WorkflowID: "a",
		Status: data.Completed, Generation: 1, CreatedAt: now, QueuedAt: now, FinishedAt: &now,
	}
	n := int64(1)
	if name == "b" {
		n = 3
	}
	commit(t, db, n, &data.Thread{ThreadHead: th}, &data.Run{RunHead: head})
	return thread, run
}
