package storagetest

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// command lets an instance decide a command, again while others have locked its thread. It returns the refusal.
func (f *fixture) command(t *testing.T, c decide.Command) error {
	for {
		var refused error
		b := &data.Batch{Asks: []data.Ask{c.Ask()}, Decide: func(_ int, v *data.View) data.Changes {
			out := decide.Decide(v, c)
			if refused = out.Refused; refused != nil {
				return data.Changes{}
			}
			return out.Changes
		}}
		if err := f.try(t.Context(), b); err != nil || len(b.Deferred) == 0 {
			return errors.Join(err, refused)
		}
	}
}

// owned puts a run that the instance x executes, with three events.
func (f *fixture) owned(t *testing.T, thread string) *data.Run {
	t.Helper()
	run := f.runOf(t, f.newThread(t, "ann", thread), thread, data.Running)
	run.Owner, run.Spans = "x", 1
	f.commit(t, events(run, 1, 3), run, named(run), &data.Span{RunKey: run.Key, N: 1, ThreadKey: run.ThreadKey, RunID: run.ID, Generation: 1, First: 1})
	return run
}

// takes is the command of an instance that has read a run's log up to last and goes on with one event.
func takes(run *data.Run, from, instance string, last int64) *decide.TakeOver {
	return &decide.TakeOver{Thread: run.ThreadKey, Run: run.Key, From: from, Instance: instance, Last: last, Events: events(run, last+1, last+1)}
}

// ends is the command of a run's owner that ends it behind last.
func ends(run *data.Run, owner string, last int64, to data.Status) *decide.Finish {
	return &decide.Finish{
		Thread: run.ThreadKey, Run: run.Key, Owner: owner, To: to, Span: data.Span{RunKey: run.Key, N: 1, Last: last + 1},
		Events: events(run, last+1, last+1),
	}
}

func wantRefusal(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantLog checks that the ids of a run's log are 1 to last.
func (f *fixture) wantLog(t *testing.T, run *data.Run, last int64) {
	t.Helper()
	all, err := f.Events(t.Context(), run.ThreadKey, 0, 100)
	if err != nil || int64(len(all)) != last {
		t.Errorf("%d events, %v, want %d", len(all), err, last)
	}
	for i := range all {
		if all[i].ID != int64(i+1) {
			t.Errorf("event %d is at place %d", all[i].ID, i+1)
		}
	}
}

// A run is not taken from an instance that may write, and of several successors one gets it.
func testTakeOver(t *testing.T, x, y *fixture) {
	runs := []*data.Run{x.owned(t, "a"), x.owned(t, "b"), x.owned(t, "c")}
	for _, run := range runs {
		wantRefusal(t, "of a living instance", y.command(t, takes(run, "x", "y", 3)), decide.ErrRunning)
	}
	wantRefusal(t, "the end of a living instance's run", y.command(t, &decide.Finish{
		Thread: runs[0].ThreadKey, Run: runs[0].Key, Owner: "x", Last: 3, To: data.Failed, Span: data.Span{N: 1, Last: 4}, Events: events(runs[0], 4, 4),
	}), decide.ErrRunning)
	x.commit(t, events(runs[0], 4, 5))
	if err := y.Members().Fence(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "a commit of the fenced instance", x.command(t, ends(runs[0], "x", 5, data.Completed)), data.ErrFenced)
	wantRefusal(t, "on a log that has grown", y.command(t, takes(runs[0], "x", "y", 3)), decide.ErrStale)
	wantRefusal(t, "of a dead instance", y.command(t, takes(runs[0], "x", "y", 5)), nil)
	if err := x.Members().Join(t.Context(), "z", ""); err != nil {
		t.Fatal(err)
	}
	x.n = 0
	for _, run := range runs[1:] {
		both := make(chan error, 2)
		go func() { both <- x.command(t, takes(run, "x", "z", 3)) }()
		go func() { both <- y.command(t, takes(run, "x", "y", 3)) }()
		one, other := <-both, <-both
		if one == nil {
			one, other = other, one
		}
		wantRefusal(t, "the first of two", other, nil)
		wantRefusal(t, "the second of two", one, decide.ErrSettled)
		y.wantLog(t, run, 4)
	}
	y.wantLog(t, runs[0], 6)
}

// A run that is released a second time is another orphan: a take-over that was prepared before is refused, also when the log of then is in
// the partition of another day.
func testReleasedTwice(t *testing.T, x, y *fixture) {
	testReleases(t, x, y, x.owned(t, "a"))
	run := x.owned(t, "b")
	x.midnight()
	testReleases(t, x, y, run)
}

// testReleases has both instances release a run of x that has three events.
func testReleases(t *testing.T, x, y *fixture, run *data.Run) {
	release := func(f *fixture, instance, mark string) {
		t.Helper()
		wantRefusal(t, "release", f.command(t, &decide.Release{Thread: run.ThreadKey, Run: run.Key, Instance: instance, Mark: mark}), nil)
	}
	first, second := data.ReleasedBy("x", 1, 1), data.ReleasedBy("y", 1, 2)
	release(x, "x", first)
	prepared := takes(run, first, "x", 3)
	wantRefusal(t, "take-over", y.command(t, takes(run, first, "y", 3)), nil)
	release(y, "y", second)
	wantRefusal(t, "prepared for the first release", x.command(t, prepared), decide.ErrSettled)
	wantRefusal(t, "prepared on the log of then", x.command(t, takes(run, second, "x", 3)), decide.ErrStale)
	for what, c := range map[string]struct {
		owner string
		last  int64
		want  error
	}{"the first release": {first, 3, decide.ErrSettled}, "the log of then": {second, 3, decide.ErrStale}} {
		end := ends(run, c.owner, c.last, data.Failed)
		end.Last = c.last
		wantRefusal(t, "an end prepared for "+what, x.command(t, end), c.want)
	}
	wantRefusal(t, "prepared now", x.command(t, takes(run, second, "x", 4)), nil)
	x.wantLog(t, run, 5)
}

// A request to cancel a run that another instance executes is of that execution: it is gone when the run has left it.
func testCancelAsked(t *testing.T, x, y *fixture) {
	asks := func(run *data.Run) error {
		return y.command(t, &decide.Cancel{Thread: run.ThreadKey, Run: run.Key, Instance: "y"})
	}
	pending := func(want int) {
		t.Helper()
		got, err := x.CancelAsks(t.Context(), "x")
		equal(t, "CancelAsks", len(got), err, want)
	}
	for i, to := range []data.Status{data.Completed, data.Cancelled} {
		run := x.owned(t, string(to))
		wantRefusal(t, "the request", asks(run), nil)
		pending(1)
		wantRefusal(t, "waiting", x.command(t, ends(run, "x", 3, data.Waiting)), decide.ErrCancelAsked)
		wantRefusal(t, "its end", x.command(t, ends(run, "x", 3, to)), nil)
		pending(0)
		err := asks(run)
		if refusal, ok := errors.AsType[*data.Error](err); i == 0 && (!ok || refusal.Code != "invalid_state") || i == 1 && err != nil {
			t.Errorf("the request after the run was %s: %v", to, err)
		}
	}
	run := x.owned(t, "meanwhile")
	x.during(t, func() { // the end and the request meet
		y.wantDeferred(t, []int{0}, (&decide.Cancel{Thread: run.ThreadKey, Run: run.Key}).Ask())
	}, ends(run, "x", 3, data.Completed).Ask())
	wantRefusal(t, "a request about its own run", x.command(t, &decide.Cancel{Thread: run.ThreadKey, Run: run.Key, Instance: "x"}), decide.ErrRunning)
	wantRefusal(t, "the request", asks(run), nil)
	if err := y.Members().Fence(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "take-over", y.command(t, takes(run, "x", "y", 3)), nil)
	got, err := y.CancelAsks(t.Context(), "y") // the successor gets it
	equal(t, "CancelAsks of the successor", len(got), err, 1)
}
