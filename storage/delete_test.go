package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
)

// deleteThread deletes a thread by parts, and says how many it took.
func (l *workload) deleteThread(tb testing.TB, key int64, limit int) (parts int) {
	tb.Helper()
	for {
		l.commit(tb, nil, &data.Delete{ThreadKey: key, Limit: limit})
		parts++
		if _, err := l.db.Thread(tb.Context(), key); errors.Is(err, data.ErrNotFound) {
			return parts
		}
	}
}

func gone(t *testing.T, db data.Store, key int64) {
	t.Helper()
	if _, err := db.Thread(t.Context(), key); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("Thread: %v", err)
	}
	if _, err := db.LastEventID(t.Context(), key); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("LastEventID: %v", err)
	}
	if left := readLog(t, db, key, 500); len(left) > 0 {
		t.Errorf("%d events are left, the first is %d", len(left), left[0].ID)
	}
}

func TestDeletedThreadLeavesNoSealedEvents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log, want := history(t, db, 3, 4, 310) // 1240 events in each thread
		if n, err := db.Retention.Seal(t.Context(), time.Now().Add(2*time.Hour)); err != nil || n == 0 || n == 3*1240 {
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
		if _, err := db.Retention.Seal(t.Context(), time.Now().Add(72*time.Hour)); err != nil {
			t.Fatal(err)
		}
		sameLog(t, readLog(t, db, kept, 97), want[kept])
		gone(t, db, log.threads[0])
	})
}

// Events that are sealed during their thread's deletion are deleted too, and ids are not reused before its end.
func TestThreadIsDeletedWhileItIsSealed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log, want := history(t, db, 8, 1, 900)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, after := range []time.Duration{2 * time.Hour, 72 * time.Hour} {
			wg.Go(func() { // ends when all are deleted
				for ctx.Err() == nil {
					if _, err := db.Retention.Seal(ctx, time.Now().Add(after)); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		for _, key := range log.threads[1:] {
			log.commit(t, nil, &data.Delete{ThreadKey: key, Limit: 1})
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

// deleteRun deletes a run by parts, and says how many it took.
func (l *workload) deleteRun(tb testing.TB, d data.Delete) (parts int) {
	tb.Helper()
	for d.Left = true; d.Left; parts++ {
		l.commit(tb, nil, &d)
	}
	return parts
}

// The events of a long run are removed in parts, sealed or not, and its neighbours' events stay.
func TestEventsOfARunGoInParts(t *testing.T) {
	t.Parallel()
	const most = 20
	for name, open := range databases {
		for form, sealed := range map[string]time.Duration{"plain": 0, "sealed": 72 * time.Hour} {
			for what, events := range map[string]bool{"run": false, "events alone": true} {
				t.Run(name+"/"+form+"/"+what, func(t *testing.T) {
					db := open(t)
					log, want := history(t, joined(t, db), 1, 1, 300)
					first := log.runs[0]
					log.commit(t, nil, log.nextRuns(t, "again")...)
					for range 60 {
						log.commit(t, log.batch(10))
					}
					log.commit(t, nil, log.finishRuns(t)...)
					if sealed > 0 {
						if n, err := db.Retention.Seal(t.Context(), time.Now().Add(sealed)); err != nil || n == 0 {
							t.Fatalf("%d events are sealed, %v", n, err)
						}
					}
					thread, second := log.threads[0], log.runs[0]
					before := len(readLog(t, db, thread, 500))
					parts, d := 0, data.Delete{ThreadKey: thread, RunKey: second, Events: events, Limit: most}
					for d.Left = true; d.Left; parts++ {
						log.commit(t, nil, &d)
						left := len(readLog(t, db, thread, 500))
						if sealed == 0 && before-left > 11*most { // each row has ten events
							t.Fatalf("a part has removed %d events", before-left)
						}
						before = left
					}
					if sealed == 0 && parts < 60/most {
						t.Errorf("all is gone after %d parts", parts)
					}
					kept := readLog(t, db, thread, 500)
					sameLog(t, kept, want[thread][:len(kept)])
					if n := len(want[thread]); len(kept) != n || kept[n-1].RunKey != first {
						t.Errorf("%d events of the neighbour are left of %d", len(kept), n)
					}
					if last, err := db.LastEventID(t.Context(), thread); err != nil || last <= kept[len(kept)-1].ID {
						t.Errorf("the log ends at %d, %v", last, err)
					}
					if _, err := db.Run(t.Context(), second); errors.Is(err, data.ErrNotFound) == events {
						t.Errorf("the run: %v", err)
					}
				})
			}
		}
	}
}

// Each part of a deletion has few rows, whatever the thread or run contains.
func TestPartsOfADeletionAreSmall(t *testing.T) {
	t.Parallel()
	const most = 500
	for name, open := range databases {
		for kind, rows := range map[string]func(run int64, n int) data.Row{
			"steps": func(run int64, n int) data.Row {
				return &data.Step{RunKey: run, Number: n + 2, StartedAt: time.Now()}
			},
			"nodes": func(run int64, n int) data.Row { return &data.Node{RunKey: run, NodeID: fmt.Sprint(n)} },
			"interrupts": func(run int64, n int) data.Row {
				return &data.Interrupt{RunKey: run, ID: fmt.Sprint(n), Status: data.InterruptCancelled, CreatedAt: time.Now()}
			},
			"messages": func(run int64, n int) data.Row {
				m := &data.Message{ThreadKey: run, RunKey: run, Seq: int64(n + 1), State: data.MessageConsumed}
				m.ID, m.Role = fmt.Sprint(n), agui.RoleUser
				return m
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				log := newLog(t, joined(t, open(t)), 2)
				var list []data.Row
				for n := range 4 * most {
					list = append(list, rows(log.runs[0], n), rows(log.runs[1], n))
				}
				log.commit(t, nil, list...)
				const want = 4
				if parts := log.deleteThread(t, log.threads[0], most); parts < want {
					t.Errorf("all of a thread is gone after %d parts, want %d", parts, want)
				}
				if parts := log.deleteRun(t, data.Delete{ThreadKey: log.threads[1], RunKey: log.runs[1], Limit: most}); parts < want {
					t.Errorf("all of a run is gone after %d parts, want %d", parts, want)
				}
			})
		}
	}
}

// TestDelete_SealedRunsTogether removes runs with sealed events in one batch: those of whole segments, and one that shares segments.
func TestDelete_SealedRunsTogether(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		for what, events := range map[string]bool{"runs": false, "events alone": true} {
			t.Run(name+"/"+what, func(t *testing.T) {
				db := open(t)
				log, want := history(t, joined(t, db), 4, 1, 100)
				first := slices.Clone(log.runs)
				log.commit(t, nil, log.nextRuns(t, "again")...)
				log.commit(t, log.batch(40))
				log.commit(t, nil, log.finishRuns(t)...)
				if n, err := db.Retention.Seal(t.Context(), time.Now().Add(72*time.Hour)); err != nil || n == 0 {
					t.Fatalf("%d events are sealed, %v", n, err)
				}
				var all []*data.Delete
				for i, thread := range log.threads {
					all = append(all, &data.Delete{ThreadKey: thread, RunKey: log.runs[i], Events: events, Limit: 500})
					if i > 0 { // the first thread keeps its first run
						all = append(all, &data.Delete{ThreadKey: thread, RunKey: first[i], Events: events, Limit: 500})
					}
				}
				for parts := 0; len(all) > 0; parts++ {
					if parts > len(log.threads) {
						t.Fatalf("%d runs are left after %d parts", len(all), parts)
					}
					var rows []data.Row
					for _, d := range all {
						rows = append(rows, d)
					}
					log.commit(t, nil, rows...)
					all = slices.DeleteFunc(all, func(d *data.Delete) bool { return !d.Left })
				}
				for i, thread := range log.threads {
					got := readLog(t, db, thread, 500)
					if i > 0 && len(got) != 0 {
						t.Errorf("%d events of thread %d are left", len(got), i)
					}
					if i == 0 {
						kept := len(want[thread])
						sameLog(t, got, want[thread][:kept])
						if len(got) != kept || got[kept-1].RunKey != first[0] {
							t.Errorf("%d events of the run that stays are left of %d", len(got), kept)
						}
					}
					if _, err := db.Run(t.Context(), log.runs[i]); errors.Is(err, data.ErrNotFound) == events {
						t.Errorf("the run of thread %d: %v", i, err)
					}
				}
			})
		}
	}
}
