package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// onceMore and never are policies after a crash: the run is called again, or fails.
var onceMore, never = runtime.Config{}, runtime.Config{Limits: runtime.Limits{MaxAttempts: -1}}

// prompted returns the texts in the prompt of a thread's next run.
func (b *bench) prompted(thread string) string {
	b.t.Helper()
	th, err := b.Threads.Get(b.t.Context(), local, thread)
	must(b.t, err)
	rows, err := b.store.Messages(b.t.Context(), th.Key, 0, 1000)
	must(b.t, err)
	return texts(rows)
}

// Refused texts are in no later prompt, at whatever commit the server dies, whether the run is continued or not, and however
// many messages came before.
func TestGuard_RefusedInputStaysHidden(t *testing.T) {
	t.Parallel()
	refuse := guarded{clerk, plugins.Guards{Input: []plugins.Guard{verdict(plugins.Verdict{Verdict: plugins.Refuse, Reason: "no"})}}}
	broken := agent{"broken", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, errors.New("boom")
	}}
	for _, cfg := range []runtime.Config{onceMore, never} {
		t.Run(fmt.Sprint(cfg.MaxAttempts), func(t *testing.T) {
			t.Parallel()
			b := openAt(t, sqlitetest.New(t), cfg, refuse, broken)
			for k := range 12 {
				req := runtime.StartRequest{Agent: "broken", ThreadID: fmt.Sprint("clerk", k)}
				for range 15 {
					req.Messages = append(req.Messages, agui.Message{Role: agui.RoleUser, Content: "bad"})
				}
				s := b.request(req)
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

// until waits for a condition.
func (b *bench) until(what string, is func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !is(); <-tick() {
		if time.Now().After(deadline) {
			b.t.Fatal(what)
		}
	}
}
