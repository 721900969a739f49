package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// want makes a thread of a user need a claim.
func want(q *runQueue, user string, thread int64) {
	head := data.RunHead{Key: thread, ThreadKey: thread, Project: "p", User: user, Status: data.Queued}
	q.set(&decide.Decided{Thread: thread, Open: []data.RunHead{head}, Next: decide.Next{Do: data.ToClaim, Run: head}})
}

// claimed returns the users of the claims that are made while there are slots.
func claimed(q *runQueue, slots int) (users []string) {
	for _, n := range weighed(q, func(r *data.RunHead, _ data.Weight) (*reservation, shortage) {
		slots--
		if slots < 0 {
			return nil, shortage{slot: quota.Total}
		}
		return new(reservation), shortage{}
	}) {
		users = append(users, n.Run.User)
	}
	return users
}

// none admits nothing.
func none(*data.RunHead, data.Weight) (*reservation, shortage) { return nil, shortage{agent: true} }

// weighed returns the claims that can be made once each run has a zero weight.
func weighed(q *runQueue, admit admitter) []*need {
	for {
		_, unknown := q.ready(none, 1<<20)
		for _, n := range unknown {
			q.weighs(n, data.Weight{})
		}
		if len(unknown) == 0 {
			done, _ := q.ready(admit, 0)
			return done
		}
	}
}

// A user with a thousand waiting threads holds up others for one claim at most.
func TestRunQueue_ServesUsersInTurn(t *testing.T) {
	t.Parallel()
	q := newRunQueue()
	for i := range int64(1000) {
		want(q, "many", i+1)
	}
	want(q, "ann", 2001)
	want(q, "ann", 2002)
	want(q, "bob", 3001)
	for i, next := range [][]string{{"many"}, {"ann"}, {"bob", "many"}, {"ann", "many", "many"}, {"many", "many"}} {
		if got := claimed(q, len(next)); !slices.Equal(got, next) {
			t.Errorf("in round %d there are claims for %v, want %v", i, got, next)
		}
	}
	want(q, "ann", 2003)
	if got := claimed(q, 2); !slices.Contains(got, "ann") {
		t.Errorf("who comes back waits behind %v", got)
	}
	if got := len(claimed(q, 2000)); got != 993 || q.users() != 0 {
		t.Errorf("%d claims are left, and %d users wait behind them", got, q.users())
	}
}

// A run that has to make room is cancelled once, however often decisions about its thread ask for that meanwhile.
func TestRunQueue_CancelsOnce(t *testing.T) {
	t.Parallel()
	q := newRunQueue()
	running := data.RunHead{Key: 1, ThreadKey: 1, Project: "p", User: "ann", Status: data.Running}
	served := func(do data.Todo) int {
		q.set(&decide.Decided{Thread: 1, Open: []data.RunHead{running}, Next: decide.Next{Do: do, Run: running}})
		done, _ := q.ready(none, 0)
		return len(done)
	}
	for i, want := range []int{1, 0, 0} {
		if n := served(data.ToCancel); n != want {
			t.Errorf("decision %d is served %d times, want %d", i, n, want)
		}
	}
	if served(data.ToClaim); !q.serves(1) {
		t.Error("the next run is not claimed")
	}
	if !q.cancelled(1) {
		t.Error("the decisions meanwhile are forgotten")
	}
	if n := served(data.ToCancel); n != 1 || q.cancelled(1) {
		t.Errorf("once the first is over, another one is served %d times", n)
	}
}

// A run of an agent without a free slot does not hold up its user's other runs.
func TestRunQueue_SkipsRunsOfFullAgents(t *testing.T) {
	t.Parallel()
	q := newRunQueue()
	for i := range int64(4) {
		want(q, "ann", i+1)
	}
	var got strings.Builder
	for _, n := range weighed(q, func(r *data.RunHead, _ data.Weight) (*reservation, shortage) {
		if r.Key%2 == 1 {
			return nil, shortage{agent: true}
		}
		return new(reservation), shortage{}
	}) {
		fmt.Fprint(&got, n.Run.Key, " ")
	}
	if got.String() != "2 4 " || q.users() != 1 || q.of("", "").All != 4 {
		t.Errorf("claimed %s of %d, %d users wait", got.String(), q.of("", "").All, q.users())
	}
}

// A server that lacks a run's agent tells the others once of a run of which none has told, and looks at the thread when they tell of it.
func TestRunQueue_TellsOfRunsWithoutAgent(t *testing.T) {
	t.Parallel()
	q := newRunQueue()
	q.offers = func(*data.RunHead) bool { return false }
	q.capped = func(data.Name) quota.Scope { return quota.None }
	for i, run := range []int64{1, 1, 2, 2, 3} {
		head := data.RunHead{Key: run, ThreadKey: 7, Project: "p", User: "ann", Status: data.Queued}
		out := &decide.Decided{Thread: 7, Open: []data.RunHead{head}, Next: decide.Next{Do: data.ToClaim, Run: head}}
		out.Hinted = run == 3
		q.set(out)
		if !q.serves(7) {
			t.Errorf("look %d: it is not known yet that the agent is absent", i)
		}
		told := 0
		for range 3 {
			if _, unknown := q.ready(none, 1); len(unknown) > 0 {
				t.Errorf("look %d: run %d is weighed", i, run)
			}
			told += len(q.noRoom())
		}
		if want := 1 - i%2; out.Hinted && told > 0 || !out.Hinted && told != want || q.serves(7) {
			t.Errorf("look %d: run %d is told of %d times, want %d", i, run, told, want)
		}
	}
}

// A run that has lost its server gets the next free slot that it needs. Queued runs that need another slot begin meanwhile.
func TestRunQueue_KeepsRoomForRunsThatHaveBegun(t *testing.T) {
	t.Parallel()
	ann, bob := data.RunHead{Project: "p", User: "ann", WorkflowID: "a"}, data.RunHead{Project: "p", User: "bob", WorkflowID: "b"}
	for what, test := range map[string]struct {
		left []roomless
		want string
	}{
		"none":            {nil, "ann bob "},
		"a slot":          {[]roomless{{run: ann, lacks: shortage{slot: quota.Total}}}, ""},
		"a user's slot":   {[]roomless{{run: ann, lacks: shortage{slot: quota.User}}}, "bob "},
		"an agent's slot": {[]roomless{{run: bob, lacks: shortage{agent: true}}}, "ann "},
	} {
		q := newRunQueue()
		for i, run := range []data.RunHead{ann, bob} {
			run.Key, run.ThreadKey, run.Status = int64(i), int64(i), data.Queued
			q.set(&decide.Decided{Thread: run.Key, Open: []data.RunHead{run}, Next: decide.Next{Do: data.ToClaim, Run: run}})
		}
		q.keepRoom(test.left)
		begun := func() (users string) {
			for _, n := range weighed(q, func(*data.RunHead, data.Weight) (*reservation, shortage) { return new(reservation), shortage{} }) {
				users += n.Run.User + " "
			}
			return users
		}
		if got := begun(); got != test.want {
			t.Errorf("for %s, %q begin, want %q", what, got, test.want)
		}
		q.keepRoom(nil)
		if got := begun(); len(got)+len(test.want) != len("ann bob ") {
			t.Errorf("for %s, %q begin afterwards", what, got)
		}
	}
}

// A place under a limit is left to other servers once for a run: if they do not take it, the next one is not left to them, too.
func TestRunQueue_LeavesOnePlaceForARun(t *testing.T) {
	t.Parallel()
	q := newRunQueue()
	elsewhere := func(run *data.RunHead) bool { return run.Key < 3 }
	of := data.Name{Project: "p"}
	want(q, "ann", 1)
	for i, want := range []bool{true, false, false} {
		if got := q.leavesTo(of, elsewhere); got != want {
			t.Errorf("place %d is left: %t", i, got)
		}
	}
	want(q, "ann", 1) // another look
	if q.leavesTo(of, elsewhere) {
		t.Error("a place is left after another look at the same run")
	}
	want(q, "bob", 3)
	if want(q, "eve", 2); !q.leavesTo(of, elsewhere) || q.leavesTo(of, elsewhere) {
		t.Error("not one place is left for another run")
	}
}

// Room is looked for once a run that waits for it lacks nothing more.
func TestRunQueue_KnowsWhichRunsFit(t *testing.T) {
	t.Parallel()
	cfg := &Config{Limits: Limits{Runs: 10, RunsPerUser: 2, RunsBytes: 100, LightBytes: 1}}
	a := newAdmission(cfg, func(string) int { return 0 })
	q := newRunQueue()
	ann := data.RunHead{Key: 1, Project: "p", User: "ann", WorkflowID: "a"}
	big := data.RunHead{Key: 2, Project: "p", User: "eve", WorkflowID: "a"}
	var held []*reservation
	for range 2 {
		r, _ := a.try(&ann, data.Weight{Asked: 30})
		held = append(held, r)
	}
	q.keepRoom([]roomless{{run: ann}, {run: big, weight: data.Weight{Asked: 60}}})
	if q.weighed(&big).weight.Asked != 60 {
		t.Error("the weight is forgotten")
	}
	bob, _ := a.try(&data.RunHead{Key: 3, Project: "p", User: "bob", WorkflowID: "a"}, data.Weight{})
	if bob.release(); q.hasRoom(a.lacks) {
		t.Error("a slot of another user is room")
	}
	if got := q.roomless[1].lacks; got != (shortage{slot: quota.User}) {
		t.Errorf("it lacks %+v", got)
	}
	if got := q.roomless[2].lacks; got != (shortage{asked: quota.Total}) {
		t.Errorf("the other one lacks %+v", got)
	}
	held[0].release()
	if !q.hasRoom(a.lacks) {
		t.Error("a slot of the user is no room")
	}
	held[0], _ = a.try(&ann, data.Weight{})
	if !q.hasRoom(a.lacks) {
		t.Error("bytes are no room")
	}
}
