package commit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// store answers commits as a test defines, and records the numbers and events of all commits.
type store struct {
	commit func(n int64, b *data.Batch) error
	renew  func() error // nil for one that succeeds
	kept   int          // how often the lease was renewed between attempts
	asked  []string
}

func (s *store) Commit(_ context.Context, n int64, b *data.Batch) error {
	ids := []string{fmt.Sprint(n, ":")}
	for i := range b.Events {
		ids = append(ids, fmt.Sprint(b.Events[i].ID))
	}
	s.asked = append(s.asked, strings.Join(ids, " "))
	return s.commit(n, b)
}

func (s *store) KeepLease(context.Context) error {
	s.kept++
	return nil
}

func (s *store) Renew(context.Context, int64) error {
	if s.renew == nil {
		return nil
	}
	return s.renew()
}

// open starts a queue that commits to s until the test ends.
func open(t *testing.T, s *store, cfg commit.Config) *commit.Queue {
	t.Helper()
	cfg.Store, cfg.Lease, cfg.Log, cfg.Heartbeat, cfg.Patience = s, s, cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), cmp.Or(cfg.Heartbeat, time.Hour), time.Minute
	cfg.RunBytes, cfg.Bytes, cfg.BatchEvents, cfg.BatchBytes = 10, 100, 100, 1000
	cfg.Live = func() int { return 1 }
	cfg.Queued = func(string, string) data.InQueue { return data.InQueue{} }
	cfg.Lost = func(error) {}
	if cfg.Show == nil {
		cfg.Show = func([]*commit.Item) {}
	}
	q := commit.New(cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Run(t.Context())
	}()
	t.Cleanup(func() {
		q.Finish()
		<-done
	})
	return q
}

// event returns an item of a run with one event of eight bytes.
func event(s *commit.Source, id int64) *commit.Item {
	return &commit.Item{Source: s, Events: []data.StoredEvent{{ID: id, Payload: []byte("12345678")}}}
}

func TestWhatWaitsIsOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		db := &store{commit: func(int64, *data.Batch) error { <-gate; return nil }}
		shown := 0
		q := open(t, db, commit.Config{Show: func(batch []*commit.Item) { shown += len(batch) }})
		a, b := q.Source(quota.Owner{}, nil), q.Source(quota.Owner{}, nil)
		q.Add(event(a, 1))
		synctest.Wait() // it is being committed
		if q.Add(event(a, 2)) || !q.Add(event(a, 3)) {
			t.Error("what one run says while a commit runs is not one item")
		}
		q.Add(event(b, 4))
		if shown != 0 {
			t.Error("something was shown before it was stored")
		}
		flushed := make(chan error, 1)
		go func() { flushed <- q.Flush() }()
		synctest.Wait() // it waits in the queue
		close(gate)
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		if want := []string{"1: 1", "2: 2 3 4"}; !slices.Equal(db.asked, want) {
			t.Errorf("got the commits %q, want %q", db.asked, want)
		}
		if shown != 4 { // with the flush
			t.Errorf("%d items were shown", shown)
		}
	})
}

func TestQueue_GathersWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then func(q *commit.Queue, s *commit.Source) // after the commit of event 1, while event 2 waits
		want string
		at   time.Duration
	}{
		"an event": {func(q *commit.Queue, s *commit.Source) { q.Add(event(s, 3)) }, "2: 2 3", 10 * time.Millisecond},
		"an event that a run awaits": {func(q *commit.Queue, s *commit.Source) {
			it := event(s, 3)
			it.Done = []func(error){func(error) {}}
			q.Add(it)
		}, "2: 2 3", 0},
		"a command": {func(q *commit.Queue, _ *commit.Source) { q.Add(&commit.Item{Command: &decide.Look{}}) }, "2: 2", 0},
		"a run that waits for room": {func(q *commit.Queue, s *commit.Source) {
			q.Add(event(s, 3))
			go s.Room()
		}, "2: 2 3", 0},
		"the end": {func(q *commit.Queue, _ *commit.Source) { q.Finish() }, "2: 2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, committed := time.Now(), make(chan time.Duration, 1)
				db := &store{commit: func(n int64, _ *data.Batch) error {
					if n == 2 {
						committed <- time.Since(began)
					}
					return nil
				}}
				q := open(t, db, commit.Config{Gather: 10 * time.Millisecond})
				s := q.Source(quota.Owner{}, nil)
				q.Add(event(s, 1))
				synctest.Wait()
				q.Add(event(s, 2))
				synctest.Wait()
				c.then(q, s)
				if at := <-committed; at != c.at || db.asked[1] != c.want {
					t.Errorf("got the commit %q after %v, want %q after %v", db.asked[1], at, c.want, c.at)
				}
			})
		})
	}
}

// A crowd of decisions takes several commits; a run's events behind them are in the first.
func TestStreamsDoNotWaitForACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		s := &store{}
		var decided []int
		s.commit = func(n int64, b *data.Batch) error {
			if n == 1 {
				<-first // while the others gather
			}
			decided = append(decided, len(b.Asks))
			return nil
		}
		q := open(t, s, commit.Config{})
		run := q.Source(quota.Owner{}, func(error) {})
		q.Add(event(run, 1))
		synctest.Wait()
		for i := range int64(300) {
			q.Add(&commit.Item{Command: &decide.Look{Thread: i + 1}})
		}
		q.Add(event(run, 2))
		flushed := make(chan error, 1)
		go func() { flushed <- q.Flush() }()
		synctest.Wait()
		close(first)
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 256, 44}; !slices.Equal(decided, want) {
			t.Errorf("%v decisions when all was flushed, want %v", decided, want)
		}
		if want := []string{"1: 1", "2: 2", "3:"}; !slices.Equal(s.asked, want) {
			t.Errorf("commits of %v, want %v", s.asked, want)
		}
	})
}

func TestUnknownBatchIsWrittenAgainAsItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failures := 3
		db := &store{commit: func(int64, *data.Batch) error {
			if failures--; failures >= 0 {
				return data.ErrUnavailable
			}
			return nil
		}}
		q := open(t, db, commit.Config{})
		s := q.Source(quota.Owner{}, nil)
		q.Add(event(s, 1))
		synctest.Wait()
		q.Add(event(s, 2))
		if q.Trouble() == nil {
			t.Error("nobody is told that the database is away")
		}
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1: 1", "1: 1", "1: 1", "1: 1", "2: 2"}; !slices.Equal(db.asked, want) {
			t.Errorf("got the commits %q, want %q", db.asked, want)
		}
		if db.kept != 3 {
			t.Errorf("the lease was renewed %d times between 4 attempts", db.kept)
		}
		if err := q.Trouble(); err != nil {
			t.Errorf("the database is back, and there is still %v", err)
		}
	})
}

func TestFaultyDataFailsItsRunAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faulty := errors.New("a value that no column takes")
		db := &store{commit: func(_ int64, b *data.Batch) error {
			if slices.ContainsFunc(b.Events, func(ev data.StoredEvent) bool { return ev.ID == 2 }) {
				return faulty
			}
			return nil
		}}
		q := open(t, db, commit.Config{})
		var told error
		guilty, other := q.Source(quota.Owner{}, func(err error) { told = err }), q.Source(quota.Owner{}, func(err error) { t.Error(err) })
		q.Add(event(other, 1))
		q.Add(event(guilty, 2))
		q.Add(event(other, 3))
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(told, faulty) || !guilty.Lost() || other.Lost() {
			t.Errorf("the run was told %v, and is lost: %v, the other: %v", told, guilty.Lost(), other.Lost())
		}
		behind := event(guilty, 4)
		if err := q.Decide(behind); err == nil {
			t.Error("what stands behind an event that is missing was stored")
		}
	})
}

func TestRunWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		db := &store{commit: func(int64, *data.Batch) error { <-gate; return nil }}
		q := open(t, db, commit.Config{})
		s := q.Source(quota.Owner{}, nil)
		q.Add(event(s, 1))
		synctest.Wait()
		q.Add(event(s, 2))
		q.Add(event(s, 3)) // 16 bytes wait, of 10
		var passed, shut bool
		go func() { s.Room(); passed = true }()
		synctest.Wait()
		if passed {
			t.Error("a run goes on though there is no room")
		}
		gate <- struct{}{}
		synctest.Wait() // the rest is being committed
		if !passed {
			t.Error("a run waits though there is room")
		}
		q.Add(event(s, 4))
		q.Add(event(s, 5))
		go func() { s.Room(); shut = true }()
		synctest.Wait()
		s.Shut()
		synctest.Wait()
		if !shut {
			t.Error("a run waits for room that has nothing to say any more")
		}
		close(gate)
	})
}

// A server that has nothing to write detects a silent database by its lease.
func TestSilentLeaseIsTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		db := &store{renew: func() error {
			if away.Load() {
				time.Sleep(45 * time.Second) //nolint:forbidigo // in a bubble
				return data.ErrUnavailable
			}
			return nil
		}}
		q := open(t, db, commit.Config{Heartbeat: time.Second})
		<-q.Stuck()
		if err := q.Trouble(); !errors.Is(err, data.ErrUnavailable) {
			t.Errorf("the trouble with a silent database is %v", err)
		}
		away.Store(false)
		for q.Trouble() != nil {
			time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		}
	})
}

// A server that has nothing to write reports an outage at once, and then once a minute.
func TestQueue_LogsOutageOfIdleServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		db := &store{renew: func() error {
			if away.Load() {
				return data.ErrUnavailable
			}
			return nil
		}}
		var log strings.Builder
		q := open(t, db, commit.Config{Heartbeat: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for after, want := range map[time.Duration]int{2 * time.Second: 1, 3 * time.Minute: 3} {
			log.Reset()
			away.Store(true)
			time.Sleep(after) //nolint:forbidigo // in a bubble
			synctest.Wait()
			if q.Trouble() == nil {
				t.Errorf("no trouble after %v", after)
			}
			away.Store(false)
			time.Sleep(2 * time.Second) //nolint:forbidigo // in a bubble
			synctest.Wait()
			if q.Trouble() != nil {
				t.Errorf("trouble %v after an outage", after)
			}
			if n, lines := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "\n"); n != want || lines != want+1 {
				t.Errorf("%d errors in %d lines after %v, want %d and a last line:\n%s", n, lines, after, want, log.String())
			}
		}
	})
}

// A refusal by the database does not mean that the database is broken: writers check first whether it commits.
func TestTroubleEndsWithTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := open(t, &store{commit: func(int64, *data.Batch) error { return data.ErrTooSlow }}, commit.Config{})
		if err := q.Decide(&commit.Item{Command: &decide.Look{Thread: 1}}); !errors.Is(err, data.ErrTooSlow) {
			t.Errorf("what is always too slow came to %v", err)
		}
		if err := q.Trouble(); err != nil {
			t.Errorf("with nothing left to write the trouble is %v", err)
		}
	})
}

func TestSilentDatabaseIsTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		q := open(t, &store{commit: func(int64, *data.Batch) error { <-answer; return nil }}, commit.Config{Heartbeat: time.Second})
		stuck := q.Stuck()
		q.Add(event(q.Source(quota.Owner{}, nil), 1))
		<-stuck
		if err := q.Trouble(); !errors.Is(err, data.ErrUnavailable) {
			t.Errorf("the trouble with a silent database is %v", err)
		}
		close(answer)
		if err := q.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := q.Trouble(); err != nil {
			t.Errorf("the trouble with a database that commits is %v", err)
		}
		select {
		case <-q.Stuck():
			t.Error("a database that commits is stuck")
		default:
		}
	})
}

// A database that stores the parts of a batch one by one answers, however long all of them take.
func TestDatabaseThatTakesPartsIsNotStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &store{commit: func(_ int64, b *data.Batch) error {
			if len(b.Asks) > 1 {
				return errors.New("not like that")
			}
			time.Sleep(25 * time.Second) //nolint:forbidigo // in a bubble
			return nil
		}}
		q := open(t, db, commit.Config{Heartbeat: time.Second})
		stuck := q.Stuck()
		last := make(chan error, 1)
		q.Add(&commit.Item{Command: &decide.Look{Thread: 9}})
		for i := range 6 {
			it := &commit.Item{Command: &decide.Look{Thread: int64(i)}}
			if i == 5 {
				it.Done = append(it.Done, func(err error) { last <- err })
			}
			q.Add(it)
		}
		select {
		case err := <-last:
			if err != nil {
				t.Error(err)
			}
		case <-stuck:
			t.Error("a database that commits every 25 seconds has done nothing for a minute")
		}
	})
}
