package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// onceMore and never are policies after a crash: the run is called again, or fails.
var onceMore, never = runtime.Config{}, runtime.Config{MaxAttempts: -1}

// prompted returns the texts in the prompt of a thread's next run.
func (b *bench) prompted(thread string) string {
	b.t.Helper()
	th, err := b.Thread(b.t.Context(), local, thread)
	if err != nil {
		b.t.Fatal(err)
	}
	rows, err := b.store.Messages(b.t.Context(), th.Key, 0, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	return texts(rows)
}

// Refused texts are in no later prompt, at whatever commit the server dies, whether the run is continued or not, and however
// many messages came before.
func TestGuard_RefusedInputStaysHidden(t *testing.T) {
	refuse := guarded{clerk, plugins.Guards{Input: []plugins.Guard{verdict(plugins.Verdict{Verdict: plugins.Refuse, Reason: "no"})}}}
	broken := agent{"broken", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, errors.New("boom")
	}}
	for _, cfg := range []runtime.Config{onceMore, never} {
		onBoth(t, func(t *testing.T, path string) {
			b := openAt(t, path, cfg, refuse, broken)
			for k := range 12 {
				req := runtime.StartRequest{Agent: "broken", ThreadID: fmt.Sprint("clerk", k)}
				for range 15 {
					req.Messages = append(req.Messages, agui.Message{Role: agui.RoleUser, Content: "bad"})
				}
				s, err := b.StartRun(t.Context(), local, req)
				if err != nil {
					t.Fatal(err)
				}
				b.wait(s.RunID, runtime.Failed)
			}
			refused, crashed := 0, 0
			lives(t, b, runtime.StartRequest{Agent: "clerk"}, func(k int, run runtime.Run) {
				if !run.Status.Final() {
					return
				}
				if run.Error.Code == "crash_loop" {
					crashed++
				}
				thread := fmt.Sprint("clerk", k)
				if len(rulings(b.log(thread))) == 0 {
					return
				}
				refused++
				if got := b.prompted(thread); got != "" {
					t.Errorf("commit %d, %s: the next prompt has %s", k, run.Error.Code, got)
				}
			})
			if refused < 2 || (crashed > 0) != (cfg.MaxAttempts < 0) {
				t.Errorf("the guard has refused %d times, and %d runs were given up", refused, crashed)
			}
		})
	}
}

// A refused call is never made, and a rewritten one only as it was rewritten, at whatever commit the server dies.
func TestGuard_RefusedCallIsNeverMade(t *testing.T) {
	for verb, want := range map[string]string{plugins.Refuse: "", plugins.Rewrite: `{"euros":1}`} {
		onBoth(t, func(t *testing.T, path string) {
			var called atomic.Pointer[string]
			pay := tool{plugins.Info{Name: "pay", Idempotent: true}, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
				args := string(call.Args)
				called.Store(&args)
				return agui.ToolOutput{ResultSummary: "paid"}, nil
			}}
			payer := agent{"payer", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				out, err := run.CallTool(ctx, "pay", map[string]int{"euros": 5})
				return agui.WorkerOutput{Answer: out.ResultSummary}, err
			}}
			g := verdict(plugins.Verdict{Verdict: verb, Args: []byte(`{"euros":1}`)})
			b := openAt(t, path, runtime.Config{}, guarded{payer, plugins.Guards{Tool: []plugins.Guard{g}}}, pay)
			lives(t, b, runtime.StartRequest{Agent: "payer"}, func(k int, run runtime.Run) {
				if run.Status.Final() && run.Status != runtime.Completed {
					t.Errorf("%s, commit %d: the run is %s", verb, k, run.Status)
				}
			})
			if made := called.Load(); (made != nil) != (want != "") || made != nil && *made != want {
				t.Errorf("%s: the call was made with %v", verb, made)
			}
		})
	}
}

// chatty shows texts in Dos, a call, and an answer outside of any, each with the word secret. With ask, it asks a person before the answer.
func chatty(ask bool) agent {
	return agent{"chatty", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "first", nil, func(context.Context) error {
			return errors.Join(say(run, "secret one"), think(run, "secret thought"), say(run, "secret two"))
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		if _, err := run.CallTool(ctx, "look", nil); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.Do(ctx, "third", nil, func(context.Context) error { return say(run, "secret three") }); err != nil {
			return agui.WorkerOutput{}, err
		}
		if ask {
			if _, err := run.Ask(ctx, agui.Interrupt{Message: "go on?"}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, say(run, "secret four")
	}}
}

func think(run *plugins.Run, text string) error {
	w := run.Reason()
	_, err := w.Write([]byte(text))
	return errors.Join(err, w.Close())
}

var look = tool{plugins.Info{Name: "look", Idempotent: true}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "nothing"}, nil
}}

// streaming are guards of the output that let it stream, and decide with f.
func streaming(f func(output string) plugins.Verdict) plugins.Guards {
	return plugins.Guards{Output: []plugins.Guard{{Name: "g", Streams: true, Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		return f(s.Output), nil
	}}}}
}

// Of texts that stream all are judged, in their order. A text that is not allowed when its run ends is in no later prompt, at whatever commit
// the server dies, whether the run is continued or not. Allowed texts stay.
func TestGuard_JudgesAllThatStreams(t *testing.T) {
	for word, want := range map[string]string{
		"two": "x", "none": "x, secret one, secret thought, secret two, nothing, secret three, secret four",
		"rewrite four": "x, secret one, secret two, nothing, secret three, ***",
	} {
		rewritten, rewrites := strings.CutPrefix(word, "rewrite ")
		guards := streaming(func(output string) plugins.Verdict {
			switch {
			case rewrites && strings.HasSuffix(output, rewritten):
				return plugins.Verdict{Verdict: plugins.Rewrite, Text: "***"}
			case strings.HasSuffix(output, word):
				return plugins.Verdict{Verdict: plugins.Refuse, Reason: "no"}
			}
			return plugins.Verdict{Verdict: plugins.Allow}
		})
		for _, cfg := range []runtime.Config{onceMore, never} {
			play := func(t *testing.T, path string) {
				b := openAt(t, path, cfg, guarded{chatty(false), guards}, look)
				lives(t, b, runtime.StartRequest{Agent: "chatty"}, func(k int, run runtime.Run) {
					if !run.Status.Final() {
						return
					}
					thread, want := fmt.Sprint("chatty", k), want
					got := b.prompted(thread)
					if run.Status == runtime.Failed {
						want = "x"
						if len(rulings(b.log(thread))) == 4 { // all verdicts were there
							want = got
						}
					}
					if got != want {
						t.Errorf("%s, commit %d, %s: the next prompt is %q, want %q", word, k, run.Status, got, want)
					}
				})
			}
			if rewrites { // these verdicts change the most rows
				onBoth(t, play)
			} else {
				play(t, sqlitetest.New(t))
			}
		}
	}
}

// Streamed texts without a verdict are retracted when their run ends in any other way, with the results of the calls in them.
func TestGuard_RetractsUnjudgedAtTheEnd(t *testing.T) {
	guards := streaming(func(string) plugins.Verdict { return plugins.Verdict{Verdict: plugins.Allow} })
	slow := plugins.Guards{Output: []plugins.Guard{{Name: "g", Streams: true, Timeout: time.Hour, Check: func(ctx context.Context, _ plugins.Subject) (plugins.Verdict, error) {
		return plugins.Verdict{}, hang(ctx)
	}}}}
	boss := agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallAgent(ctx, "chatty", "go")
		if err == nil {
			return agui.WorkerOutput{Answer: "called"}, nil
		}
		return agui.WorkerOutput{Answer: "failed"}, nil
	}}
	cancel := func(b *bench, run string) {
		if _, err := b.Cancel(context.Background(), local, run); err != nil {
			b.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		cfg    runtime.Config
		guards plugins.Guards
		ask    bool
		agent  string
		end    func(b *bench, run string)
		want   string
	}{
		"cancelled":              {runtime.Config{}, slow, false, "chatty", cancel, "go"},
		"out of time":            {runtime.Config{Limits: runtime.Limits{StepTimeout: time.Second}}, slow, false, "chatty", func(*bench, string) {}, "go"},
		"cancelled while asking": {runtime.Config{}, guards, true, "chatty", cancel, "go"},
		"cancelled in a call":    {runtime.Config{}, slow, false, "boss", cancel, "go"},
		"failed in a call": {runtime.Config{}, streaming(func(output string) plugins.Verdict {
			return plugins.Verdict{Verdict: plugins.Refuse}
		}), false, "boss", func(*bench, string) {}, "go, failed"},
	} {
		onBoth(t, func(t *testing.T, path string) {
			b := openAt(t, path, c.cfg, boss, guarded{chatty(c.ask), c.guards}, look)
			s := b.start("main", c.agent, "go")
			if c.ask {
				b.wait(s.RunID, runtime.Waiting)
			} else {
				b.until("the texts are stored", func() bool {
					return strings.Contains(b.prompted("main"), "secret three") || c.want != "go" || c.cfg.StepTimeout > 0
				})
			}
			c.end(b, s.RunID)
			b.wait(s.RunID, runtime.Completed, runtime.Failed, runtime.Cancelled)
			recs := b.log("main")
			checkLog(t, recs)
			if got := b.prompted("main"); got != c.want {
				t.Errorf("%s: the next prompt has %s", name, got)
			}
			if left := foldOf(t, recs); strings.Contains(left, "secret") {
				t.Errorf("%s: the log leaves %s", name, left)
			}
		})
	}
}

// foldOf returns the texts of a log for a client that drops retracted ones.
func foldOf(t *testing.T, recs []*runtime.Record) string {
	t.Helper()
	f, gone := fold.New(nil, nil), make(map[string]bool)
	for _, r := range recs {
		if _, err := f.Apply(r.Event); err != nil {
			t.Fatal(err)
		}
		if c, ok := r.Event.(agui.Custom); ok {
			for _, id := range agui.RetractedBy(c) {
				gone[id] = true
			}
		}
	}
	var left []string
	for _, m := range f.Messages() {
		if !gone[m.ID] {
			left = append(left, m.Text())
		}
	}
	return strings.Join(left, ", ")
}

// until waits for a condition.
func (b *bench) until(what string, is func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !is(); <-tick() {
		if time.Now().After(deadline) {
			b.t.Fatal(what)
		}
	}
}
