package decide_test

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// A thread is deleted in parts, and an open run still needs its messages, records and questions.
func TestDelete_NeedsNoOpenRun(t *testing.T) {
	for status, open := range map[model.Status]bool{
		model.Queued: true, model.Running: true, model.Waiting: true, model.Completed: false, model.Failed: false, model.Cancelled: false,
	} {
		v := &model.View{
			Exists: true, Thread: model.ThreadHead{Key: 1},
			Runs: []model.RunHead{{Key: 2, ThreadKey: 1, Status: status}},
		}
		out := decide.Decide(v, &decide.Delete{Thread: 1, Limit: 500})
		if got := errors.Is(out.Refused, decide.ErrRunning); got != open || (out.Removed != nil) == open {
			t.Errorf("with a run that is %s: %v", status, out.Refused)
		}
	}
}
