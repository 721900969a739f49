package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Where there are others, nobody has all slots for as long as runs may take.
func TestSlotsAreShared(t *testing.T) {
	worker := agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{Accounts: true, Runs: 8, Drain: time.Millisecond}, worker)
	running := func(project, user string) int {
		c := runtime.MustCaller(project, user, runtime.RoleUser)
		s, err := b.Standing(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return s.Running.Used
	}
	for _, who := range []struct {
		project, user string
		most          int
	}{
		{"p", "first", 4},  // a half
		{"p", "second", 2}, // three quarters with the first
		{"q", "third", 2},  // what is left
	} {
		for range 10 {
			_, err := b.StartRun(t.Context(), runtime.MustCaller(who.project, who.user, runtime.RoleUser), runtime.StartRequest{
				Agent: "worker", Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for running(who.project, who.user) < who.most {
			<-tick()
		}
	}
	if n := running("p", "first"); n != 4 {
		t.Errorf("one user runs %d of 8", n)
	}
}

// Shares of few slots are not rounded down to next to none.
func TestSharesOfFewSlots(t *testing.T) {
	for runs, want := range map[int][2]int{1: {1, 1}, 2: {1, 2}, 3: {2, 3}, 4: {2, 3}, 7: {4, 6}, 8: {4, 6}} {
		b := open(t, runtime.Config{Accounts: true, Runs: runs}, hello)
		s, err := b.Standing(t.Context(), runtime.MustCaller("p", "ann", runtime.RoleUser))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{s.Running.Limit, s.RunningOfProject.Limit}; got != want {
			t.Errorf("of %d slots a user and a project have %d, want %d", runs, got, want)
		}
		b.down()
	}
}
