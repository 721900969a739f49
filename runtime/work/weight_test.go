package work

import (
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// crowd is a queue with the slots that its runs take, of which each weighs what a test says, and room for 100.
type crowd struct {
	q       *runQueue
	slots   *slots
	heads   map[int64]*model.RunHead
	weights map[int64]int64
}

func newCrowd(perUser int64) *crowd {
	cfg := &Config{Runs: 1000, Bytes: 100, BytesPerUser: perUser}
	return &crowd{newRunQueue(), newSlots(cfg, func(string) int { return 0 }), make(map[int64]*model.RunHead), make(map[int64]int64)}
}

// ask has a run of a user stand in the queue.
func (c *crowd) ask(user string, run, weight int64) {
	head := &model.RunHead{Key: run, ThreadKey: run, Project: "p", User: user, Status: model.Queued}
	c.heads[run], c.weights[run] = head, weight
	c.q.set(&decide.Decided{Thread: run, Open: []model.RunHead{*head}, Next: decide.Next{Do: decide.ToClaim, Run: *head}})
	_, unknown := c.q.ready(func(*model.RunHead, model.Weight) fit { return full }, 0, 1)
	for _, n := range unknown {
		c.q.weighs(n, model.Weight{Asked: weight})
	}
}

// claims checks which runs are claimed now.
func (c *crowd) claims(t *testing.T, want ...int64) {
	t.Helper()
	var got []int64
	done, _ := c.q.ready(c.admit, c.slots.cfg.Bytes, 0)
	for _, n := range done {
		got = append(got, n.Run.Key)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("claimed are %v, want %v", got, want)
	}
}

func (c *crowd) admit(r *model.RunHead, w model.Weight) fit { return c.slots.take(r, w.Asked) }

func (c *crowd) end(run int64) { c.slots.free(c.heads[run], c.weights[run]) }

func TestRunsWaitForRoom(t *testing.T) {
	c := newCrowd(0)
	c.ask("ann", 1, 60)
	c.ask("bob", 2, 60)
	c.ask("eve", 3, 0)
	c.claims(t, 1, 3) // who weighs nothing waits for nobody
	c.ask("eve", 4, 0)
	c.claims(t, 4)
	c.end(1)
	c.claims(t, 2)
	c.end(2)
	c.end(3)
	c.end(4)
	if c.slots.weight != 0 || len(c.slots.theirs) > 0 || c.slots.total != 0 {
		t.Errorf("%d runs that are over weigh %d", c.slots.total, c.slots.weight)
	}
}

// What is larger than all room there is has it to itself.
func TestTooHeavyRunIsAlone(t *testing.T) {
	c := newCrowd(50)
	c.ask("ann", 1, 10)
	c.claims(t, 1)
	c.ask("bob", 2, 500)
	c.claims(t)
	c.end(1)
	c.claims(t, 2)
	c.ask("ann", 3, 10)
	c.claims(t)
	c.ask("ann", 4, 0)
	c.claims(t, 4)
	c.end(2)
	c.claims(t, 3)
}

// A heavy run is passed by others until they weigh as much as there is room for.
func TestHeavyRunIsNotPassedForEver(t *testing.T) {
	c := newCrowd(0)
	c.ask("ann", 1, 40)
	c.ask("ann", 2, 20)
	c.claims(t, 1, 2)
	c.ask("bob", 3, 90)
	for run := int64(10); run < 12; run++ {
		c.ask("eve", run, 40)
		c.claims(t, run)
		c.end(run)
	}
	c.ask("eve", 12, 40)
	c.claims(t)
	c.ask("ann", 13, 10)
	c.claims(t, 13)
	c.ask("ann", 14, 20)
	c.claims(t)
	c.ask("eve", 15, 0)
	c.claims(t, 15)
	for _, run := range []int64{1, 2, 13} {
		c.end(run)
	}
	c.claims(t, 3)
	c.end(3)
	c.claims(t, 12, 14)
}

// Nobody has all the room while others want some, and whose own part is full keeps no one else waiting.
func TestUserHasAPartOfTheRoom(t *testing.T) {
	c := newCrowd(50)
	for run := range int64(10) {
		c.ask("ann", run+1, 20)
	}
	c.claims(t, 1, 2)
	for run := int64(20); run < 40; run++ {
		c.ask("bob", run, 40)
		c.claims(t, run)
		c.end(run)
	}
	c.end(1)
	c.claims(t, 3)
}

// A run that is not weighed yet keeps its place before the others of its user.
func TestRunsAreClaimedInOrderWhileTheyAreWeighed(t *testing.T) {
	c := newCrowd(0)
	for run := range int64(3) {
		head := &model.RunHead{Key: run + 1, ThreadKey: run + 1, Project: "p", User: "ann", Status: model.Queued}
		c.q.set(&decide.Decided{Thread: run + 1, Open: []model.RunHead{*head}, Next: decide.Next{Do: decide.ToClaim, Run: *head}})
	}
	_, unknown := c.q.ready(c.admit, 100, 3)
	if len(unknown) != 3 {
		t.Fatalf("%d are to be weighed, want 3", len(unknown))
	}
	c.q.weighs(unknown[1], model.Weight{})
	c.claims(t)
	c.q.weighs(unknown[0], model.Weight{Asked: 1})
	c.claims(t, 1, 2)
	c.q.weighs(unknown[2], model.Weight{Asked: 1})
	c.claims(t, 3)
}

// A run is weighed again when its thread has changed.
func TestChangedRunIsWeighedAgain(t *testing.T) {
	c := newCrowd(0)
	c.ask("ann", 1, 90)
	c.claims(t, 1)
	c.ask("bob", 2, 90)
	c.claims(t)
	c.ask("bob", 2, 10)
	c.claims(t, 2)
}

// A message that is larger than all that fits into one RUN_STARTED goes in alone: else its run would go once more for it, for ever.
func TestALargeMessageFitsAlone(t *testing.T) {
	large := model.Message{Message: agui.Message{ID: "m", Role: agui.RoleUser, Content: strings.Repeat("x", 1<<10)}}
	first, rest := fitting([]model.Message{large, large}, 1<<10)
	if len(first) != 1 || len(rest) != 1 {
		t.Errorf("%d go in, and %d wait", len(first), len(rest))
	}
}
