package work

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// crowd is a queue with the reservations of its runs, with 100 bytes in all.
type crowd struct {
	data.Store
	t        *testing.T
	d        *dispatcher
	line     line
	weights  map[int64]data.Weight
	reserved map[int64]*reservation
}

func newCrowd(t *testing.T, perUser int64) *crowd {
	c := &crowd{t: t, weights: make(map[int64]data.Weight), reserved: make(map[int64]*reservation)}
	cfg := Config{Store: c, Limits: Limits{Runs: 1000, RunsPerUser: 500, LightBytes: 1}}
	a := newAdmission(&cfg, func(string) int { return 0 })
	a.asked = quota.New(quota.Limits{Total: 100, PerUser: perUser})
	a.said, a.saidLimit = quota.New(quota.Limits{Total: 1000, PerProject: 800, PerUser: 400}), 400
	en := &Engine{cfg: cfg, store: c, runs: &runs{}, peers: newPeers(), abandoned: t.Context()}
	en.aloneUntil.Store(math.MaxInt64)
	c.d = newDispatcher(en)
	c.d.admission, en.dispatcher = a, c.d
	return c
}

func (c *crowd) Line(_ context.Context, after data.Place, each data.Each, limit int) ([]data.Place, error) {
	return c.line.read(after, each, limit)
}

func (*crowd) Take(context.Context, []int64, time.Duration) ([]int64, error) {
	return nil, data.ErrDiskFull
}

func (c *crowd) Weight(_ context.Context, _, run int64) (data.Weight, error) {
	return c.weights[run], nil
}

func (c *crowd) Heads(_ context.Context, runs []int64) (heads []data.RunHead, err error) {
	for _, p := range c.line {
		if slices.Contains(runs, p.RunKey) {
			heads = append(heads, p.Head())
		}
	}
	return heads, nil
}

// queue adds a run of a user with the weight w to the queue. Its thread has the same key.
func (c *crowd) queue(user string, run int64, w data.Weight) {
	w.Said /= 2 // a worker's answer counts twice
	c.weights[run] = w
	c.line = append(c.line, data.Place{
		ThreadKey: run, RunKey: run, Todo: data.ToClaim, Project: "p", User: user, Workflow: "a", Agent: "a", Answered: w.Said > 0, Since: time.UnixMilli(run),
	})
	c.line.sort()
}

// ask queues a run with an input of that many bytes.
func (c *crowd) ask(user string, run, bytes int64) { c.queue(user, run, data.Weight{Asked: bytes}) }

// claims checks which runs are claimed now.
func (c *crowd) claims(want ...int64) {
	c.t.Helper()
	var got []int64
	for more := true; more; {
		c.d.looker.mark(false)
		rows, _, err := c.d.looker.choose()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range rows {
			if r.weighed || c.d.looker.weigh(r) {
				got = append(got, r.run.Key)
				c.reserved[r.run.Key] = r.reserved
				c.line = slices.DeleteFunc(c.line, func(p data.Place) bool { return p.RunKey == r.run.Key })
			}
			c.d.looker.end(c.d.looker.serving, r.run.ThreadKey)
		}
		more = len(rows) > 0
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
	if asked, said := c.d.admission.bytes(); asked+said != 0 || c.d.admission.free() != 1000 || len(c.d.admission.agents) > 0 {
		t.Errorf("runs that are over have %d bytes, %d slots, %v", asked+said, 1000-c.d.admission.free(), c.d.admission.agents)
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
	if _, said := c.d.admission.bytes(); said != 4*(90+60+60) {
		t.Errorf("%d bytes are reserved", said)
	}
	c.end(1)
	c.claims(5) // it is next in turn
	c.end(3)
	c.claims(2)
}

// A heavy run that has ended elsewhere holds up no other run, and a thread's next run is weighed.
func TestAdmission_ForgetsWhatIsNotQueued(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.ask("ann", 1, 90)
	c.claims(1)
	c.ask("bob", 2, 90)
	c.ask("eve", 3, 20)
	c.claims()
	c.line = slices.DeleteFunc(c.line, func(p data.Place) bool { return p.RunKey == 2 })
	c.ask("bob", 4, 5)
	c.claims()
	c.end(1)
	c.claims(3, 4)
}

// A server that cannot take rows does not look again at once, also if other runs wait for room.
func TestLooker_PausesWhileRowsCannotBeTaken(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.ask("ann", 1, 90)
	c.claims(1)
	c.ask("bob", 2, 90)
	c.ask("eve", 3, 0)
	c.claims(3)
	c.ask("eve", 4, 0)
	c.d.looker.signal = make(chan struct{}, 1)
	c.d.en.aloneUntil.Store(0) // and no row can be taken
	c.d.looker.mark(false)
	rows, more, err := c.d.looker.choose()
	if len(rows) > 0 || !more || !errors.Is(err, data.ErrDiskFull) || len(c.d.looker.signal) > 0 {
		t.Errorf("%d rows are taken, more: %v, %v, %d looks are due at once", len(rows), more, err, len(c.d.looker.signal))
	}
	if c.d.admission.free() != 998 {
		t.Errorf("%d slots are free, want 998", c.d.admission.free())
	}
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
