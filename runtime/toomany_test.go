package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A full run fails with the limit as its error, whatever its worker returns at the same moment.
func TestAFullRunFailsAsSuchWhateverItsWorkerSays(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Emit(agui.TextMessageStart{MessageID: run.Input.RunID, Role: agui.RoleAssistant})
		for err == nil {
			err = run.Emit(agui.TextMessageContent{MessageID: run.Input.RunID, Delta: "again "})
		}
		if run.Input.Query == "content" {
			return agui.WorkerOutput{Status: agui.StatusSuccess}, nil
		}
		return agui.WorkerOutput{}, errors.New("the agent has given up")
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{RunEvents: 1}}, worker)
	for i := range 300 {
		if run := b.wait(b.start(fmt.Sprint(i), "worker", []string{"x", "content"}[i%2]).RunID, runtime.Failed); run.Error.Code != "too_many_events" {
			t.Fatalf("run %d failed with %+v", i, run.Error)
		}
	}
}
