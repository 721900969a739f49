package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
)

// sleeper is an agent that sleeps until a time between two texts, and reads the messages appended meanwhile.
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

// A parked run goes on in its span when its time has come, with the messages appended meanwhile. A viewer gets each event once.
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

// waiter is an agent that receives two events of a name, the second within a time, and reports their payloads.
func waiter(within plugins.Within) agent {
	return agent{"waiter", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var payloads [2]string
		for i := range payloads {
			got, err := run.WaitFor(ctx, "paid", within)
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			if got.Expired {
				got.Payload = []byte("expired")
			}
			payloads[i] = string(got.Payload)
		}
		return agui.WorkerOutput{Answer: strings.Join(payloads[:], " ")}, nil
	}}
}

func (b *bench) sent(run, name, payload string, want bool) {
	b.t.Helper()
	delivered, err := b.SendEvent(b.t.Context(), local, run, runtime.EventRequest{Name: name, Payload: []byte(payload)})
	if err != nil || delivered != want {
		b.t.Fatalf("delivered %v, %v, want %v", delivered, err, want)
	}
}

// A parked run receives its events once and in order, over the death of its server. Others are kept, up to a limit, until it ends.
func TestSendEvent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		b := openAt(t, path, runtime.Config{}, waiter(plugins.Within(time.Hour)))
		run := b.wait(b.start("main", "waiter", "go").RunID, runtime.Waiting)
		if w := b.Logs.WaitOf(t.Context(), &run); w == nil || w.Reason != "event" || w.Name != "paid" || time.Until(w.Until) < 59*time.Minute {
			t.Errorf("it waits for %+v", w)
		}
		b.sent(run.ID, "other", "0", false)
		b.sent(run.ID, "paid", "1", true)
		b.wait(run.ID, runtime.Waiting)
		b.crash()
		for range 99 {
			b.sent(run.ID, "other", "0", false)
		}
		_, err := b.SendEvent(t.Context(), local, run.ID, runtime.EventRequest{Name: "paid"})
		if refused(err) != "inbox_full" {
			t.Errorf("one too many is %v", err)
		}
		for what, req := range map[string]runtime.EventRequest{
			"invalid_event_name": {Name: "a/b"},
			"invalid_json":       {Name: "a", Payload: []byte("{")},
			"payload_too_large":  {Name: "a", Payload: make([]byte, runtime.MaxPayload+1)},
		} {
			if _, err := b.SendEvent(t.Context(), local, run.ID, req); refused(err) != what {
				t.Errorf("%v, want %s", err, what)
			}
		}
		b.cancel(run.ID)
		if _, err := b.SendEvent(t.Context(), local, run.ID, runtime.EventRequest{Name: "paid"}); refused(err) != "run_ended" {
			t.Errorf("an event for an ended run is %v", err)
		}
		next := b.start("main", "waiter", "go").RunID
		b.wait(next, runtime.Waiting)
		key := &runtime.Idempotency{Scope: "key", BodyHash: "x"}
		for range 2 {
			if delivered, err := b.SendEvent(t.Context(), local, next, runtime.EventRequest{Name: "paid", Payload: []byte("1"), Idempotency: key}); err != nil || !delivered {
				t.Errorf("delivered %v, %v", delivered, err)
			}
		}
		if _, err := b.SendEvent(t.Context(), local, next, runtime.EventRequest{Name: "paid", Idempotency: &runtime.Idempotency{Scope: "key", BodyHash: "y"}}); refused(err) != "idempotency_mismatch" {
			t.Errorf("another event of the key is %v", err)
		}
		b.wait(next, runtime.Waiting)
		b.sent(next, "paid", `{"n":2}`, true)
		if done := b.wait(next, runtime.Completed); *done.OutputSummary != `1 {"n":2}` {
			t.Errorf("the answer is %q", *done.OutputSummary)
		}
		checkLog(t, b.log("main"))
	})
}

// An event that comes while its run is at work or parks is not lost: a run with such an event does not stay parked.
func TestSendEvent_WhileRunParks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		b := openAt(t, path, runtime.Config{}, waiter(plugins.Within(3*time.Second)))
		var ids []string
		for i := range 20 {
			id := b.start("t"+string(rune('a'+i)), "waiter", "go").RunID
			for range i {
				_, err := b.Runs.Get(t.Context(), local, id) // some time
				must(t, err)
			}
			_, err := b.SendEvent(t.Context(), local, id, runtime.EventRequest{Name: "paid", Payload: []byte("1")})
			must(t, err)
			ids = append(ids, id)
		}
		for _, id := range ids {
			if done := b.wait(id, runtime.Completed); *done.OutputSummary != "1 expired" {
				t.Errorf("the answer is %q", *done.OutputSummary)
			}
		}
	})
}

// A node that waits for an event goes on while another node of the run is at work, on any server.
func TestCluster_EventReachesRestingNode(t *testing.T) {
	t.Parallel()
	received := make(chan struct{})
	x, y := servers(t, runtime.Config{}, waiter(plugins.Within(time.Hour)), agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		select {
		case <-received:
			return agui.WorkerOutput{Answer: "done"}, nil
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}}, agent{"after", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		close(received)
		return agui.WorkerOutput{}, nil
	}}, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "worker", Agent: "worker"}, {ID: "waiter", Agent: "waiter"}, {ID: "after", Agent: "after", Needs: []string{"waiter"}},
	}})
	run := x.wait(x.startWorkflow("main", "flow", "go").RunID, runtime.Running)
	rests := func(n runtime.Node) bool { return n.NodeID == "waiter" && n.Status == runtime.Waiting }
	for i, b := range []*bench{x, y} {
		for nodes := []runtime.Node(nil); !slices.ContainsFunc(nodes, rests); <-tick() {
			var err error
			nodes, err = b.Runs.Nodes(t.Context(), local, run.ID)
			must(t, err)
		}
		b.sent(run.ID, "paid", string(rune('1'+i)), false)
	}
	x.wait(run.ID, runtime.Completed)
	checkLog(t, x.log("main"))
}

// A run that asks goes on for its event, too, and asks on under the same id.
func TestSendEvent_WhileRunAsks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		b := openAt(t, path, runtime.Config{}, agent{"both", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, asks := run.Ask(run.Branch(ctx, "ask"), agui.Interrupt{Message: "?"})
			ctx = run.Branch(ctx, "wait")
			got, err := run.WaitFor(ctx, "paid")
			if err == nil {
				err = run.Do(ctx, "say", nil, func(context.Context) error { return say(run, "received") })
			}
			return agui.WorkerOutput{Answer: string(got.Payload)}, cmp.Or(err, asks)
		}})
		run := b.wait(b.start("main", "both", "go").RunID, runtime.Waiting)
		open, err := b.Runs.Interrupts(t.Context(), local, run.ID)
		if err != nil || len(open) != 1 || run.Parked() || len(run.Waits.Events) != 1 {
			t.Fatalf("it asks %v and waits for %+v, %v", open, run.Waits, err)
		}
		b.sent(run.ID, "other", "0", false)
		b.sent(run.ID, "paid", "1", true)
		run = b.wait(run.ID, runtime.Waiting)
		again, err := b.Runs.Interrupts(t.Context(), local, run.ID)
		if err != nil || len(again) != 1 || again[0].ID != open[0].ID || run.Waits != nil {
			t.Errorf("it asks %v and waits for %+v, %v", again, run.Waits, err)
		}
		if s, err := b.Logs.Snapshot(t.Context(), b.found("main")); err != nil || len(s.Messages) != 2 || s.Messages[1].Text() != "received" {
			t.Errorf("the snapshot is %+v, %v", s, err)
		}
		_, err = b.Resume(t.Context(), local, run.ID, []agui.ResumeEntry{{InterruptID: open[0].ID, Status: "resolved"}})
		must(t, err)
		if done := b.wait(run.ID, runtime.Completed); *done.OutputSummary != "1" {
			t.Errorf("the answer is %q", *done.OutputSummary)
		}
		checkLog(t, b.log("main"))
	})
}
