package runtime_test

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// A state has the same size in the log as in the client's request.
func TestStateOfAnyCharactersIsTaken(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	state := `{"x":"` + strings.Repeat("<", 3<<20) + `"}`
	s := b.request(runtime.StartRequest{ThreadID: "main", Agent: "hello", Messages: user("x"), State: []byte(state)})
	b.wait(s.RunID, runtime.Completed)
	th := b.found("main")
	if snap, err := b.Logs.Snapshot(t.Context(), th); err != nil || string(snap.State) != state {
		t.Errorf("a state of %d bytes has become one of %d, %v", len(state), len(snap.State), err)
	}
}
