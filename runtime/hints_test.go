package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/bus/bustest"
)

// listening hands out the messages that it gets, until one is "end".
type listening struct{ got chan string }

func (k listening) agent() agent {
	return agent{"listening", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for {
			msgs, err := run.Next(ctx)
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			for i := range msgs {
				if msgs[i].Content == "end" {
					return agui.WorkerOutput{Status: agui.StatusSuccess}, nil
				}
				k.got <- msgs[i].Content
			}
			<-tick()
		}
	}}
}

// With hints, another server learns of its runs and threads long before it would look. Without any, it looks.
func TestHints_AreFastAndMayBeLost(t *testing.T) {
	lost := &bustest.Memory{Fault: func() bustest.Fault { return bustest.Fault{Lost: true} }}
	for name, test := range map[string]struct {
		join   func() bus.Bus
		cut    bool
		rounds int
	}{
		"notify":                  {rounds: 10},
		"all are lost":            {join: lost.Join, rounds: 2},
		"the connections are cut": {cut: true, rounds: 2},
	} {
		t.Run(name, func(t *testing.T) {
			k, heard := dictated{make(chan string)}, listening{make(chan string, 1)}
			hangs, _ := halves("half")
			x, y := linked(t, test.join, runtime.Config{Limits: runtime.Limits{Runs: 3, Drain: time.Millisecond}}, k.agent(), heard.agent(), hangs, hello)
			admin := sqlx.MustConnect("postgres", x.path)
			defer admin.Close()
			for test.rounds > 2 && (x.Stats().Link.Deaf || y.Stats().Link.Deaf) {
				<-tick()
			}
			// Each round of polls alone takes a second, or two in the queue.
			within := func(what string, round func(i int), before ...func(i int)) {
				t.Helper()
				took := time.Hour // the shortest round, which a busy machine has delayed least
				for i := range test.rounds {
					for _, prepare := range before {
						prepare(i)
					}
					began := time.Now()
					if test.cut {
						admin.MustExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^(NOTIFY|LISTEN)'`)
					}
					round(i)
					took = min(took, time.Since(began))
				}
				t.Logf("%s: %v", what, took)
				if test.rounds > 2 && took > 700*time.Millisecond {
					t.Errorf("%s takes %v, as long as without hints", what, took)
				}
			}

			x.start("main", "dictated", "go")
			k.words <- "one "
			viewer := y.reader(true)
			at := until(t, viewer, 4)[0].ID + 3
			<-time.After(time.Second) // until then a new viewer looks more often
			within("an event", func(int) {
				k.words <- "more "
				recs := until(t, viewer, at+1)
				at = recs[len(recs)-1].ID
			})

			lists := y.Watch(local)
			defer lists.Close()
			<-time.After(time.Second) // as above
			within("a change of a list", func(i int) {
				for range 10 {
					_ = lists.Next(expired) // of what was before
				}
				x.start(fmt.Sprint("listed ", i), "hello", "go")
				if err := lists.Next(t.Context()); err != nil {
					t.Error(err)
				}
			})

			s := x.start("listening", "listening", "go")
			within("an append", func(i int) {
				text := fmt.Sprint("message ", i)
				if _, err := y.Append(t.Context(), local, s.RunID, runtime.AppendRequest{Content: text}); err != nil {
					t.Fatal(err)
				}
				if got := <-heard.got; got != text {
					t.Errorf("it gets %q", got)
				}
			})

			x.start("last", "half", "go") // the last slot
			<-hangs.began
			within("a queued run", func(i int) {
				y.wait(x.start(fmt.Sprint("queued ", i), "hello", "go").RunID, runtime.Completed)
			})

			within("a cancellation", func(i int) {
				name := fmt.Sprint("cancelled ", i)
				run := y.start(name, "half", "go")
				<-hangs.began
				if got, err := x.Cancel(t.Context(), local, run.RunID); err != nil || got.Status != runtime.Cancelled {
					t.Errorf("%s, %v", got.Status, err)
				}
			})
			var busy []runtime.Started // in all slots of y; x has none
			var queued runtime.Started
			within("a queued run when a slot becomes free", func(int) {
				if _, err := y.Cancel(t.Context(), local, busy[0].RunID); err != nil {
					t.Fatal(err)
				}
				busy = busy[1:]
				y.wait(queued.RunID, runtime.Completed)
			}, func(i int) {
				for len(busy) < 3 {
					busy = append(busy, y.start(fmt.Sprint("busy ", i, len(busy)), "half", "go"))
					<-hangs.began
				}
				queued = x.start(fmt.Sprint("behind ", i), "hello", "go")
				<-time.After(100 * time.Millisecond) // y has heard of it
			})
			if sent := x.Stats().Link.Sent; test.cut && x.Stats().Link.Lost == 0 || sent == 0 {
				t.Errorf("%+v", x.Stats().Link)
			}
			close(k.words)
			checkLog(t, y.log("main"))
		})
	}
}

// A server that is alone sends nothing.
func TestHints_AreForOthers(t *testing.T) {
	t.Parallel()
	k := dictated{make(chan string)}
	x, y := servers(t, runtime.Config{}, k.agent())
	y.down()
	close(k.words)
	for quiet := false; !quiet; { // it sees within a second that the other has left
		before := x.Stats().Link.Sent
		for range 3 {
			x.wait(x.start("main", "dictated", "go").RunID, runtime.Completed)
		}
		<-time.After(2 * time.Second) // a beat
		after := x.Stats().Link
		quiet = after.Sent == before && !after.Deaf
	}
}
