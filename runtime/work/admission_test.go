package work

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// crowd is a queue and the reservations of its runs, with 100 bytes in all.
type crowd struct {
	t         *testing.T
	q         *runQueue
	admission *admission
	reserved  map[int64]*reservation
}

func newCrowd(t *testing.T, perUser int64) *crowd {
	a := newAdmission(&Config{Limits: Limits{Runs: 1000, RunsPerUser: 500, LightBytes: 1}}, func(string) int { return 0 })
	a.asked = quota.New(quota.Limits{Total: 100, PerUser: perUser})
	a.said, a.saidLimit = quota.New(quota.Limits{Total: 1000, PerProject: 800, PerUser: 400}), 400
	return &crowd{t, newRunQueue(), a, make(map[int64]*reservation)}
}

// queue adds a run of a user to the queue, with the weight w.
func (c *crowd) queue(user string, run int64, w data.Weight) {
	want(c.q, user, run)
	_, unknown := c.q.ready(none, 1)
	for _, n := range unknown {
		c.q.weighs(n, w)
	}
}

// ask queues a run with an input of that many bytes.
func (c *crowd) ask(user string, run, bytes int64) { c.queue(user, run, data.Weight{Asked: bytes}) }

// claims checks which runs are claimed now.
func (c *crowd) claims(want ...int64) {
	c.t.Helper()
	var got []int64
	done, _ := c.q.ready(c.admission.try, 0)
	for _, n := range done {
		got = append(got, n.Run.Key)
		c.reserved[n.Run.Key] = n.reserved
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.t.Errorf("claimed are %v, want %v", got, want)
	}
}

func (c *crowd) end(runs ...int64) {
	for _, run := range runs {
		c.reserved[run].release()
		c.reserved[run].release() // a second time it gives nothing back
	}
}

func TestAdmission_LightRunsWaitForNoBytes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.ask("ann", 1, 60)
	c.ask("bob", 2, 60)
	c.ask("eve", 3, 0)
	c.claims(1, 3)
	c.ask("eve", 4, 0)
	c.claims(4)
	c.end(1)
	c.claims(2)
	c.end(2, 3, 4)
	if asked, said := c.admission.bytes(); asked+said != 0 || c.admission.free() != 1000 || len(c.admission.agents) > 0 {
		t.Errorf("runs that are over have %d bytes, %d slots, %v", asked+said, 1000-c.admission.free(), c.admission.agents)
	}
}

func TestAdmission_TooLargeRunIsAlone(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 50)
	c.ask("ann", 1, 10)
	c.claims(1)
	c.ask("bob", 2, 500)
	c.claims()
	c.end(1)
	c.claims(2)
	c.ask("ann", 3, 10)
	c.ask("ann", 4, 0)
	c.claims(4)
	c.end(2)
	c.claims(3)
}

func TestAdmission_LargeRunIsNotOvertaken(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.ask("ann", 1, 40)
	c.claims(1)
	c.ask("bob", 2, 90)
	c.ask("eve", 3, 40)
	c.ask("eve", 4, 0)
	c.claims(4)
	c.end(1)
	c.claims(2)
	c.end(2)
	c.claims(3)
}

func TestAdmission_FullShareHoldsUpItsUserAlone(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 50)
	for run := range int64(10) {
		c.ask("ann", run+1, 20)
	}
	c.claims(1, 2)
	for run := int64(20); run < 40; run++ {
		c.ask("bob", run, 40)
		c.claims(run)
		c.end(run)
	}
	c.end(1)
	c.claims(3)
}

func TestAdmission_AnsweredRunReservesItsMessages(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	large := data.Weight{Said: 60} // 240 of a user's 400, and of a project's 800
	for run, user := range []string{"ann", "ann", "bob", "cid", "dan"} {
		c.queue(user, int64(run+1), large)
	}
	c.claims(1, 3, 4)
	if c.reserved[1].grow(101) || !c.reserved[1].grow(80) || c.reserved[1].grow(90) || !c.reserved[1].grow(10) {
		t.Error("a run grows beyond its user's or its project's share, or does not within it")
	}
	c.reserved[1].settle(90)
	if _, said := c.admission.bytes(); said != 4*(90+60+60) {
		t.Errorf("%d bytes are reserved", said)
	}
	c.end(1)
	c.claims(5) // it is next in turn
	c.end(3)
	c.claims(2)
}

// A run that is not weighed yet keeps its place before the others of its user.
func TestRunQueue_ClaimsInOrderWhileItWeighs(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	for run := range int64(3) {
		want(c.q, "ann", run+1)
	}
	_, unknown := c.q.ready(c.admission.try, 3)
	if len(unknown) != 3 {
		t.Fatalf("%d are to be weighed, want 3", len(unknown))
	}
	c.q.weighs(unknown[1], data.Weight{})
	c.claims()
	c.q.weighs(unknown[0], data.Weight{Asked: 1})
	c.claims(1, 2)
	c.q.weighs(unknown[2], data.Weight{Asked: 1})
	c.claims(3)
}

func TestRunQueue_WeighsAChangedRunAgain(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.ask("ann", 1, 90)
	c.claims(1)
	c.ask("bob", 2, 90)
	c.claims()
	c.ask("bob", 2, 10)
	c.claims(2)
}

// A message that is larger than one RUN_STARTED goes in alone. Otherwise its run would be continued for it for ever.
func TestALargeMessageFitsAlone(t *testing.T) {
	t.Parallel()
	large := data.Message{Message: agui.Message{ID: "m", Role: agui.RoleUser, Content: strings.Repeat("x", 1<<10)}}
	first, rest := fitting([]data.Message{large, large}, 1<<10)
	if len(first) != 1 || len(rest) != 1 {
		t.Errorf("%d go in, and %d wait", len(first), len(rest))
	}
}

// A place is left to other servers for a time. Then it is this server's turn, also if another run ends before it has counted again.
func TestAdmission_YieldsOnePlaceInTwo(t *testing.T) {
	t.Parallel()
	a := newAdmission(&Config{}, func(string) int { return 0 })
	of := data.Name{Project: "p"}
	a.cap(of)
	for turn := range 3 {
		if !a.atLimit(of, 0) {
			t.Errorf("turn %d: the limit is not reached", turn)
		}
		a.yield(of)
		if a.atLimit(of, 0) || len(a.allCapped()) > 0 {
			t.Errorf("turn %d: another place is left at once", turn)
		}
		if a.uncap(of); !a.isCapped(of) {
			t.Errorf("turn %d: the place is taken at once", turn)
		}
		a.capped[of] = time.Now() // the time is over
		if a.atLimit(of, 0) {
			t.Errorf("turn %d: the next place is left, too", turn)
		}
		if a.uncap(of); a.isCapped(of) {
			t.Errorf("turn %d: this server takes no place", turn)
		}
		a.cap(of)
	}
}
