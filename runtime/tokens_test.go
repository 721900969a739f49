package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// caller is a worker that asks before each model call. It makes one call per letter of its query, and each takes 60
// tokens.
func caller() agent {
	return agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for range run.Input.Query {
			if err := run.Do(ctx, "model", nil, func(ctx context.Context) error {
				if err := run.MayCallModel(); err != nil {
					return err
				}
				return run.ModelCall(ctx, plugins.ModelCall{Usage: tokensOf("m", 40, 20)})
			}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{Answer: "done"}, nil
	}}
}

// careless does not ask before its calls, and reports the tokens that it used.
var careless = agent{"careless", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	for range run.Input.Query {
		if err := run.Usage(ctx, tokensOf("m", 40, 20)); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{Answer: "done"}, nil
}}

// asking takes 60 tokens, and asks a question in between.
var asking = agent{"asking", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if err := run.Usage(ctx, tokensOf("m", 40, 20)); err != nil {
		return agui.WorkerOutput{}, err
	}
	_, err := run.Ask(ctx, agui.Interrupt{Message: "?"})
	return agui.WorkerOutput{Answer: "done"}, err
}}

func TestTokensOfAProjectAreLimited(t *testing.T) {
	b := open(t, runtime.Config{Limits: runtime.Limits{TokensPerDay: 200}}, caller(), careless, asking)
	refused := func(what string, err error) {
		t.Helper()
		if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "tokens_exceeded" || e.Kind != runtime.KindOverloaded || e.RetryAfter < 23*time.Hour || e.RetryAfter > 25*time.Hour {
			t.Errorf("%s: %v", what, err)
		}
	}
	used := func(want int64) {
		t.Helper()
		s, err := b.Standing(t.Context(), local)
		if err != nil || s.Tokens != (runtime.TokenQuota{Limit: 200, Used: want}) {
			t.Errorf("%+v %v, want %d used", s.Tokens, err, want)
		}
	}
	first := runtime.StartRequest{Agent: "caller", ThreadID: "main", Messages: user("x"), Idempotency: &runtime.Idempotency{Scope: "s", BodyHash: "h"}}
	done, err := b.StartRun(t.Context(), local, first)
	if err != nil {
		t.Fatal(err)
	}
	b.wait(done.RunID, runtime.Completed)
	waits := b.start("asks", "asking", "x")
	b.wait(waits.RunID, runtime.Waiting)
	used(120)

	// The run that exceeds the limit is not stopped, but further model calls are refused.
	over := b.start("over", "caller", "xxxx")
	if run := b.wait(over.RunID, runtime.Failed); run.Error == nil || run.Error.Code != "tokens_exceeded" {
		t.Errorf("the run failed with %+v", run.Error)
	}
	checkLog(t, b.log("over"))
	used(240)

	asked, err := b.Interrupts(t.Context(), local, waits.RunID)
	if err != nil || len(asked) != 1 {
		t.Fatal(asked, err)
	}
	entries := []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved"}}
	test := func() {
		t.Helper()
		_, err := b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "caller", Messages: user("x")})
		refused("a new run", err)
		_, err = b.StartRun(t.Context(), local, runtime.StartRequest{ThreadID: "asks", Resume: entries})
		refused("an answer with a request", err)
		_, err = b.Resume(t.Context(), local, waits.RunID, entries)
		refused("an answer", err)
		_, err = b.Append(t.Context(), local, done.RunID, runtime.AppendRequest{Content: "again"})
		refused("a message that restarts a run", err)
		if again, err := b.StartRun(t.Context(), local, first); err != nil || again.RunID != done.RunID {
			t.Errorf("a repeat: %v", err)
		}
		other := runtime.MustCaller("other", "local", runtime.RoleUser)
		if s, err := b.StartRun(t.Context(), other, runtime.StartRequest{Agent: "asking", Messages: user("x")}); err != nil {
			t.Errorf("another project: %v", err)
		} else if _, err := b.Cancel(t.Context(), other, s.RunID); err != nil {
			t.Error(err)
		}
		used(240)
	}
	test()
	b.down()
	b.up()
	test()
}

// TestTokensOfWhoDoesNotAskAreLimited: a worker that only reports its usage learns from the report that it exceeded
// the limit.
func TestTokensOfWhoDoesNotAskAreLimited(t *testing.T) {
	b := open(t, runtime.Config{Limits: runtime.Limits{TokensPerDay: 100}}, careless)
	run := b.wait(b.start("main", "careless", "xxxxxxxx").RunID, runtime.Failed)
	if run.Error == nil || run.Error.Code != "tokens_exceeded" || run.Usage[0].InputTokens != 120 {
		t.Errorf("%+v after %+v", run.Error, run.Usage)
	}
}

// TestTokensOfSubagentsAreLimited: the model calls of a run's sub-agents are counted and refused like the run's own.
func TestTokensOfSubagentsAreLimited(t *testing.T) {
	parent := agent{"parent", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return run.CallAgent(ctx, "caller", "xxxx")
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{TokensPerDay: 100}}, parent, caller())
	b.wait(b.start("main", "parent", "go").RunID, runtime.Failed)
	s, err := b.Standing(t.Context(), local)
	if err != nil || s.Tokens.Used != 120 {
		t.Errorf("%+v are used, %v, want 120", s.Tokens, err)
	}
	checkLog(t, b.log("main"))
}
