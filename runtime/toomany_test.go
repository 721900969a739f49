package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A worker that ignores all errors ends its run when the run has reached its limit of events; open items are closed,
// and the last event fits.
func TestARunOfTooManyEventsFails(t *testing.T) {
	t.Parallel()
	const most = 200
	for name, heeds := range map[string]bool{"whose worker heeds it": true, "whose worker goes on": false, "whose worker is content": false} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Value
			worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				err := run.Emit(agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant})
				for err == nil {
					err = run.Emit(agui.TextMessageContent{MessageID: "m", Delta: "again "})
				}
				refused.CompareAndSwap(nil, err)
				switch {
				case heeds:
					return agui.WorkerOutput{}, err
				case name == "whose worker is content":
					return agui.WorkerOutput{Status: agui.StatusSuccess}, nil
				}
				for ctx.Err() == nil {
					_ = run.Emit(agui.TextMessageContent{MessageID: "m", Delta: "and again "})
				}
				return agui.WorkerOutput{}, ctx.Err()
			}}
			b := open(t, runtime.Config{Limits: runtime.Limits{RunEvents: most}}, worker)
			run := b.wait(b.start("main", "worker", "x").RunID, runtime.Failed)
			if run.Error == nil || run.Error.Code != "too_many_events" {
				t.Errorf("the run failed with %+v", run.Error)
			}
			told, _ := refused.Load().(error)
			if e, ok := errors.AsType[*plugins.Error](told); !ok || e.Code != "too_many_events" {
				t.Errorf("the worker was told %v", told)
			}
			recs := b.log("main")
			checkLog(t, recs)
			if n := len(recs); n < most || n > most+10 {
				t.Errorf("the log has %d events, want %d and what closes them", n, most)
			}
			if end, ok := recs[len(recs)-1].Event.(agui.RunError); !ok || end.Code != "too_many_events" {
				t.Errorf("the log ends with %+v", recs[len(recs)-1].Event)
			}
		})
	}
}

// A full run fails with the limit as its error, whatever error its worker returns at the same moment.
func TestAFullRunFailsAsSuchWhateverItsWorkerSays(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Emit(agui.TextMessageStart{MessageID: run.Input.RunID, Role: agui.RoleAssistant})
		for err == nil {
			err = run.Emit(agui.TextMessageContent{MessageID: run.Input.RunID, Delta: "again "})
		}
		return agui.WorkerOutput{}, errors.New("the agent has given up")
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{RunEvents: 1}}, worker)
	for i := range 300 {
		if run := b.wait(b.start(fmt.Sprint(i), "worker", "x").RunID, runtime.Failed); run.Error.Code != "too_many_events" {
			t.Fatalf("run %d failed with %+v", i, run.Error)
		}
	}
}
