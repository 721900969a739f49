package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
)

// crowd is a queue with the reservations of its runs, with 100 bytes in all.
type crowd struct {
	Store
	data.Queue
	t        *testing.T
	q        *Queue
	line     line
	weights  map[int64]data.Weight
	reserved map[int64]*Reservation
}

func newCrowd(t *testing.T, perUser int64) *crowd {
	c := &crowd{t: t, weights: make(map[int64]data.Weight), reserved: make(map[int64]*Reservation)}
	c.q = New(Config{
		Store: c, Rows: c, Unshared: func(err error) { t.Error(err) }, OwnLimit: func(string) int { return 0 }, LightBytes: 1,
		Slots: quota.Limits{Total: 1000, PerUser: 500}, Asked: quota.Limits{Total: 100, PerUser: perUser},
		Said: quota.Limits{Total: 1000, PerProject: 800, PerUser: 400},
	})
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
		c.q.looks.mark(false)
		rows, _, err := c.q.choose(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range rows {
			if r.weighed || c.q.weigh(c.t.Context(), r) {
				got = append(got, r.run.Key)
				c.reserved[r.run.Key] = r.reserved
				c.line = slices.DeleteFunc(c.line, func(p data.Place) bool { return p.RunKey == r.run.Key })
			}
			c.q.looks.end(c.q.looks.serving, r.run.ThreadKey)
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
	if asked, said := c.q.Bytes(); asked+said != 0 || c.q.Free() != 1000 || len(c.q.admission.agents) > 0 {
		t.Errorf("runs that are over have %d bytes, %d slots, %v", asked+said, 1000-c.q.Free(), c.q.admission.agents)
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
	if c.reserved[1].Grow(101) || !c.reserved[1].Grow(80) || c.reserved[1].Grow(90) || !c.reserved[1].Grow(10) {
		t.Error("a run grows beyond its user's or its project's share, or does not within it")
	}
	c.reserved[1].settle(90)
	if _, said := c.q.Bytes(); said != 4*(90+60+60) {
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

// others live, and offer no more than this server.
type others struct{}

func (others) Offers(*data.RunHead) (offers, lane bool) { return true, true }

func (others) Elsewhere(*data.RunHead) (may, free bool) { return true, true }

func (others) OthersLive() bool { return true }

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
	c.q.looks.signal = make(chan struct{}, 1)
	c.q.cfg.Servers = others{} // and no row can be taken
	c.q.looks.mark(false)
	rows, more, err := c.q.choose(c.t.Context())
	if len(rows) > 0 || !more || !errors.Is(err, data.ErrDiskFull) || len(c.q.looks.signal) > 0 {
		t.Errorf("%d rows are taken, more: %v, %v, %d looks are due at once", len(rows), more, err, len(c.q.looks.signal))
	}
	if c.q.Free() != 998 {
		t.Errorf("%d slots are free, want 998", c.q.Free())
	}
}
