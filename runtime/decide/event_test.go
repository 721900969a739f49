package decide

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// parkable returns a view with a run that x executes.
func parkable() *data.View {
	return &data.View{
		Now: time.Unix(1000, 0), Exists: true, Thread: data.ThreadHead{Key: 1}, Runs: []data.RunHead{{Key: 2, ThreadKey: 1, Status: data.Running, Owner: "x", Spans: 1}},
		Remembered: make(map[string]data.Remembered),
	}
}

func park(events ...string) *Release {
	until := time.Unix(2000, 0)
	return &Release{
		Thread: 1, Run: 2, Instance: "x", Mark: data.ReleasedBy("x", 1, 0), Events: []data.StoredEvent{{ID: 7}},
		Waits: &data.Waits{Due: until, All: []data.Wait{{Kind: data.WaitEvent, Until: until}}, Events: events},
	}
}

func send(name string) *SendEvent {
	return &SendEvent{Thread: 1, Run: 2, Name: name, Payload: []byte("1"), Key: &Key{Scope: name, BodyHash: "x"}}
}

// A run goes on for an event that it waits for, whether that comes before it parks or after, and whether it asks, too. It is kept for its
// worker, numbered, until the run ends.
func TestSendEvent_WakesTheRun(t *testing.T) {
	asks := func() Command {
		return &Finish{Thread: 1, Run: 2, Owner: "x", To: data.Waiting, Waits: park("a", "b").Waits, Span: data.Span{N: 1, Last: 8}}
	}
	for what, test := range map[string]struct {
		commands  []Command
		status    data.Status
		delivered bool
		by        string
		kept      []int64
	}{
		"at work":                        {[]Command{send("a")}, data.Running, false, "", []int64{1}},
		"parked":                         {[]Command{park("a"), send("a")}, data.Queued, true, "a", []int64{1}},
		"parked for another":             {[]Command{park("b"), send("a")}, data.Waiting, false, "", []int64{1}},
		"before it parks":                {[]Command{send("c"), send("a"), park("a")}, data.Queued, false, "a", []int64{1, 2}},
		"woken already":                  {[]Command{park("a", "b"), send("b"), send("a")}, data.Queued, false, "b", []int64{1, 2}},
		"asks":                           {[]Command{asks(), send("b")}, data.Queued, true, "b", []int64{1}},
		"before it asks":                 {[]Command{send("b"), asks()}, data.Queued, false, "b", []int64{1}},
		"repeated":                       {[]Command{park("a"), send("a"), send("a")}, data.Queued, true, "a", []int64{1}},
		"asks and waits for nobody else": {[]Command{asks(), send("c")}, data.Waiting, false, "", []int64{1}},
	} {
		v := parkable()
		var out *Decided
		delivered := false
		for _, c := range test.commands {
			if out = Decide(v, c); out.Refused != nil {
				t.Fatalf("%s: %T is %v", what, c, out.Refused)
			}
			if _, ok := c.(*SendEvent); ok {
				delivered = out.Delivered
			}
		}
		run, by, kept := &v.Runs[0], "", []int64(nil)
		if run.Waits != nil {
			by = run.Waits.By
		}
		for _, s := range v.Signals[run.Key] {
			kept = append(kept, s.N)
		}
		if run.Status != test.status || delivered != test.delivered || by != test.by || !slices.Equal(kept, test.kept) {
			t.Errorf("%s: %s, delivered %v, by %q, kept %v", what, run.Status, delivered, by, kept)
		}
		if _, parks := test.commands[0].(*Release); parks && !run.Released() {
			t.Errorf("%s: its open span is of %q", what, run.Owner)
		}
	}
}

// A run has up to a hundred signals, and none once it has ended.
func TestSendEvent_IsLimited(t *testing.T) {
	v := parkable()
	event := func() *Decided { return Decide(v, &SendEvent{Thread: 1, Run: 2, Name: "a"}) }
	for range data.MostSignals {
		if out := event(); out.Refused != nil {
			t.Fatal(out.Refused)
		}
	}
	if out := event(); !errors.Is(out.Refused, errSignalsFull) {
		t.Errorf("one too many is %v", out.Refused)
	}
	out := Decide(v, &Finish{Thread: 1, Run: 2, Owner: "x", To: data.Completed, Span: data.Span{N: 1, Last: 8}})
	if !slices.ContainsFunc(out.Rows, func(r data.Row) bool {
		taken, ok := r.(*data.TakenSignals)
		return ok && *taken == data.TakenSignals{RunKey: 2, To: data.MostSignals}
	}) {
		t.Error("the signals of an ended run are kept")
	}
	if out := event(); !errors.Is(out.Refused, errRunEnded) {
		t.Errorf("one for an ended run is %v", out.Refused)
	}
	v = parkable()
	large := &SendEvent{Thread: 1, Run: 2, Name: "a", Payload: make([]byte, data.MostSignalBytes/2)}
	if first, second, third := Decide(v, large), Decide(v, large), event(); first.Refused != nil || second.Refused != nil || third.Refused != nil {
		t.Errorf("as many bytes as may be are %v, %v, %v", first.Refused, second.Refused, third.Refused)
	}
	large.Payload = large.Payload[:1]
	if out := Decide(v, large); !errors.Is(out.Refused, errSignalsFull) {
		t.Errorf("a byte too many is %v", out.Refused)
	}
	v.Inbox = map[int64]data.Inbox{2: {Messages: 1}}
	Decide(v, &Finish{Thread: 1, Run: 2, Owner: "x", To: data.Completed, Span: data.Span{N: 1, Last: 8}})
	if v.Runs[0].Status != data.Queued || len(v.Signals[2]) != 3 {
		t.Errorf("a restarted run is %s with %d signals", v.Runs[0].Status, len(v.Signals[2]))
	}
}
