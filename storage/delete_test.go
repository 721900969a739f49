package storage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// deleteThread deletes a thread by parts, and says how many it took.
func (l *workload) deleteThread(tb testing.TB, key int64, limit int) (parts int) {
	tb.Helper()
	for {
		l.commit(tb, nil, &model.Delete{ThreadKey: key, Limit: limit})
		parts++
		if _, err := l.db.Thread(tb.Context(), key); errors.Is(err, model.ErrNotFound) {
			return parts
		}
	}
}

func gone(t *testing.T, db model.Store, key int64) {
	t.Helper()
	if _, err := db.Thread(t.Context(), key); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("Thread: %v", err)
	}
	if _, err := db.LastEventID(t.Context(), key); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("LastEventID: %v", err)
	}
	if left := readLog(t, db, key, 500); len(left) > 0 {
		t.Errorf("%d events are left, the first is %d", len(left), left[0].ID)
	}
}

func TestDeletedThreadLeavesNoSealedEvents(t *testing.T) {
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			log, want := history(t, joined(t, db), 3, 4, 310) // 1240 events in each thread
			if n, err := db.Seal(t.Context(), time.Now().Add(2*time.Hour)); err != nil || n == 0 || n == 3*1240 {
				t.Fatalf("%d events are sealed, %v", n, err)
			}
			for i, limit := range []int{500, 7} {
				key := log.threads[i]
				if parts := log.deleteThread(t, key, limit); (parts > 1) != (limit < 500) {
					t.Errorf("%d rows at once took %d parts", limit, parts)
				}
				gone(t, db, key)
			}
			kept := log.threads[2]
			sameLog(t, readLog(t, db, kept, 500), want[kept])
			if _, err := db.Seal(t.Context(), time.Now().Add(72*time.Hour)); err != nil {
				t.Fatal(err)
			}
			sameLog(t, readLog(t, db, kept, 97), want[kept])
			gone(t, db, log.threads[0])
		})
	}
}

// What is sealed while its thread is being deleted goes with it, and ids are not used again before all is gone.
func TestThreadIsDeletedWhileItIsSealed(t *testing.T) {
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			log, want := history(t, joined(t, db), 8, 1, 900)
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for _, after := range []time.Duration{2 * time.Hour, 72 * time.Hour} {
				wg.Go(func() { // ends when all are deleted
					for ctx.Err() == nil {
						if _, err := db.Seal(ctx, time.Now().Add(after)); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
			for _, key := range log.threads[1:] {
				log.commit(t, nil, &model.Delete{ThreadKey: key, Limit: 1})
				if last, err := db.LastEventID(t.Context(), key); err != nil || last != 900 {
					t.Errorf("half deleted, the log ends at %d, %v", last, err)
				}
				log.deleteThread(t, key, 20)
			}
			stop()
			wg.Wait()
			for _, key := range log.threads[1:] {
				gone(t, db, key)
			}
			sameLog(t, readLog(t, db, log.threads[0], 500), want[log.threads[0]])
		})
	}
}
