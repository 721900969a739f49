package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

var cities = []string{"berlin", "paris", "rome"}

// weather returns a tool whose calls return once n of them have started, with their number.
func weather(n int64) (tool, *atomic.Int64) {
	var calls atomic.Int64
	all := make(chan struct{})
	return tool{name: "weather", call: func(ctx context.Context, call *plugins.Call) (string, error) {
		if calls.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		var args struct{ City string }
		err := json.Unmarshal(call.Args, &args)
		return "sun in " + args.City, err
	}}, &calls
}

func testCallsAtOnce(t *testing.T, s *suite) {
	var lives atomic.Int64
	sun, calls := weather(3)
	out := s.check("sun in berlin, sun in paris, sun in rome", Case{Plugins: []plugins.Plugin{sun}}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var asked []plugins.ToolCall
		for _, city := range cities {
			asked = append(asked, plugins.ToolCall{Name: "weather", Args: map[string]string{"city": city}})
		}
		outs, err := run.CallTools(ctx, asked...)
		if err != nil {
			return "", err
		}
		if lives.Add(1) < 3 {
			return "", s.die(ctx)
		}
		var texts []string
		for _, out := range outs {
			texts = append(texts, out.ResultSummary)
		}
		return strings.Join(texts, ", "), nil
	})
	if calls.Load() != 3 {
		t.Errorf("%d calls", calls.Load())
	}
	var opened []string
	for _, ev := range out.Events {
		if e, ok := ev.(agui.ToolCallArgs); ok {
			opened = append(opened, e.Delta)
		}
	}
	if want := []string{`{"city":"berlin"}`, `{"city":"paris"}`, `{"city":"rome"}`}; !slices.Equal(opened, want) {
		t.Errorf("the log shows the calls %q", opened)
	}
}

func testCallsWait(t *testing.T, s *suite) {
	var calls atomic.Int64
	slow := tool{name: "slow", call: func(context.Context, *plugins.Call) (string, error) { return fmt.Sprint(calls.Add(1)), nil }}
	c := Case{Plugins: []plugins.Plugin{slow}, ClientTools: []agui.Tool{{Name: "pick"}}, Answer: yes}
	out := s.check("1 yes yes", c, func(ctx context.Context, run *plugins.Run) (string, error) {
		outs, err := run.CallTools(ctx, plugins.ToolCall{Name: "pick"}, plugins.ToolCall{Name: "slow"}, plugins.ToolCall{Name: "pick"})
		if err != nil {
			return "", err
		}
		return outs[1].ResultSummary + " " + outs[0].ResultSummary + " " + outs[2].ResultSummary, nil
	})
	spans := 0
	for _, ev := range out.Events {
		if ev.Type() == agui.TypeRunStarted {
			spans++
		}
	}
	if spans != 2 || calls.Load() != 1 {
		t.Errorf("%d spans, %d calls", spans, calls.Load())
	}
}

func testBranches(_ *testing.T, s *suite) {
	var lives atomic.Int64
	order := map[int64][]string{1: {"berlin", "paris", "rome"}, 2: {"rome", "berlin", "paris"}, 3: {"paris", "rome", "berlin"}}
	answer := func(q agui.Interrupt) plugins.Answer {
		return plugins.Answer{Payload: json.RawMessage(`"` + q.Message + `"`)}
	}
	s.check("berlin? berlin 1, paris? paris 1, rome? rome 1", Case{Plugins: counters(), Answer: answer}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var mu sync.Mutex
		got := make(map[string]string)
		life := lives.Add(1)
		next := make(chan struct{}, 1) // imposes the order of this process
		next <- struct{}{}
		var working sync.WaitGroup
		for _, city := range order[min(life, 3)] {
			<-next
			ctx := run.Branch(ctx, city)
			working.Add(1)
			run.Go(func() error {
				defer working.Done()
				var place string
				err := run.Do(ctx, "ask", &place, func(context.Context) error {
					place = city
					return nil
				})
				next <- struct{}{}
				if err != nil {
					return err
				}
				a, err := run.Ask(ctx, agui.Interrupt{Message: city + "?"})
				mu.Lock()
				defer mu.Unlock()
				got[city] = strings.Trim(string(a.Payload), `"`) + " " + place
				return err
			})
		}
		working.Wait()
		if life == 1 {
			return "", s.die(ctx)
		}
		var texts []string
		for _, city := range cities {
			texts = append(texts, got[city]+" 1")
		}
		return strings.Join(texts, ", "), nil
	})
}

// On replay a branch gets the messages that it got before, in any order of arrival.
func testNexts(t *testing.T, s *suite) {
	said := make(chan struct{})
	var lives atomic.Int64
	order := map[int64][]string{1: {"berlin", "paris", "rome"}, 2: {"rome", "paris", "berlin"}, 3: {"paris", "rome", "berlin"}}
	c := Case{Next: []string{"one", "two"}, Said: func() { close(said) }}
	s.check("berlin one two, paris, rome", c, func(ctx context.Context, run *plugins.Run) (string, error) {
		select {
		case <-said:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		life := lives.Add(1)
		got := make(map[string]string)
		for _, city := range order[min(life, 3)] {
			messages, err := run.Next(run.Branch(ctx, city))
			if err != nil {
				return "", err
			}
			got[city] = city
			for _, m := range messages {
				got[city] += " " + m.Content
			}
		}
		if life < 3 {
			return "", s.die(ctx)
		}
		return got["berlin"] + ", " + got["paris"] + ", " + got["rome"], nil
	})
	if lives.Load() != 3 {
		t.Errorf("%d lives", lives.Load())
	}
}

func testDosAtOnce(t *testing.T, s *suite) {
	var lives, done atomic.Int64
	out := s.check("berlin paris rome", Case{}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var all, working sync.WaitGroup
		replayed := lives.Add(1) > 1
		all.Add(len(cities))
		names := make([]string, len(cities))
		for i, city := range cities {
			ctx := run.Branch(ctx, city)
			working.Add(1)
			run.Go(func() error {
				defer working.Done()
				return run.Do(ctx, "look", &names[i], func(context.Context) error {
					if replayed {
						t.Errorf("%s is looked at again", city)
					}
					done.Add(1)
					all.Done()
					all.Wait() // ends only when the others run too
					names[i] = city
					w := run.Text()
					for _, word := range []string{"look", "ing"} {
						if _, err := w.Write([]byte(word)); err != nil {
							return err
						}
					}
					return errors.Join(w.Close(), say(run, city), run.State(map[string]bool{city: true}))
				})
			})
		}
		working.Wait()
		if !replayed {
			return "", s.die(ctx)
		}
		return strings.Join(names, " "), nil
	})
	if got := fmt.Sprint(said(out.Events)); got != `["berlin" "paris" "rome"]` || done.Load() != 3 {
		t.Errorf("said %s, done %d", got, done.Load())
	}
}

// When a sub-agent fails while one of its uses waits, its questions are not asked and its open calls have failed.
func testFailedAgent(t *testing.T, s *suite) {
	sub := worker{"sub", func(ctx context.Context, run *plugins.Run) (string, error) {
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "sub?"}); !errors.Is(err, plugins.ErrWaiting) {
			return "", err
		}
		if _, err := run.CallTool(ctx, "pick", nil); err != nil && !errors.Is(err, plugins.ErrWaiting) {
			return "", err
		}
		return "", &plugins.Error{Code: "no_luck", Message: "No luck"}
	}}
	var asked []string
	c := Case{Plugins: []plugins.Plugin{sub}, ClientTools: []agui.Tool{{Name: "pick"}}, Answer: func(q agui.Interrupt) plugins.Answer {
		asked = append(asked, q.Reason+" "+q.Message)
		return yes(q)
	}}
	s.check("yes", c, func(ctx context.Context, run *plugins.Run) (string, error) {
		a, err := run.Ask(ctx, agui.Interrupt{Message: "own?"})
		_, failure := run.CallAgent(ctx, "sub", "")
		if failed, ok := errors.AsType[*plugins.Error](failure); !ok || failed.Code != "no_luck" {
			t.Errorf("the sub-agent ended with %v", failure)
		}
		return strings.Trim(string(a.Payload), `"`), err
	})
	if !slices.Equal(asked, []string{"confirmation own?"}) {
		t.Errorf("asked %q", asked)
	}
}
