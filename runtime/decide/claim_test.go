package decide

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/data"
)

// A run is taken from an owner that cannot write any more, if the log and the owner are as they were when the command was prepared.
func TestTakeOver_NeedsADeadOwner(t *testing.T) {
	released := data.ReleasedBy("y", 1, 1)
	for what, test := range map[string]struct {
		owner  string // of the run, when the decision is made
		last   int64  // of the log
		living bool
		want   error
	}{
		"dead":                              {"x", 100, false, nil},
		"living":                            {"x", 100, true, ErrRunning},
		"taken by another":                  {"y", 100, false, ErrSettled},
		"written meanwhile":                 {"x", 150, false, ErrStale},
		"taken and released":                {released, 150, false, ErrSettled},
		"taken and released without events": {released, 100, false, ErrSettled},
	} {
		for _, c := range []Command{
			&TakeOver{Thread: 1, Run: 2, From: "x", Instance: "z", Last: 100},
			&Finish{
				Thread: 1, Run: 2, Owner: "x", Last: 100, To: data.Failed, Span: data.Span{N: 1, Last: 101}, Events: []data.StoredEvent{{ID: 101}},
			},
		} {
			if ask := c.Ask(); ask.Owner != "x" {
				t.Errorf("%T asks for the owner %q", c, ask.Owner)
			}
			v := &data.View{
				Exists: true, Thread: data.ThreadHead{Key: 1}, Runs: []data.RunHead{{Key: 2, ThreadKey: 1, Status: data.Running, Owner: test.owner, Spans: 1}},
				Living: map[string]bool{"x": test.living}, Last: test.last,
			}
			if out := Decide(v, c); !errors.Is(out.Refused, test.want) {
				t.Errorf("%s, %T: %v, want %v", what, c, out.Refused, test.want)
			}
		}
	}
}

// A run that an instance releases twice has another owner each time, so a command that was prepared before is refused.
func TestRelease_MarksTheOwner(t *testing.T) {
	v := &data.View{Exists: true, Thread: data.ThreadHead{Key: 1}, Runs: []data.RunHead{{Key: 2, ThreadKey: 1, Status: data.Running, Owner: "y", Spans: 1}}}
	var marks []string
	for n := range int64(2) {
		if out := Decide(v, &Release{Thread: 1, Run: 2, Instance: "y", Mark: data.ReleasedBy("y", n, 1)}); out.Refused != nil || !v.Runs[0].Released() {
			t.Fatalf("Release: %v, owner %q", out.Refused, v.Runs[0].Owner)
		}
		marks = append(marks, v.Runs[0].Owner)
		v.Runs[0].Owner = "y"
	}
	if marks[0] == marks[1] || v.Runs[0].Released() {
		t.Errorf("released as %q", marks)
	}
}

// A run that is not executed ends with events only if no run of its thread comes before it.
func TestFinish_WaitsForItsTurn(t *testing.T) {
	for _, test := range []struct {
		first, run data.RunHead
		want       error
	}{
		{data.RunHead{Status: data.Completed}, data.RunHead{Status: data.Queued}, nil},
		{data.RunHead{Status: data.Running}, data.RunHead{Status: data.Queued}, ErrNotClaimed},
		{data.RunHead{Status: data.Waiting}, data.RunHead{Status: data.Queued}, ErrNotClaimed},
		{data.RunHead{Status: data.Queued}, data.RunHead{Status: data.Queued}, ErrNotClaimed},
		{data.RunHead{Status: data.Queued}, data.RunHead{Status: data.Queued, Answered: true}, nil},
		{data.RunHead{Status: data.Queued}, data.RunHead{Status: data.Waiting}, nil},
		{data.RunHead{Status: data.Queued}, data.RunHead{Status: data.Running}, ErrStale},
		{data.RunHead{Status: data.Queued}, data.RunHead{Status: data.Failed}, ErrStale},
	} {
		test.first.Key, test.run.Key = 2, 3
		v := &data.View{Exists: true, Thread: data.ThreadHead{Key: 1}, Runs: []data.RunHead{test.first, test.run}}
		basis := BasisOf(&v.Thread, &test.run, 0, 0)
		c := &Finish{Thread: 1, Run: 3, Basis: &basis, To: data.Failed, Span: data.Span{N: 1, Last: 1}, Events: []data.StoredEvent{{ID: 1}}}
		if out := Decide(v, c); !errors.Is(out.Refused, test.want) {
			t.Errorf("%s behind %s: %v, want %v", test.run.Status, test.first.Status, out.Refused, test.want)
		}
	}
}

// A run that another instance has asked to cancel does not go on.
func TestFinish_HeedsTheRequestToCancel(t *testing.T) {
	for _, test := range []struct {
		to    data.Status
		inbox int
		asked bool
		want  error
	}{
		{data.Waiting, 0, false, nil},
		{data.Waiting, 0, true, ErrCancelAsked},
		{data.Completed, 0, true, nil},
		{data.Completed, 1, false, nil},
		{data.Completed, 1, true, ErrCancelAsked},
		{data.Cancelled, 1, true, nil},
		{data.Failed, 0, true, nil},
		{data.Failed, 1, true, ErrCancelAsked},
	} {
		v := &data.View{
			Exists: true, Thread: data.ThreadHead{Key: 1}, Runs: []data.RunHead{{Key: 2, ThreadKey: 1, Status: data.Running, Owner: "x", Spans: 1}},
			Inbox: map[int64]data.Inbox{2: {Messages: test.inbox}}, CancelAsked: map[int64]bool{2: test.asked},
		}
		c := &Finish{Thread: 1, Run: 2, Owner: "x", To: test.to, Span: data.Span{N: 1, Last: 101}, Events: []data.StoredEvent{{ID: 101}}}
		if out := Decide(v, c); !errors.Is(out.Refused, test.want) {
			t.Errorf("%+v: %v", test, out.Refused)
		}
	}
}
