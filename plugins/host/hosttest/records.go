package hosttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// useAll makes every recorded use and returns the results.
func useAll(ctx context.Context, run *plugins.Run) (string, error) {
	var done string
	err := run.Do(ctx, "do", &done, func(context.Context) error {
		done = "done"
		return say(run, "done")
	})
	if err != nil {
		return "", err
	}
	called, err := run.CallTool(ctx, "count", map[string]string{"of": "calls"})
	if err != nil {
		return "", err
	}
	sub, err := run.CallAgent(ctx, "sub", "query")
	if err != nil {
		return "", err
	}
	messages, err := run.Next(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(done, " ", called.ResultSummary, " ", sub.Answer, " ", len(messages)), nil
}

// counters returns a tool and an agent that return the number of their calls.
func counters() []plugins.Plugin {
	var calls, runs atomic.Int64
	return []plugins.Plugin{
		tool{name: "count", call: func(context.Context, *plugins.Call) (string, error) { return fmt.Sprint(calls.Add(1)), nil }},
		worker{"sub", func(_ context.Context, run *plugins.Run) (string, error) {
			return fmt.Sprint(run.Input.Query, " ", runs.Add(1)), nil
		}},
	}
}

func testRecords(t *testing.T, s *suite) {
	var lives atomic.Int64
	out := s.check("done 1 query 1 0", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		answer, err := useAll(ctx, run)
		if err == nil && lives.Add(1) < 3 {
			return "", s.die(ctx)
		}
		return answer, err
	})
	if got := fmt.Sprint(said(out.Events)); got != `["done"]` {
		t.Errorf("said %s", got)
	}
}

func testAnswer(t *testing.T, s *suite) {
	var asked []string
	answer := func(q agui.Interrupt) plugins.Answer {
		asked = append(asked, q.Message)
		return plugins.Answer{Payload: json.RawMessage(`"` + q.Message + `!"`)}
	}
	s.check(`done 1 query 1 0 "one!" "two!"`, Case{Plugins: counters(), Answer: answer}, func(ctx context.Context, run *plugins.Run) (string, error) {
		text, err := useAll(ctx, run)
		for _, message := range []string{"one", "two"} {
			if err != nil {
				return "", err
			}
			var a plugins.Answer
			a, err = run.Ask(ctx, agui.Interrupt{Message: message})
			text += " " + string(a.Payload)
		}
		return text, err
	})
	if fmt.Sprint(asked) != "[one two]" {
		t.Errorf("asked %v", asked)
	}
}

// A wait ends once. Recorded work is not repeated, and branches wait beside each other.
func testWaits(t *testing.T, s *suite) {
	var done, slept atomic.Int64
	out := s.check("1", Case{}, func(ctx context.Context, run *plugins.Run) (string, error) {
		if err := run.Do(ctx, "before", nil, func(context.Context) error { done.Add(1); return nil }); err != nil {
			return "", err
		}
		for _, key := range []string{"a", "b"} {
			ctx := run.Branch(ctx, key)
			run.Go(func() error {
				if err := run.Sleep(ctx, 2200*time.Millisecond); err != nil {
					return err
				}
				return run.Do(ctx, "after", nil, func(context.Context) error { slept.Add(1); return nil })
			})
		}
		if err := run.SleepUntil(ctx, time.Now().Add(-time.Hour)); err != nil {
			return "", err
		}
		if err := run.Sleep(ctx, 2300*time.Millisecond); err != nil {
			return "", err
		}
		return fmt.Sprint(done.Load()), nil
	})
	if slept.Load() != 2 {
		t.Errorf("%d branches have gone on, want each once", slept.Load())
	}
	if parked, woken := count(out.Events, agui.ParkedEvent), count(out.Events, agui.WokenEvent); parked == 0 || parked != woken {
		t.Errorf("parked %d times, woken %d times", parked, woken)
	}
}

// A crash during a wait does not prolong it: its end is recorded.
func testWaitDies(t *testing.T, s *suite) {
	var calls atomic.Int64
	s.check("ok", Case{}, func(ctx context.Context, run *plugins.Run) (string, error) {
		if err := run.Sleep(ctx, 2200*time.Millisecond); err != nil {
			return "", err
		}
		if calls.Add(1) == 1 {
			return "", s.die(ctx)
		}
		return "ok", run.SleepUntil(ctx, time.Now())
	})
}

// Each event is received once, in order, whether it comes before or after the wait. A wait that gets none expires.
func testEvents(t *testing.T, s *suite) {
	c := Case{Events: []Event{{Name: "a", Payload: []byte("1")}, {Name: "a", Payload: []byte("2")}, {Name: "b", Payload: []byte(`{"n":3}`), After: 2 * time.Second}}}
	out := s.check("1 2 3 true", c, func(ctx context.Context, run *plugins.Run) (string, error) {
		var b struct{ N int }
		first, err := run.WaitFor(ctx, "a")
		if err != nil {
			return "", err
		}
		for _, key := range []string{"x", "y"} { // one of them expires
			ctx := run.Branch(ctx, key)
			run.Go(func() error {
				_, err := run.WaitFor(ctx, "c", plugins.Within(2500*time.Millisecond))
				return err
			})
		}
		third, err := run.WaitFor(ctx, "b")
		if err = cmp.Or(err, third.Decode(&b)); err != nil {
			return "", err
		}
		second, err := run.WaitFor(ctx, "a", plugins.Within(time.Hour))
		if err != nil {
			return "", err
		}
		none, err := run.WaitFor(ctx, "a", plugins.Within(2200*time.Millisecond))
		return fmt.Sprint(string(first.Payload), " ", string(second.Payload), " ", b.N, " ", none.Expired), err
	})
	if parked, woken := count(out.Events, agui.ParkedEvent), count(out.Events, agui.WokenEvent); parked == 0 || parked != woken {
		t.Errorf("parked %d times, woken %d times", parked, woken)
	}
}

// A crash neither loses a received event nor gives it twice.
func testEventDies(t *testing.T, s *suite) {
	var calls atomic.Int64
	c := Case{Events: []Event{{Name: "a", Payload: []byte("1"), After: 2 * time.Second}, {Name: "a", Payload: []byte("2"), After: 2 * time.Second}}}
	s.check("12", c, func(ctx context.Context, run *plugins.Run) (string, error) {
		first, err := run.WaitFor(ctx, "a")
		if err != nil {
			return "", err
		}
		if err := run.Do(ctx, "received", nil, func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		if calls.Add(1) == 1 {
			return "", s.die(ctx)
		}
		second, err := run.WaitFor(ctx, "a")
		return string(first.Payload) + string(second.Payload), err
	})
}

func count(events []agui.Event, name string) (n int) {
	for _, ev := range events {
		if c, ok := ev.(agui.Custom); ok && c.Name == name {
			n++
		}
	}
	return n
}

func testDoDies(t *testing.T, s *suite) {
	var lives atomic.Int64
	s.check("2", Case{}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var n int64
		err := run.Do(ctx, "do", &n, func(ctx context.Context) error {
			if n = lives.Add(1); n == 1 {
				return s.die(ctx)
			}
			return nil
		})
		return fmt.Sprint(n), err
	})
}

func testDoFails(t *testing.T, s *suite) {
	boom := errors.New("boom")
	s.check("ok", Case{}, func(ctx context.Context, run *plugins.Run) (string, error) {
		if err := run.Do(ctx, "do", nil, func(context.Context) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("the error of a Do is %v", err)
		}
		return "ok", run.Do(ctx, "do", nil, func(context.Context) error { return nil })
	})
}

func testInsideDo(_ *testing.T, s *suite) {
	var lives atomic.Int64
	s.check("1 2 3", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		count := func(ctx context.Context) (string, error) {
			out, err := run.CallTool(ctx, "count", nil)
			return out.ResultSummary, err
		}
		var inside, deeper string
		err := run.Do(ctx, "do", &inside, func(ctx context.Context) (err error) {
			if inside, err = count(ctx); err != nil {
				return err
			}
			err = run.Do(ctx, "do", &deeper, func(ctx context.Context) (err error) {
				deeper, err = count(ctx)
				return err
			})
			inside += " " + deeper
			return err
		})
		if err != nil {
			return "", err
		}
		outside, err := count(ctx)
		if err == nil && lives.Add(1) < 3 {
			return "", s.die(ctx)
		}
		return inside + " " + outside, err
	})
}

func testInsideAgents(_ *testing.T, s *suite) {
	var lives atomic.Int64
	count := func(ctx context.Context, run *plugins.Run) (string, error) {
		out, err := run.CallTool(ctx, "count", nil)
		return out.ResultSummary, err
	}
	inner := worker{"inner", count}
	outer := worker{"outer", func(ctx context.Context, run *plugins.Run) (string, error) {
		sub, err := run.CallAgent(ctx, "inner", "")
		if err != nil {
			return "", err
		}
		own, err := count(ctx, run)
		return sub.Answer + own, err
	}}
	s.check("12 34 5", Case{Plugins: append(counters(), inner, outer)}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var texts []string
		for range 2 {
			sub, err := run.CallAgent(ctx, "outer", "")
			if err != nil {
				return "", err
			}
			if texts = append(texts, sub.Answer); lives.Add(1) < 4 {
				return "", s.die(ctx)
			}
		}
		own, err := count(ctx, run)
		return strings.Join(append(texts, own), " "), err
	})
}

func testMismatch(t *testing.T, s *suite) {
	for name, use := range map[string]func(ctx context.Context, run *plugins.Run, n int64) error{
		"CallTool": func(ctx context.Context, run *plugins.Run, n int64) error {
			_, err := run.CallTool(ctx, "count", map[string]int64{"n": n})
			return err
		},
		"CallAgent": func(ctx context.Context, run *plugins.Run, n int64) error {
			_, err := run.CallAgent(ctx, "sub", fmt.Sprint(n))
			return err
		},
		"Ask": func(ctx context.Context, run *plugins.Run, n int64) error {
			_, err := run.Ask(ctx, agui.Interrupt{Message: fmt.Sprint(n)})
			return err
		},
	} {
		var calls atomic.Int64
		c := Case{Plugins: counters(), Answer: yes, Crash: s.crash}
		c.Agent = worker{"worker", func(ctx context.Context, run *plugins.Run) (string, error) {
			n := calls.Add(1)
			if err := use(ctx, run, n); err != nil || n > 1 {
				return "not refused", err
			}
			return "", s.die(ctx)
		}}
		out := s.run(t, c)
		if out.Code != "replay_mismatch" || calls.Load() != 2 {
			t.Errorf("%s: the run fails with %q after %d calls", name, out.Code, calls.Load())
		}
		s.checkLog(out.Events)
	}
}

func testBegun(t *testing.T, s *suite) {
	for want, idempotent := range map[string]bool{"interrupted": false, "done": true} {
		var ids []string
		slow := tool{"slow", idempotent, func(ctx context.Context, call *plugins.Call) (string, error) {
			if ids = append(ids, call.ID); len(ids) == 1 {
				return "", s.die(ctx)
			}
			return "done", nil
		}}
		s.check(want, Case{Plugins: []plugins.Plugin{slow}}, func(ctx context.Context, run *plugins.Run) (string, error) {
			out, err := run.CallTool(ctx, "slow", nil)
			if out.Error != nil {
				return out.Error.Code, err
			}
			return out.ResultSummary, err
		})
		if made := map[bool]int{false: 1, true: 2}[idempotent]; len(ids) != made || ids[0] != ids[made-1] {
			t.Errorf("idempotent %v: called as %q", idempotent, ids)
		}
	}
}

// A tool's questions are answered by key, also after a crash. It has no result while one is open.
func testToolAsks(t *testing.T, s *suite) {
	for want, idempotent := range map[string]bool{"input_declined": false, `"color!" "size!"`: true} {
		var ids, asked []string
		buy := tool{"buy", idempotent, func(ctx context.Context, call *plugins.Call) (string, error) {
			if ids = append(ids, call.ID); len(ids) == 2 {
				return "", s.die(ctx)
			}
			color, err := call.Ask("approval/1", agui.Interrupt{Message: "color", ResponseSchema: []byte(`{"type":"string"}`)})
			if err != nil {
				return "in vain", err
			}
			size, err := call.Ask("approval/2", agui.Interrupt{Message: "size"})
			if err != nil {
				return "", nil // a tool that hides the error waits all the same
			}
			return string(color.Payload) + " " + string(size.Payload), nil
		}}
		answer := func(q agui.Interrupt) plugins.Answer {
			asked = append(asked, q.Message+" "+q.Reason)
			if q.ToolCallID == "" {
				t.Errorf("%+v does not name its call", q)
			}
			return plugins.Answer{Payload: json.RawMessage(`"` + q.Message + `!"`)}
		}
		out := s.check(want, Case{Plugins: []plugins.Plugin{buy}, Answer: answer}, func(ctx context.Context, run *plugins.Run) (string, error) {
			out, err := run.CallTool(ctx, "buy", nil)
			if out.Error != nil {
				return out.Error.Code, err
			}
			return out.ResultSummary, err
		})
		if n := len(called(out.Events)); n != 1 {
			t.Errorf("the log shows %d calls", n)
		}
		if got := fmt.Sprint(len(ids), asked); idempotent && got != "4 [color input_required size confirmation]" || !idempotent && got != "1 []" {
			t.Errorf("calls and questions: %s", got)
		}
	}
}

// A call that has kept a value is made again with it after a crash, unless it has taken the value back.
func testKeeps(t *testing.T, s *suite) {
	for want, again := range map[string]bool{`goes on with {"job":7}`: true, "interrupted": false} {
		calls := 0
		job := tool{"job", false, func(ctx context.Context, call *plugins.Call) (string, error) {
			if calls++; call.Kept != nil {
				return "goes on with " + string(call.Kept), nil
			}
			for _, value := range []json.RawMessage{json.RawMessage(`{"job":6}`), nil, json.RawMessage(`{"job":7}`)} {
				if err := call.Keep(value); err != nil {
					return "", err
				}
			}
			if !again {
				if err := call.Keep(nil); err != nil {
					return "", err
				}
			}
			return "", call.Idle(ctx, func() error { return s.die(ctx) })
		}}
		s.check(want, Case{Plugins: []plugins.Plugin{job}}, func(ctx context.Context, run *plugins.Run) (string, error) {
			out, err := run.CallTool(ctx, "job", nil)
			if out.Error != nil {
				return out.Error.Code, err
			}
			return out.ResultSummary, err
		})
		if calls != map[bool]int{true: 2, false: 1}[again] {
			t.Errorf("%d calls", calls)
		}
	}
}
