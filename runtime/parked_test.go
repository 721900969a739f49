package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
)

// sleeper is an agent that sleeps until a time between two texts, and reads what was appended meanwhile.
func sleeper(until func() time.Time) agent {
	return agent{"sleeper", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Do(ctx, "before", nil, func(context.Context) error { return say(run, "before") }); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.SleepUntil(ctx, until()); err != nil {
			return agui.WorkerOutput{}, err
		}
		msgs, err := run.Next(ctx)
		if err != nil || len(msgs) == 0 {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: "read " + msgs[0].Text()}, nil
	}}
}

// park starts a sleeper on the thread main, and returns the run once it is parked.
func (b *bench) park() runtime.Run {
	b.t.Helper()
	run := b.wait(b.start("main", "sleeper", "go").RunID, runtime.Waiting)
	if open, err := b.Runs.Interrupts(b.t.Context(), local, run.ID); err != nil || len(open) > 0 || !run.Parked() {
		b.t.Fatalf("parked: %v, questions: %v, %v", run.Parked(), open, err)
	}
	return run
}

// customs returns the names of the CUSTOM events.
func customs(recs []*runtime.Record) (names []string) {
	for _, r := range recs {
		if c, ok := r.Event.(agui.Custom); ok {
			names = append(names, c.Name)
		}
	}
	return names
}

func refused(err error) string {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e.Code
	}
	return ""
}

// A parked run keeps its thread busy and has no slot. Nothing but its time or a cancel ends the wait, also over the death of its server.
func TestParkedRunKeepsItsThreadAndNoSlot(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		cfg := runtime.Config{}
		cfg.Runs = 1
		until := time.Now().Add(time.Hour)
		b := openAt(t, path, cfg, sleeper(func() time.Time { return until }), answering("other", func(q string) string { return q }))
		run := b.park()
		wait := b.Logs.WaitOf(t.Context(), &run)
		if wait == nil || wait.Reason != "time" || wait.Until.Sub(until).Abs() > time.Second || wait.Since.IsZero() {
			t.Errorf("it waits for %+v", wait)
		}
		b.wait(b.start("elsewhere", "other", "x").RunID, runtime.Completed)
		for what, request := range map[string]func() error{
			"thread_busy": func() error {
				_, err := b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "other", ThreadID: "main", Messages: user("x"), Multitask: "reject"})
				return err
			},
			"invalid_state": func() error { return b.Delete(t.Context(), local, run.ID) },
			"unknown_interrupt": func() error {
				_, err := b.Resume(t.Context(), local, run.ID, []agui.ResumeEntry{{InterruptID: "none", Status: "resolved"}})
				return err
			},
		} {
			if err := request(); refused(err) != what {
				t.Errorf("%v, want %s", err, what)
			}
		}
		next := b.start("main", "other", "behind it")
		b.crash()
		behind := b.wait(next.RunID, runtime.Queued)
		if w := b.Logs.WaitOf(t.Context(), &behind); w == nil || w.Reason != "thread_busy" || w.Behind != run.ID {
			t.Errorf("the next run waits for %+v", w)
		}
		if now := b.wait(run.ID, runtime.Waiting); !now.Parked() {
			t.Error("it is not parked after a crash")
		}
		snapshot, err := b.Logs.Snapshot(t.Context(), b.found("main"))
		if err != nil || !snapshot.Running || len(snapshot.Messages) != 2 {
			t.Errorf("the snapshot is %+v, %v", snapshot, err)
		}
		b.cancel(run.ID)
		b.wait(next.RunID, runtime.Completed)
		log := b.log("main")
		checkLog(t, log)
		if got := customs(log); !slices.Equal(got, []string{agui.ParkedEvent}) {
			t.Errorf("the log has %q", got)
		}
	})
}

// A parked run goes on in its span when its time has come, with what was appended meanwhile. A viewer gets each event once.
func TestParkedRunGoesOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		var until time.Time
		b := openAt(t, path, runtime.Config{}, sleeper(func() time.Time { return until }))
		until = time.Now().Add(4 * time.Second)
		run := b.park()
		viewer, err := b.Logs.Read(t.Context(), b.found("main"), 0, false)
		must(t, err)
		defer viewer.Close()
		b.appended(run.ID, "news")
		done := b.wait(run.ID, runtime.Completed)
		if done.OutputSummary == nil || *done.OutputSummary != "read news" || time.Now().Before(until) {
			t.Errorf("the answer is %v", done.OutputSummary)
		}
		log := b.log("main")
		checkLog(t, log)
		if got := customs(log); !slices.Equal(got, []string{agui.ParkedEvent, agui.WokenEvent}) {
			t.Errorf("the log has %q", got)
		}
		for next := int64(1); next <= int64(len(log)); {
			recs, err := viewer.Next(t.Context())
			must(t, err)
			for _, r := range recs {
				if r.ID != next {
					t.Fatalf("the viewer gets event %d, want %d", r.ID, next)
				}
				next++
			}
		}
	})
}

// A parked run is of no server: one that has never had it wakes or cancels it.
// Many runs of one lane of the queue that wake together all go on.
func TestParkedRunsGoOnTogether(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(5 * time.Second)
	b := open(t, runtime.Config{}, sleeper(func() time.Time { return until }))
	runs := make([]runtime.Started, 200)
	for i := range runs {
		runs[i] = b.start(fmt.Sprint(i), "sleeper", "go")
	}
	for _, s := range runs {
		b.wait(s.RunID, runtime.Completed)
	}
}

func TestCluster_ParkedRunGoesOnAnywhere(t *testing.T) {
	t.Parallel()
	var until time.Time
	url, sleeps := postgrestest.New(t), sleeper(func() time.Time { return until })
	x, dead := member(t, url, runtime.Config{}, sleeps)
	y, _ := member(t, url, runtime.Config{}, sleeps)
	until = time.Now().Add(5 * time.Second)
	first := x.park()
	defer dead.die()()
	y.wait(first.ID, runtime.Completed)
	until = time.Now().Add(time.Hour)
	second := y.start("second", "sleeper", "go")
	y.wait(second.RunID, runtime.Waiting)
	y.cancel(second.RunID)
	for _, thread := range []string{"main", "second"} {
		checkLog(t, y.log(thread))
	}
}
