package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// RunTwoWriters tests that two instances may write one database at the same time. Each call of open must return two Stores of
// one new database, neither of which has joined, and close them when the test ends. Events that were committed before a call of midnight
// are of the day before.
func RunTwoWriters(t *testing.T, open func(t *testing.T) (x, y data.Store, midnight func())) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, x, y *fixture)
	}{
		{"LockedThreadsAreDeferred", testDeferredThreads},
		{"LockedNamesAreDeferred", testDeferredNames},
		{"DeferralIsOfTheCommittedAttempt", testDeferredAttempt},
		{"AwaitedThreadGetsItsTurn", testAwait},
		{"RunsAreCountedByOne", testCounted},
		{"ConflictsAreDecidedAgain", testConflicts},
		{"RequestsOfTwoKeysAreTwo", testTwoKeys},
		{"EachAttemptDecides", testRetryMoved},
		{"FenceWaitsForACommit", testFenceRace},
		{"OnlyADeadOwnerLosesARun", testTakeOver},
		{"EachReleaseIsAnother", testReleasedTwice},
		{"CancelIsAskedOfAnExecution", testCancelAsked},
		{"ServersTell", testServersTell},
		{"DeletionIsOfWhoBeganIt", testDeletionGoesOn},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, b, midnight := open(t)
			x, y := &fixture{Store: a, midnight: midnight}, &fixture{Store: b}
			if err := errors.Join(x.Members().Join(t.Context(), "x", ""), y.Members().Join(t.Context(), "y", "")); err != nil {
				t.Fatal(err)
			}
			if seen, err := x.Members().Watch(t.Context()); err != nil || seen.Others != 1 {
				t.Fatalf("x sees %d others, %v", seen.Others, err)
			}
			test.run(t, x, y)
		})
	}
}

// testDeletionGoesOn has an instance go on with the deletion of a dead one, and stop before its end. It is found again.
func testDeletionGoesOn(t *testing.T, x, y *fixture) {
	thread := x.newThread(t, "ann", "main")
	run := x.newRun(t, thread, "run", data.Completed)
	x.commit(t, events(run, 1, 20), &data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: 1, Last: 20})
	for i := range 10 {
		x.put(t, &data.Step{RunKey: run.Key, Number: i + 1, StartedAt: at(0)})
	}
	deletes := &data.Delete{ThreadKey: thread.Key, RunKey: run.Key, Limit: 2, Last: 20}
	want := []data.Deletion{{ThreadKey: thread.Key, RunKey: run.Key, Project: "project", Last: 20}}
	x.put(t, deletes)
	left, err := y.Queue().Deletions(t.Context(), 0, 0, 10)
	equal(t, "Deletions of a living instance", len(left), err, 0)
	if err := y.Members().Fence(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		left, err = y.Queue().Deletions(t.Context(), 0, 0, 10)
		equal(t, "Deletions", left, err, want)
		y.put(t, deletes)
	}
}

// testServersTell tests that each instance reads the others' descriptions, and each only once.
func testServersTell(t *testing.T, x, y *fixture) {
	if err := errors.Join(
		x.Members().Tell(t.Context(), &data.Server{About: []byte(`{"name":"x"}`), Hash: "1", Load: []byte(`{"free":1}`)}),
		x.Members().Tell(t.Context(), &data.Server{Load: []byte(`{"free":2}`)}),
	); err != nil {
		t.Fatal(err)
	}
	for _, known := range [][]string{nil, {"2"}, {"1", "2"}} {
		list, err := y.Members().Servers(t.Context(), known)
		if err != nil || len(list) != 2 || list[0].Instance != "x" || list[1].Instance != "y" {
			t.Fatalf("servers are %+v, %v", list, err)
		}
		about := `{"name":"x"}`
		if len(known) == 2 {
			about = ""
		}
		if s := list[0]; string(s.About) != about || s.Hash != "1" || string(s.Load) != `{"free":2}` || s.StartedAt.IsZero() || s.SeenAt.IsZero() {
			t.Errorf("with %q known x tells %+v", known, s)
		}
		if s := list[1]; len(s.About)+len(s.Load) > 0 || s.Hash != "" {
			t.Errorf("y tells %+v", s)
		}
	}
	if err := y.Members().Fence(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if list, err := y.Members().Servers(t.Context(), nil); err != nil || len(list) != 1 || list[0].Instance != "y" {
		t.Errorf("once x is fenced servers are %+v, %v", list, err)
	}
}

// during runs do while f has a transaction open that has locked the rows of the asks, and commits it.
func (f *fixture) during(t *testing.T, do func(), asks ...data.Ask) {
	t.Helper()
	b := &data.Batch{Asks: asks, Decide: func(i int, _ *data.View) data.Changes {
		if i == len(asks)-1 {
			do()
		}
		return data.Changes{}
	}}
	if err := f.try(t.Context(), b); err != nil {
		t.Fatalf("commit %d: %v", f.n+1, err)
	}
	if len(b.Deferred) > 0 {
		t.Fatalf("deferred %v", b.Deferred)
	}
}

// wantDeferred commits decisions and checks which of them are deferred. The others are decided.
func (f *fixture) wantDeferred(t *testing.T, want []int, asks ...data.Ask) {
	t.Helper()
	var decided []int
	b := &data.Batch{Asks: asks, Decide: func(i int, _ *data.View) data.Changes {
		decided = append(decided, i)
		return data.Changes{}
	}}
	if err := f.try(t.Context(), b); err != nil {
		t.Errorf("commit %d: %v", f.n+1, err)
	}
	if !slices.Equal(b.Deferred, want) || len(decided)+len(b.Deferred) != len(asks) {
		t.Errorf("decided %v, deferred %v, want %v", decided, b.Deferred, want)
	}
}

func testDeferredThreads(t *testing.T, x, y *fixture) {
	threads := []*data.Thread{x.newThread(t, "ann", "a"), x.newThread(t, "ann", "b"), x.newThread(t, "ann", "c")}
	a, b, c := data.Ask{Thread: threads[0].Key}, data.Ask{Thread: threads[1].Key}, data.Ask{Thread: threads[2].Key}
	gone := data.Ask{Thread: 1 << 40}
	y.during(t, func() {
		x.wantDeferred(t, []int{1, 3, 5}, a, b, c, data.Ask{Name: nameOf(threads[1])}, gone, b)
		x.wantDeferred(t, []int{0}, b)
		x.put(t, x.runOf(t, threads[1], "run", data.Queued)) // rows of runs need no lock
	}, b)
	x.wantDeferred(t, nil, a, b, c, b)
}

func testDeferredNames(t *testing.T, x, y *fixture) {
	name := func(id string) data.Name { return data.Name{Project: "project", User: "ann", ID: id} }
	known := x.newThread(t, "ann", "known")
	mine := []data.Ask{{Name: name("new")}, {RunName: name("run")}, {Scope: "k1"}, {Scope: "k2"}}
	y.during(t, func() {
		x.wantDeferred(t, []int{0, 3, 5, 7, 8},
			data.Ask{Name: name("new")}, data.Ask{Name: name("run")}, data.Ask{RunName: name("new")},
			data.Ask{RunName: name("run")}, data.Ask{Scope: "k3"}, data.Ask{Scope: "k2"}, data.Ask{Thread: known.Key},
			data.Ask{Thread: known.Key, Scope: "k1"}, data.Ask{Name: nameOf(known)}) // what follows in its thread
	}, mine...)
	x.wantDeferred(t, nil, mine...)
}

// testCounted counts the RUNNING runs of a project, and of a user, while another instance does, and afterwards.
func testCounted(t *testing.T, x, y *fixture) {
	for i, thread := range []string{"a", "b", "c"} {
		user := []string{"ann", "ann", "bob"}[i]
		x.newRun(t, x.newThread(t, user, thread), "run "+thread, data.Running)
	}
	project, ann, other := data.Name{Project: "project"}, data.Name{Project: "project", User: "ann"}, data.Name{Project: "other"}
	counts := func(f *fixture, of data.Name, want map[data.Name]int) {
		t.Helper()
		b := &data.Batch{Asks: []data.Ask{{Counts: of}}, Decide: func(_ int, v *data.View) data.Changes {
			equal(t, fmt.Sprint("Running for ", of), v.Running, nil, want)
			return data.Changes{}
		}}
		if err := f.try(t.Context(), b); err != nil || len(b.Deferred) > 0 {
			t.Errorf("%v, deferred %v", err, b.Deferred)
		}
	}
	all := map[data.Name]int{project: 3, ann: 2, {Project: "project", User: "bob"}: 1}
	x.during(t, func() {
		counts(y, project, map[data.Name]int{})
		counts(y, other, map[data.Name]int{other: 0})
	}, data.Ask{Counts: project})
	x.during(t, func() { counts(y, ann, map[data.Name]int{}) }, data.Ask{Counts: ann})
	counts(y, project, all)
	counts(y, ann, map[data.Name]int{ann: 2})
	got, err := x.Queue().CountRunning(t.Context(), []data.Name{project})
	equal(t, "CountRunning", got, err, all)
	got, err = x.Queue().CountQueued(t.Context())
	equal(t, "CountQueued", got, err, map[data.Name]int{})
}

func testDeferredAttempt(t *testing.T, x, y *fixture) {
	a, b := x.newThread(t, "ann", "a"), x.newThread(t, "ann", "b")
	fails := true
	batch := &data.Batch{
		Asks: []data.Ask{{Thread: a.Key}, {Thread: b.Key}},
		Decide: func(int, *data.View) (c data.Changes) {
			if fails {
				c.Refused = errors.New("it is rolled back")
			}
			return c
		},
	}
	y.during(t, func() {
		if err := x.try(t.Context(), batch); err == nil || !slices.Equal(batch.Deferred, []int{0}) {
			t.Errorf("deferred %v, %v", batch.Deferred, err)
		}
	}, data.Ask{Thread: a.Key})
	fails = false
	y.during(t, func() {
		if err := x.try(t.Context(), batch); err != nil || !slices.Equal(batch.Deferred, []int{1}) {
			t.Errorf("the next attempt deferred %v, %v, want 1", batch.Deferred, err)
		}
	}, data.Ask{Thread: b.Key})
	// The answer was lost: the attempt that was committed counts, whatever is locked now.
	if err := x.Commit(t.Context(), x.n, batch); err != nil || !slices.Equal(batch.Deferred, []int{1}) {
		t.Errorf("the same batch again deferred %v, %v, want 1", batch.Deferred, err)
	}
}

// A thread that another instance locks again and again is decided about all the same, and the wait is short.
func testAwait(t *testing.T, x, y *fixture) {
	thread, other := x.newThread(t, "ann", "a"), x.newThread(t, "ann", "b")
	awaited := data.Ask{Thread: thread.Key, Await: true}
	y.during(t, func() {
		began := time.Now()
		x.wantDeferred(t, []int{1}, data.Ask{Thread: other.Key}, awaited)
		if d := time.Since(began); d < 50*time.Millisecond {
			t.Errorf("it has waited for %v", d)
		}
		x.wantDeferred(t, []int{0}, data.Ask{Name: nameOf(thread), Await: true})
	}, data.Ask{Thread: thread.Key})

	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // ends when stop is closed
		for {
			b := &data.Batch{Asks: []data.Ask{{Thread: thread.Key}}, Decide: func(int, *data.View) data.Changes {
				<-time.After(5 * time.Millisecond)
				return data.Changes{}
			}}
			err := y.try(t.Context(), b)
			select {
			case <-stop:
				stopped <- err
				return
			default:
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	decided := 0
	for range 20 { // on a busy machine some take longer
		b := &data.Batch{Asks: []data.Ask{awaited}, Decide: func(int, *data.View) data.Changes { return data.Changes{} }}
		if err := x.try(t.Context(), b); err != nil {
			t.Error(err)
		}
		decided += 1 - len(b.Deferred)
	}
	close(stop)
	if err := <-stopped; err != nil || decided < 10 {
		t.Errorf("%d of 20 decisions were taken beside a busy instance, %v", decided, err)
	}
}

// Another instance has inserted an equal row since the decision's view was read. The decision is made again, and sees the row.
func testConflicts(t *testing.T, x, y *fixture) {
	run := x.newRun(t, x.newThread(t, "ann", "main"), "run", data.Running)
	expired := &data.IdempotencyKey{Scope: "expired", CreatedAt: at(0)}
	x.put(t, expired)
	again := &data.RunName{RunKey: run.Key, Project: "project", User: "ann", Name: "again"}
	named := data.Name{Project: "project", User: "ann", ID: "again"}
	for what, test := range map[string]struct {
		ask   data.Ask
		other data.Row
		mine  data.Row
		known func(v *data.View) bool
	}{
		"a key": {
			data.Ask{Scope: "key"},
			&data.IdempotencyKey{Scope: "key", BodyHash: "theirs", CreatedAt: at(0)}, &data.IdempotencyKey{Scope: "key", CreatedAt: at(0)},
			func(v *data.View) bool { return v.Remembered["key"].BodyHash == "theirs" },
		},
		"an expired key": {
			data.Ask{Scope: "expired"},
			nil, &data.IdempotencyKey{Scope: "expired", CreatedAt: at(1), Replaces: true},
			func(*data.View) bool { return false },
		},
		"a message": {
			data.Ask{Thread: run.ThreadKey, IDs: []string{"m"}},
			message(run, "m", 1, data.MessageConsumed), message(run, "m", 0, data.MessageQueued),
			func(v *data.View) bool { return v.Known["m"] },
		},
		"a thread": {
			data.Ask{Name: data.Name{Project: "project", User: "ann", ID: "new"}},
			y.threadOf(t, "ann", "new"), x.threadOf(t, "ann", "new"),
			func(v *data.View) bool { return v.Exists },
		},
		"a run's name": {
			data.Ask{RunName: named},
			again, again,
			func(v *data.View) bool { _, known := v.Names[named]; return known },
		},
	} {
		attempts := 0
		b := &data.Batch{Asks: []data.Ask{test.ask}, Decide: func(_ int, v *data.View) (c data.Changes) {
			if attempts++; attempts == 1 && test.other != nil {
				y.put(t, test.other)
			}
			if !test.known(v) {
				c.Rows = []data.Row{test.mine}
			}
			return c
		}}
		if err := x.try(t.Context(), b); errors.Is(err, data.ErrConflict) != (test.other != nil) {
			t.Errorf("%s: %v", what, err)
		}
		if test.other == nil {
			continue
		}
		if err := x.try(t.Context(), b); err != nil || attempts != 2 {
			t.Errorf("%s: decided %d times, %v", what, attempts, err)
		}
	}
	messages, err := x.Queued(t.Context(), run.Key)
	equal(t, "Queued", len(messages), err, 0) // the message of the other instance is not replaced
}

// testFenceRace fences an instance in the middle of its commit, which is whole.
func testFenceRace(t *testing.T, x, y *fixture) {
	run := x.newRun(t, x.newThread(t, "ann", "main"), "run", data.Running)
	fenced := make(chan error, 1)
	err := x.try(t.Context(), &data.Batch{
		Events: events(run, 1, 3), Asks: []data.Ask{{Thread: run.ThreadKey}},
		Decide: func(int, *data.View) data.Changes {
			go func() { fenced <- y.Members().Fence(t.Context(), "x") }()
			<-time.After(20 * time.Millisecond)
			if len(fenced) > 0 {
				t.Error("the instance is fenced in a commit")
			}
			return data.Changes{}
		},
	})
	if err := errors.Join(err, <-fenced); err != nil {
		t.Fatal(err)
	}
	for i, b := range []*data.Batch{{}, {Events: events(run, 4, 4)}} {
		if err := x.try(t.Context(), b); !errors.Is(err, data.ErrFenced) {
			t.Errorf("%s: %v, want ErrFenced", fmt.Sprint("commit ", i), err)
		}
	}
	last, err := y.LastEventID(t.Context(), run.ThreadKey)
	equal(t, "LastEventID", last, err, 3)
	y.commit(t, events(run, 4, 4))
}

// testTwoKeys has both instances decide at once about the same requests, in opposite orders: each starts a run in a thread of its own,
// unless its key is remembered and has not expired.
func testTwoKeys(t *testing.T, x, y *fixture) {
	const rounds = 20
	scope := func(round, n int) string { return fmt.Sprint("key ", round, ".", n%2) }
	for round := range rounds {
		x.put(t, &data.IdempotencyKey{Scope: scope(round, 0), BodyHash: "expired", CreatedAt: at(0)})
	}
	request := func(f *fixture, user string, first int) {
		for round := range rounds {
			var asks []data.Ask
			var rows []data.Row
			for n := range 2 {
				thread := f.threadOf(t, user, fmt.Sprint(round, ".", n))
				rows, asks = append(rows, thread), append(asks, data.Ask{Name: nameOf(thread), Scope: scope(round, first+n)})
			}
			for len(asks) > 0 {
				b := &data.Batch{Asks: asks, Decide: func(i int, v *data.View) (c data.Changes) {
					old, known := v.Remembered[asks[i].Scope]
					if !known || old.BodyHash == "expired" {
						c.Rows = []data.Row{rows[i], &data.IdempotencyKey{Scope: asks[i].Scope, BodyHash: user, CreatedAt: at(1), Replaces: known}}
					}
					return c
				}}
				if err := f.try(t.Context(), b); err != nil {
					t.Errorf("round %d of %s: %v", round, user, err)
					return
				}
				asks, rows = picked(asks, b.Deferred), picked(rows, b.Deferred)
			}
		}
	}
	over := make(chan struct{})
	go func() { request(y, "bob", 1); close(over) }()
	request(x, "ann", 0)
	<-over
	threads, err := rowsOf(x.ByProject().Threads(t.Context(), data.ThreadFilter{Project: "project", Limit: 500}))
	equal(t, "Threads", len(threads), err, 2*rounds)
}

// picked returns the elements at these places.
func picked[T any](list []T, places []int) (some []T) {
	for _, i := range places {
		some = append(some, list[i])
	}
	return some
}

// testRetryMoved rolls an attempt back after its decision. Another instance starts a run then, which the next attempt sees.
func testRetryMoved(t *testing.T, x, y *fixture) {
	thread := x.newThread(t, "ann", "main")
	mine, other := x.runOf(t, thread, "mine", data.Running), y.runOf(t, thread, "other", data.Running)
	attempts := 0
	b := &data.Batch{Asks: []data.Ask{{Thread: thread.Key}}, Decide: func(_ int, v *data.View) (c data.Changes) {
		attempts++
		if len(v.Runs) == 0 {
			c.Rows = []data.Row{mine, named(mine)}
		}
		if attempts == 1 {
			c.Refused = errors.New("it is rolled back")
		}
		return c
	}}
	if err := x.try(t.Context(), b); err == nil {
		t.Fatal("the first attempt is not rolled back")
	}
	y.put(t, other, named(other))
	if err := x.try(t.Context(), b); err != nil || attempts != 2 {
		t.Errorf("decided %d times, %v", attempts, err)
	}
	runs, err := x.OpenRuns(t.Context(), thread.Key)
	equal(t, "OpenRuns", headKeys(runs), err, []int64{other.Key})
}
