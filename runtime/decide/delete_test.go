package decide_test

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// A thread is deleted in parts, and an open run still needs its messages, records and questions.
func TestDelete_NeedsNoOpenRun(t *testing.T) {
	for status, open := range map[data.Status]bool{
		data.Queued: true, data.Running: true, data.Waiting: true, data.Completed: false, data.Failed: false, data.Cancelled: false,
	} {
		v := &data.View{
			Exists: true, Thread: data.ThreadHead{Key: 1},
			Runs: []data.RunHead{{Key: 2, ThreadKey: 1, Status: status}},
		}
		out := decide.Decide(v, &decide.Delete{Thread: 1, Limit: 500})
		if got := errors.Is(out.Refused, decide.ErrRunning); got != open || (out.Removed != nil) == open {
			t.Errorf("with a run that is %s: %v", status, out.Refused)
		}
	}
}
