package memory

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
)

// runsOf returns the thread's runs in the order of their creation.
func (db *Database) runsOf(thread int64) []*data.Run {
	return db.runs.sorted(func(r *data.Run) bool { return r.ThreadKey == thread }, byKey)
}

// whole returns a run with the columns of its thread.
func (db *Database) whole(r *data.Run) *data.Run {
	if r == nil {
		return nil
	}
	t, w := db.threads[r.ThreadKey], *r
	w.ThreadID, w.ThreadTitle, w.ConversationID = t.ID, t.Title, t.ConversationID
	return &w
}

func (db *Database) wholes(list []*data.Run) []data.Run {
	for i := range list {
		list[i] = db.whole(list[i])
	}
	return copies(list)
}

// Run returns the run with that key.
func (db *Database) Run(ctx context.Context, key int64) (data.Run, error) {
	return one(ctx, db, func() *data.Run { return db.whole(db.runs[key]) })
}

// RunsByName returns the runs with that name: see [data.ByProject].
func (db *Database) RunsByName(ctx context.Context, project, user, name string) ([]data.Run, error) {
	return read(ctx, db, func() []data.Run {
		keys := make(map[int64]bool)
		for n, row := range db.names {
			if n.Project == project && n.ID == name && (user == "" || n.User == user) {
				keys[row.RunKey] = true
			}
		}
		list := db.wholes(head(db.runs.sorted(func(r *data.Run) bool { return keys[r.Key] }, byKey), 2))
		for i := range list {
			list[i].Input, list[i].Definition = nil, nil
		}
		return list
	})
}

// Runs lists runs, newest first, without the columns that lists omit. The default limit is 50.
func (db *Database) Runs(ctx context.Context, f data.RunFilter) (data.Page[data.Run], error) {
	return read(ctx, db, func() data.Page[data.Run] {
		order := byKey
		if f.Project != "" && f.ThreadKey == 0 && !f.ByTerms() {
			order = func(a, b *data.Run) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), byKey(a, b)) }
		}
		if f.Oldest {
			newest := order
			order = func(a, b *data.Run) int { return newest(b, a) }
		}
		list := db.runs.sorted(func(r *data.Run) bool { return admits(&f, r) && db.found(&f, r) }, func(a, b *data.Run) int { return order(b, a) })
		for i, r := range list {
			list[i] = db.whole(r)
			list[i].Input, list[i].Definition, list[i].Metadata = nil, nil, nil
		}
		before := db.before(f.Project, f.BeforeKey)
		return counted(page(list, func(r *data.Run) bool { return f.BeforeKey != 0 && order(r, before) >= 0 },
			cmp.Or(max(f.Limit, 0), 50), func(r *data.Run) int {
				return len(r.InputQuery) + lengthOf(r.OutputSummary) + len(strings.Join(r.ContextItemIDs, `","`))
			}), f.Count)
	})
}

func lengthOf(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}

// before returns the end of a page that continues below a key. If that run was deleted, the project's previous run
// gives the time.
func (db *Database) before(project string, key int64) *data.Run {
	at := &data.Run{RunHead: data.RunHead{Key: key}}
	if older := db.runs.sorted(func(r *data.Run) bool { return r.Key <= key && r.Project == project }, byKey); len(older) > 0 {
		at.CreatedAt = older[len(older)-1].CreatedAt
	}
	return at
}

func admits(f *data.RunFilter, r *data.Run) bool {
	return (f.Project == "" || r.Project == f.Project) && (f.User == "" || r.User == f.User) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) && (f.Agent == "" || r.Agent == f.Agent) &&
		(f.WorkflowID == "" || r.WorkflowID == f.WorkflowID) && (f.ThreadKey == 0 || r.ThreadKey == f.ThreadKey) &&
		!r.CreatedAt.Before(f.Since) && (f.Until.IsZero() || r.CreatedAt.Before(f.Until))
}

// found reports whether the terms of a filter find a run, or its text is a name of the run.
func (db *Database) found(f *data.RunFilter, r *data.Run) bool {
	if !f.ByTerms() {
		return true
	}
	of := terms.Of(db.whole(r))
	if search, ok := terms.For(f); ok && search.Finds(of) {
		return true
	}
	facts := *f
	facts.Text = ""
	search, _ := terms.For(&facts)
	return f.Text != "" && db.isNamed(r, f.Text) && search.Finds(of)
}

func (db *Database) isNamed(r *data.Run, name string) bool {
	for n, row := range db.names {
		if row.RunKey == r.Key && n.Project == r.Project && n.ID == name {
			return true
		}
	}
	return false
}

// OpenRuns returns the thread's open runs in the order in which they are claimed.
func (db *Database) OpenRuns(ctx context.Context, threadKey int64) ([]data.RunHead, error) {
	return read(ctx, db, func() []data.RunHead { return db.openRuns(threadKey) })
}

// Heads returns the heads of those of the runs that exist.
func (db *Database) Heads(ctx context.Context, runs []int64) ([]data.RunHead, error) {
	return read(ctx, db, func() (list []data.RunHead) {
		for _, key := range runs {
			if r := db.runs[key]; r != nil {
				list = append(list, copied(&r.RunHead))
			}
		}
		return list
	})
}

// CancelAsks returns the requests to cancel runs that an instance executes.
func (db *Database) CancelAsks(ctx context.Context, instance string) ([]data.CancelAsk, error) {
	return read(ctx, db, func() []data.CancelAsk {
		mine := func(c *data.CancelAsk) bool { return db.runs[c.RunKey] != nil && db.runs[c.RunKey].Owner == instance }
		return copies(db.asks.sorted(mine, func(a, b *data.CancelAsk) int { return cmp.Compare(a.RunKey, b.RunKey) }))
	})
}

// CountRunning counts RUNNING runs: see [data.Queue].
func (db *Database) CountRunning(ctx context.Context, of []data.Name) (map[data.Name]int, error) {
	return read(ctx, db, func() map[data.Name]int {
		sums := db.count(data.Running)
		maps.DeleteFunc(sums, func(n data.Name, _ int) bool {
			return !slices.Contains(of, n) && !slices.Contains(of, data.Name{Project: n.Project})
		})
		return sums
	})
}

// CountQueued counts QUEUED runs: see [data.Queue].
func (db *Database) CountQueued(ctx context.Context) (map[data.Name]int, error) {
	return read(ctx, db, func() map[data.Name]int { return db.count(data.Queued) })
}

// count counts the runs of a status: all, and those of projects and of users.
func (db *Database) count(of data.Status) map[data.Name]int {
	sums := make(map[data.Name]int)
	for _, r := range db.runs {
		if r.Status == of {
			sums[data.Name{}]++
			sums[data.Name{Project: r.Project}]++
			sums[data.Name{Project: r.Project, User: r.User}]++
		}
	}
	return sums
}

// Appended returns the number of queued messages of those of the runs that have any.
func (db *Database) Appended(ctx context.Context, runs []int64) (map[int64]int, error) {
	return read(ctx, db, func() map[int64]int {
		counts := make(map[int64]int)
		for _, of := range db.messages {
			for _, m := range of {
				if m.State == data.MessageQueued && slices.Contains(runs, m.RunKey) {
					counts[m.RunKey]++
				}
			}
		}
		return counts
	})
}

// fewEvents is how many events come with the head of a log.
const fewEvents = 8

// LogHeads returns the heads of the logs of those of the threads that exist.
func (db *Database) LogHeads(ctx context.Context, of []data.LogPlace) ([]data.LogHead, error) {
	return read(ctx, db, func() (list []data.LogHead) {
		for _, log := range of {
			t := db.threads[log.Thread]
			if t == nil {
				continue
			}
			h := db.logHead(t)
			if log.After >= 0 {
				h.Latest = db.eventsBehind(log.Thread, log.After, fewEvents)
			}
			list = append(list, h)
		}
		return list
	})
}

func (db *Database) logHead(t *data.Thread) data.LogHead {
	h := data.LogHead{Thread: t.Key, Last: t.LastEventID}
	if log := db.events[t.Key]; len(log) > 0 {
		h.Last = max(h.Last, log[len(log)-1].ID)
	}
	if n := db.removals[t.Key]; n != nil {
		h.Removals = *n
	}
	for _, r := range db.runsOf(t.Key) {
		h.Busy = h.Busy || !r.Status.Final() && r.Busies()
	}
	return h
}

// LastRun returns the thread's newest run.
func (db *Database) LastRun(ctx context.Context, threadKey int64) (data.Run, error) {
	return one(ctx, db, func() *data.Run {
		runs := db.runsOf(threadKey)
		slices.Reverse(runs)
		run := db.whole(first(runs))
		if run != nil {
			run.Input, run.Definition = nil, nil
		}
		return run
	})
}

// Orphans returns up to limit RUNNING runs whose owner may not write any more: see [data.Queue].
func (db *Database) Orphans(ctx context.Context, afterThread int64, limit int) ([]data.RunHead, error) {
	return db.open(ctx, afterThread, math.MaxInt64, limit, func(r *data.Run) bool {
		owner := db.instances[r.Owner]
		return r.Status == data.Running && (owner == nil || owner.End != "")
	})
}

// open returns up to limit runs, by their threads' keys and their own, after those keys.
func (db *Database) open(ctx context.Context, afterThread, afterKey int64, limit int, which func(*data.Run) bool) ([]data.RunHead, error) {
	return read(ctx, db, func() (heads []data.RunHead) {
		order := func(a, b *data.Run) int { return cmp.Or(cmp.Compare(a.ThreadKey, b.ThreadKey), byKey(a, b)) }
		after := &data.Run{RunHead: data.RunHead{Key: afterKey, ThreadKey: afterThread}}
		list := db.runs.sorted(func(r *data.Run) bool { return order(r, after) > 0 && which(r) }, order)
		for _, r := range head(list, limit) {
			heads = append(heads, copied(&r.RunHead))
		}
		return heads
	})
}
