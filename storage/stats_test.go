package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/storagetest"
)

// counting is a database on which runs begin, end, go on and go away, and their expected counts.
type counting struct {
	*testing.T
	rand *rand.Rand
	open func() *DB
	db   *DB
	n    int64 // the last commit
	id   int   // the last instance
	base time.Time

	runs  map[int64]*data.Run // that exist
	ended []data.Run          // one for each generation
	calls []data.CallUsage
}

// reopen ends the instance, as a crash does, and has another go on.
func (c *counting) reopen() {
	c.Helper()
	old := c.db
	c.db = c.open()
	if old != nil {
		must(c, c.db.Members().Fence(c.Context(), fmt.Sprint("instance ", c.id)))
	}
	c.id++
	c.n = 0
	must(c, c.db.Members().Join(c.Context(), fmt.Sprint("instance ", c.id), ""))
	if old != nil {
		if _, err := old.Counter.RollUp(c.Context(), c.base); !errors.Is(err, data.ErrFenced) && err != nil {
			c.Logf("the fenced instance: %v", err)
		}
		_ = old.Close()
	}
}

func (c *counting) put(rows ...data.Row) {
	c.Helper()
	c.n++
	if err := c.db.Commit(c.Context(), c.n, &data.Batch{Rows: rows}); err != nil {
		c.Fatalf("commit %d: %v", c.n, err)
	}
}

// at is some time around the base: clocks go back, too.
func (c *counting) at() time.Time {
	return c.base.Add(-time.Duration(c.rand.IntN(3*60*60*1000)) * time.Millisecond).Truncate(time.Millisecond)
}

func (c *counting) some(admits func(*data.Run) bool) *data.Run {
	var keys []int64
	for key, r := range c.runs {
		if admits(r) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	return c.runs[keys[c.rand.IntN(len(keys))]]
}

func (c *counting) insert() {
	key, err := c.db.NewRunKey(c.Context())
	must(c, err)
	thread, err := c.db.NewThreadKey(c.Context())
	must(c, err)
	agent := []string{"echo", "flow", "scripted"}[c.rand.IntN(3)]
	r := &data.Run{RunHead: data.RunHead{
		Key: key, ThreadKey: thread, Project: []string{"p", "q"}[c.rand.IntN(2)], User: "u", ID: fmt.Sprint("run ", key), Agent: agent, WorkflowID: agent,
		Status: data.Queued, Generation: 1, CreatedAt: c.at(),
	}}
	r.QueuedAt = r.CreatedAt
	rows := []data.Row{&data.Thread{ThreadHead: data.ThreadHead{
		Key: thread, Project: r.Project, User: "u", ID: fmt.Sprint("thread ", thread), ConversationID: fmt.Sprint(thread), CreatedAt: r.CreatedAt, UpdatedAt: r.CreatedAt,
	}}, r}
	if c.rand.IntN(4) == 0 { // it is over at once
		c.end(r, &rows)
	}
	c.runs[key] = r
	c.put(rows...)
}

// end brings a run to its end.
func (c *counting) end(r *data.Run, rows *[]data.Row) {
	if r.StartedAt == nil && c.rand.IntN(3) > 0 {
		at := r.CreatedAt.Add(time.Duration(c.rand.IntN(5000)) * time.Millisecond)
		r.StartedAt = &at
	}
	r.Status = []data.Status{data.Completed, data.Failed, data.Cancelled}[c.rand.IntN(3)]
	at := c.at()
	r.FinishedAt, r.Error = &at, nil
	if r.Status == data.Failed {
		r.Error = &agui.OutputError{Code: []string{"timeout", "crash_loop"}[c.rand.IntN(2)], Message: "no"}
	}
	if used := int64(c.rand.IntN(3)); used > 0 {
		call := data.CallUsage{Project: r.Project, User: r.User, Agent: r.WorkflowID, At: c.at(), Calls: 1, Cost: 5 * used, Usage: agui.TokenUsage{
			Model: "m", InputTokens: used, OutputTokens: 2 * used, TotalTokens: 3 * used,
		}}
		c.calls, *rows = append(c.calls, call), append(*rows, &call)
	}
	head := r.RunHead
	*rows = append(*rows, &head, data.EndOf(&head))
	c.ended = append(c.ended, *r)
}

// step does something.
func (c *counting) step() {
	c.Helper()
	open := func(r *data.Run) bool { return !r.Status.Final() }
	over := func(r *data.Run) bool { return r.Status == data.Completed || r.Status == data.Failed }
	final := func(r *data.Run) bool { return r.Status.Final() }
	switch c.rand.IntN(12) {
	case 0, 1, 2, 3:
		c.insert()
	case 4:
		if r := c.some(func(r *data.Run) bool { return r.Status == data.Queued }); r != nil {
			if r.Status = data.Running; r.StartedAt == nil {
				at := r.CreatedAt.Add(time.Duration(c.rand.IntN(5000)) * time.Millisecond)
				r.StartedAt = &at
			}
			head := r.RunHead
			c.put(&head)
		}
	case 5, 6:
		if r := c.some(open); r != nil {
			var rows []data.Row
			c.end(r, &rows)
			c.put(rows...)
		}
	case 7:
		if r := c.some(over); r != nil {
			r.Generation++
			r.Status, r.QueuedAt, r.FinishedAt, r.Error = data.Queued, c.at(), nil, nil
			head := r.RunHead
			c.put(&head)
		}
	case 8:
		if r := c.some(final); r != nil {
			delete(c.runs, r.Key)
			if c.rand.IntN(2) == 0 {
				c.put(&data.Delete{ThreadKey: r.ThreadKey, RunKey: r.Key, Limit: 1000})
			} else {
				c.put(&data.Delete{ThreadKey: r.ThreadKey, Limit: 1000})
			}
		}
	default:
		if _, err := c.db.Counter.RollUp(c.Context(), c.base); err != nil {
			c.Fatal(err)
		}
	}
}

func class(d time.Duration) int {
	if d.Milliseconds() <= 0 {
		return 0
	}
	return 1 + int(math.Log2(float64(d.Milliseconds()))*8)
}

// want has the counts of a project's runs, counted one by one.
func (c *counting) want(project string, step time.Duration) map[time.Time]*data.Tally {
	sums := make(map[time.Time]*data.Tally)
	at := func(t time.Time) *data.Tally {
		t = t.Truncate(step)
		if sums[t] == nil {
			sums[t] = &data.Tally{
				FirstEvent: data.Histogram{}, Duration: data.Histogram{}, Failures: map[string]int{}, Agents: map[string]*data.AgentTally{},
			}
		}
		return sums[t]
	}
	agent := func(t *data.Tally, name string) *data.AgentTally {
		if t.Agents[name] == nil {
			t.Agents[name] = &data.AgentTally{Duration: data.Histogram{}}
		}
		return t.Agents[name]
	}
	began := func(r *data.Run) *time.Time {
		b := r.StartedAt
		if r.Generation > 1 {
			b = &r.QueuedAt
		}
		if b != nil && (r.Generation == 1 || r.Status != data.Queued) {
			at(*b).Started++
			if r.Generation == 1 {
				at(*b).FirstEvent[class(r.StartedAt.Sub(r.CreatedAt))]++
			}
			return b
		}
		return nil
	}
	for _, r := range c.runs {
		if r.Project == project && !r.Status.Final() {
			began(r)
		}
	}
	for i := range c.ended {
		e := &c.ended[i]
		if e.Project != project {
			continue
		}
		b, t := began(e), at(*e.FinishedAt)
		a := agent(t, e.WorkflowID)
		a.Runs++
		switch e.Status {
		case data.Completed:
			t.Completed++
		case data.Failed:
			t.Failed++
			a.Failed++
			t.Failures[e.Error.Code]++
		default:
			t.Cancelled++
		}
		if b != nil {
			t.Duration[class(e.FinishedAt.Sub(*b))]++
			a.Duration[class(e.FinishedAt.Sub(*b))]++
		}
	}
	for _, call := range c.calls {
		if call.Project == project {
			a := agent(at(call.At), call.Agent)
			a.Usage = agui.AddUsage(a.Usage, call.Usage)
		}
	}
	return sums
}

// check compares the database's counts with the expected ones.
func (c *counting) check() {
	c.Helper()
	for _, project := range []string{"p", "q", "nobody's"} {
		for _, step := range []time.Duration{data.HourStep, data.MinuteStep} {
			got, err := c.db.Counter.Stats(c.Context(), project, step, c.base.Add(-25*time.Hour), c.base.Add(time.Hour))
			must(c, err)
			want := c.want(project, step)
			if diff := cmp.Diff(want, got.Tallies, cmp.Comparer(maps.Equal[data.Histogram, data.Histogram]),
				cmp.Comparer(maps.Equal[map[string]int, map[string]int]),
				cmp.Comparer(func(a, b map[string]*data.AgentTally) bool {
					return len(a) == len(b) && (len(a) == 0 || cmp.Equal(maps.Clone(a), maps.Clone(b), cmp.Comparer(func(a, b *data.AgentTally) bool {
						return a.Runs == b.Runs && a.Failed == b.Failed && maps.Equal(a.Duration, b.Duration) && slices.Equal(a.Usage, b.Usage)
					})))
				})); diff != "" {
				c.Fatalf("project %s by %v (-want +got):\n%s", project, step, diff)
			}
			var queued, running int
			for _, r := range c.runs {
				if r.Project == project && r.Status == data.Queued {
					queued++
				}
				if r.Project == project && r.Status == data.Running {
					running++
				}
			}
			if got.Queued.Runs != queued || got.Running.Runs != running {
				c.Errorf("%d runs are queued and %d running, want %d and %d", got.Queued.Runs, got.Running.Runs, queued, running)
			}
		}
	}
}

// checkUsage compares the usage and the spending of all projects with the calls.
func (c *counting) checkUsage() {
	c.Helper()
	day := data.Day(c.base)
	type cell struct {
		project string
		data.UsageKey
	}
	for _, by := range []data.UsageFilter{{}, {ByUser: true, ByDay: true}, {ByAgent: true, ByModel: true}, {User: "u"}, {ByDay: true, ByUser: true, ByAgent: true, ByModel: true}} {
		want, got := make(map[cell]data.UsageSum), make(map[cell]data.UsageSum)
		projects := make(map[string]bool)
		for i := range c.calls {
			projects[c.calls[i].Project] = true
			if sum := c.calls[i].Sum(); by.User == "" || by.User == c.calls[i].User {
				at := cell{c.calls[i].Project, by.Key(sum.UsageKey)}
				total := want[at]
				total.UsageKey = at.UsageKey
				total.Add(&sum)
				want[at] = total
			}
		}
		for project := range projects {
			by.Project, by.Since, by.Until, by.Limit = project, day.AddDate(0, 0, -2), day.AddDate(0, 0, 2), 1000
			list, err := c.db.Counter.Usage(c.Context(), by)
			must(c, err)
			for _, sum := range list {
				got[cell{project, sum.UsageKey}] = sum
			}
		}
		if !maps.Equal(got, want) {
			c.Errorf("usage by %+v is %v, want %v", by, got, want)
		}
	}
	want := make(map[data.Spender]data.Spending)
	for i := range c.calls {
		s := want[c.calls[i].Spender()]
		want[c.calls[i].Spender()] = data.Spending{Spender: c.calls[i].Spender(), Tokens: s.Tokens + c.calls[i].Tokens(), Cost: s.Cost + c.calls[i].Cost}
	}
	list, err := c.db.Budgets().Spent(c.Context(), "", day.AddDate(0, 0, -2), day.AddDate(0, 0, 3))
	got := make(map[data.Spender]data.Spending)
	for _, s := range list {
		got[s.Spender] = s
	}
	if !maps.Equal(got, want) || err != nil {
		c.Errorf("%v are spent, %v, want %v", got, err, want)
	}
}

// newCounting opens a database of each kind. Of SQLite's it calls run with each statement that writes.
func countings(t *testing.T, run func(query string, do func() error) error, test func(*counting)) {
	for name, open := range map[string]func(*testing.T) func() *DB{
		"sqlite": func(t *testing.T) func() *DB {
			url := "sqlite:" + filepath.Join(t.TempDir(), "baton.db")
			return func() *DB { return tappedAt(t, url, run) }
		},
		"postgres": func(t *testing.T) func() *DB {
			url := storagetest.Postgres(t).NewDatabase(t)
			return func() *DB { return openForPlans(t, url) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			c := &counting{
				T: t, rand: rand.New(rand.NewPCG(seed, 0)), open: open(t), base: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC),
				runs: make(map[int64]*data.Run),
			}
			c.reopen()
			test(c)
		})
	}
}

// Each generation and each call counts once, before and after it is rolled up, whatever begins, ends, restarts, is deleted or
// crashes in any order.
func TestStats_AreWhatTheRunsCameTo(t *testing.T) {
	t.Parallel()
	countings(t, func(_ string, do func() error) error { return do() }, func(c *counting) {
		for i := range 250 {
			if c.step(); i%7 == 0 {
				c.check()
				c.checkUsage()
			}
			if i%97 == 0 {
				c.reopen()
			}
		}
		for n := 1; n > 0; {
			var err error
			if n, err = c.db.Counter.RollUp(c.Context(), c.base); err != nil {
				c.Fatal(err)
			}
		}
		c.check()
		left, err := sqldb.One(c.Context(), c.db.read, sqldb.Scalar[int], `SELECT (SELECT count(*) FROM ended_runs) + (SELECT count(*) FROM model_calls)`)
		if err != nil || left != 0 {
			c.Errorf("%d rows are left, %v", left, err)
		}
		c.checkUsage()
	})
}

// A roll-up that dies before or after any of its statements has counted all of its rows or none.
func TestRollUp_IsAtomic(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	left := -1 // statements until it dies
	behind := false
	killed := errors.New("killed")
	die := func(_ string, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case left < 0:
			return do()
		case left > 0:
			left--
			return do()
		}
		if behind {
			_ = do()
		}
		return killed
	}
	countings(t, die, func(c *counting) {
		for i := range 15 {
			for range 3 {
				c.step()
			}
			mu.Lock()
			left, behind = i, i%2 == 0
			mu.Unlock()
			ctx, cancel := context.WithCancel(c.Context())
			if c.db.d.Single {
				_, _ = c.db.Counter.RollUp(ctx, c.base)
			} else {
				go func() {
					<-time.After(time.Duration(i%20) * 200 * time.Microsecond)
					cancel()
				}()
				_, _ = c.db.Counter.RollUp(ctx, c.base)
			}
			cancel()
			mu.Lock()
			left = -1
			mu.Unlock()
			if i%2 == 0 {
				c.reopen()
			}
			c.check()
		}
	})
}

// Several roll-ups at the same time, beside commits, count nothing twice.
func TestRollUp_RunsBesideOthers(t *testing.T) {
	t.Parallel()
	countings(t, func(_ string, do func() error) error { return do() }, func(c *counting) {
		other := c.open()
		for range 25 {
			var wg sync.WaitGroup
			for _, db := range []*DB{c.db, c.db, other} {
				wg.Go(func() {
					if _, err := db.Counter.RollUp(c.Context(), c.base); err != nil {
						c.Error(err)
					}
				})
			}
			for range 6 {
				c.step()
			}
			wg.Wait()
			c.check()
		}
	})
}

func TestRollUp_ForgetsOldBuckets(t *testing.T) {
	t.Parallel()
	countings(t, func(_ string, do func() error) error { return do() }, func(c *counting) {
		for range 60 {
			c.insert()
		}
		left := func(after time.Duration) (n int) {
			for counted, err := 0, error(nil); counted == 0; { // the sums are looked at once there is something new
				c.insert()
				if counted, err = c.db.Counter.RollUp(c.Context(), c.base.Add(after)); err != nil {
					c.Fatal(err)
				}
			}
			list, err := sqldb.All(c.Context(), c.db.read, sqldb.Scalar[int], `SELECT step FROM stats_buckets LIMIT 10000`)
			must(c, err)
			for _, step := range list {
				n += step / 60 // those of hours count sixty times
			}
			return n
		}
		if n := left(0); n < 60 {
			c.Errorf("%d are kept", n)
		}
		if n := left(data.MinutesKept + time.Hour); n == 0 || n%60 != 0 {
			c.Errorf("%d are kept a day later, not those of hours alone", n)
		}
		if n := left(data.HoursKept + time.Hour); n != 0 {
			c.Errorf("%d are kept for ever", n)
		}
	})
}

// A quantile is at most 5 % wrong.
func TestHistogram_QuantilesAreNear(t *testing.T) {
	t.Parallel()
	var tally data.Tally
	at := func(time.Time) *data.Tally { return &tally }
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []float64
	for range 5000 {
		took := time.Duration(math.Exp(rand.Float64()*12)) * time.Millisecond
		(&data.RunEnded{First: true, Status: data.Completed, CreatedAt: created, BegunAt: &created, FinishedAt: created.Add(took)}).Count(at)
		all = append(all, float64(took.Milliseconds()))
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.95, 1} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := float64(tally.Duration.Quantile(q)); math.Abs(got-want) > want*0.05+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
