package memory

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// maxCount limits every count of a list, and maxPage the size of a page of events.
const (
	maxCount = 10_000
	maxPage  = 1 << 20
)

// read runs find as a read.
func read[T any](ctx context.Context, db *Database, find func() T) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return find(), nil
}

// one returns a copy of a row, or ErrNotFound.
func one[V any](ctx context.Context, db *Database, find func() *V) (row V, err error) {
	found, err := read(ctx, db, func() *V {
		if v := find(); v != nil {
			return new(copied(v))
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	if found == nil {
		return row, data.ErrNotFound
	}
	return *found, nil
}

// first returns the first element, nil for an empty list.
func first[V any](list []*V) *V {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func head[V any](list []V, limit int) []V { return list[:min(len(list), max(limit, 0))] }

// page returns limit rows of a list behind the skipped ones, fewer if they are larger than a page.
func page[V any](list []*V, leftOut func(*V) bool, limit int, size func(*V) int) (p data.Page[V]) {
	p.Total, p.Counted = len(list), true
	read := 0
	for _, v := range list {
		if leftOut(v) {
			continue
		}
		if p.More = len(p.Rows) == limit || len(p.Rows) > 0 && read >= data.PageBytes; p.More {
			break
		}
		p.Rows = append(p.Rows, copied(v))
		read += size(v)
	}
	return p
}

// counted is a page with its count only if that was asked for.
func counted[V any](p data.Page[V], asked bool) data.Page[V] {
	if p.Counted = asked && p.Total <= maxCount; !asked {
		p.Total = 0
	}
	return p
}

// Deletions returns up to limit unfinished deletions: see [data.Queue].
func (db *Database) Deletions(ctx context.Context, afterThread, afterRun int64, limit int) ([]data.Deletion, error) {
	return read(ctx, db, func() (list []data.Deletion) {
		order := func(a, b *deletion) int {
			return cmp.Or(cmp.Compare(a.ThreadKey, b.ThreadKey), cmp.Compare(a.RunKey, b.RunKey))
		}
		after := &deletion{Deletion: data.Deletion{ThreadKey: afterThread, RunKey: afterRun}}
		left := func(d *deletion) bool {
			in := db.instances[d.instance]
			return (in == nil || in.End != "") && order(d, after) > 0
		}
		for _, d := range head(db.deletions.sorted(left, order), limit) {
			list = append(list, d.Deletion)
		}
		return list
	})
}

// Expired returns up to limit expired open interrupts, by expiry.
func (db *Database) Expired(ctx context.Context, now time.Time, limit int) ([]data.Interrupt, error) {
	return read(ctx, db, func() []data.Interrupt {
		var list []*data.Interrupt
		for _, asked := range db.interrupts {
			for _, in := range asked {
				if in.Status == data.InterruptOpen && in.ExpiresAt != nil && !in.ExpiresAt.After(now) {
					list = append(list, &in.Interrupt)
				}
			}
		}
		slices.SortFunc(list, func(a, b *data.Interrupt) int {
			return cmp.Or(a.ExpiresAt.Compare(*b.ExpiresAt), cmp.Compare(a.ID, b.ID))
		})
		return copies(head(list, limit))
	})
}

// Steps lists a run's steps with a number above after, by number.
func (db *Database) Steps(ctx context.Context, project string, runKey int64, node string, after, limit int) (data.Page[data.Step], error) {
	return read(ctx, db, func() data.Page[data.Step] {
		list := db.steps[db.runIn(project, runKey)].sorted(all, func(a, b *data.Step) int { return cmp.Compare(a.Number, b.Number) })
		if node != "" {
			list = slices.DeleteFunc(list, func(s *data.Step) bool { return s.NodeID != node })
		}
		return page(list, func(s *data.Step) bool { return s.Number <= after }, limit,
			func(s *data.Step) int { return len(s.Input) + lengthOf(s.Output) })
	})
}

// NodeStates is Nodes without their outputs.
func (db *Database) NodeStates(ctx context.Context, project string, runKey int64) ([]data.Node, error) {
	nodes, err := read(ctx, db, func() []data.Node { return db.nodesOf(db.runIn(project, runKey)) })
	for i := range nodes {
		nodes[i].Output = nil
	}
	return nodes, err
}

// Nodes returns the states of the run's nodes, by their ids.
func (db *Database) Nodes(ctx context.Context, runKey int64) ([]data.Node, error) {
	return read(ctx, db, func() []data.Node { return db.nodesOf(runKey) })
}

func (db *Database) nodesOf(runKey int64) []data.Node {
	return copies(db.nodes[runKey].sorted(all, func(a, b *data.Node) int { return cmp.Compare(a.NodeID, b.NodeID) }))
}

// runIn returns a run's key, 0 for one of another project.
func (db *Database) runIn(project string, key int64) int64 {
	if r := db.runs[key]; r == nil || r.Project != project {
		return 0
	}
	return key
}

// threadIn returns a thread's key, 0 for one of another project.
func (db *Database) threadIn(project string, key int64) int64 {
	if t := db.threads[key]; t == nil || t.Project != project {
		return 0
	}
	return key
}

// Audit lists the requests that changed a project: see [data.ByProject].
func (db *Database) Audit(ctx context.Context, f data.AuditFilter) (data.Page[data.Audit], error) {
	return read(ctx, db, func() data.Page[data.Audit] {
		list := db.audit.sorted(func(a *data.Audit) bool {
			return a.Project == f.Project && (f.Actor == "" || a.Actor == f.Actor) && (f.Action == "" || a.Action == f.Action) &&
				(f.User == "" || a.User == f.User) && (f.Run == "" || a.RunID == f.Run) &&
				!a.At.Before(f.Since) && (f.Until.IsZero() || a.At.Before(f.Until))
		}, lastFirst)
		before := &data.Audit{Key: f.BeforeKey, At: f.BeforeTime}
		p := page(list, func(a *data.Audit) bool { return f.BeforeKey != 0 && lastFirst(before, a) >= 0 },
			cmp.Or(max(f.Limit, 0), 50), func(*data.Audit) int { return 0 })
		return counted(p, f.Count)
	})
}

// lastFirst orders audit rows, newest first.
func lastFirst(a, b *data.Audit) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Key, a.Key)) }

// Users lists users with threads in a project: see [data.ByProject].
func (db *Database) Users(ctx context.Context, f data.UserFilter) (data.Page[data.ThreadUser], error) {
	return read(ctx, db, func() data.Page[data.ThreadUser] {
		users := make(map[string]*data.ThreadUser)
		for _, t := range db.threads {
			if t.Project != f.Project || !strings.Contains(strings.ToLower(t.User), strings.ToLower(f.Text)) {
				continue
			}
			u := users[t.User]
			if u == nil {
				u = &data.ThreadUser{User: t.User}
				users[t.User] = u
			}
			u.Threads = min(u.Threads+1, 1000)
			if t.UpdatedAt.After(u.LastActiveAt) {
				u.LastActiveAt = t.UpdatedAt
			}
		}
		list := slices.SortedFunc(maps.Values(users), func(a, b *data.ThreadUser) int { return cmp.Compare(a.User, b.User) })
		return counted(page(list, func(u *data.ThreadUser) bool { return f.After != "" && u.User <= f.After },
			cmp.Or(max(f.Limit, 0), 50), func(*data.ThreadUser) int { return 0 }), false)
	})
}

// Spent returns what all spenders have spent: see [data.Budgets].
func (db *Database) Spent(ctx context.Context, project string, from, until time.Time) ([]data.Spending, error) {
	return read(ctx, db, func() (list []data.Spending) {
		sums := make(map[data.Spender]*data.Spending)
		for key, s := range db.spent {
			if project != "" && s.Project != project || key.day < from.UnixMilli() || key.day >= until.UnixMilli() {
				continue
			}
			if sums[s.Spender] == nil {
				sums[s.Spender] = &data.Spending{Spender: s.Spender}
			}
			sums[s.Spender].Tokens += s.Tokens
			sums[s.Spender].Cost += s.Cost
		}
		for _, sum := range sums {
			list = append(list, *sum)
		}
		slices.SortFunc(list, func(a, b data.Spending) int {
			return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent))
		})
		return list
	})
}

// Raises returns the raises of budgets: see [data.Budgets].
func (db *Database) Raises(ctx context.Context, since time.Time) ([]data.Raise, error) {
	return read(ctx, db, func() []data.Raise {
		return copies(db.raises.sorted(func(r *data.Raise) bool { return !r.From.Before(since) }, func(a, b *data.Raise) int {
			return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Subject, b.Subject))
		}))
	})
}

// Memos returns the records of one generation of the run.
func (db *Database) Memos(ctx context.Context, runKey int64, generation int) ([]data.Memo, error) {
	return read(ctx, db, func() []data.Memo {
		return copies(db.memos[runKey].sorted(func(m *data.Memo) bool { return m.Generation == generation }, func(a, b *data.Memo) int {
			return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Place, b.Place))
		}))
	})
}

// Signal returns the run's first signal of a name with a number above after.
func (db *Database) Signal(ctx context.Context, runKey int64, name string, after int64) (data.Signal, error) {
	list, err := read(ctx, db, func() []data.Signal {
		return copies(db.signals[runKey].sorted(func(s *data.Signal) bool { return s.Name == name && s.N > after }, func(a, b *data.Signal) int {
			return cmp.Compare(a.N, b.N)
		}))
	})
	if err != nil || len(list) == 0 {
		return data.Signal{}, cmp.Or(err, data.ErrNotFound)
	}
	return list[0], nil
}

// Interrupts returns the run's interrupts, oldest first.
func (db *Database) Interrupts(ctx context.Context, runKey int64) ([]data.Interrupt, error) {
	return read(ctx, db, func() (list []data.Interrupt) {
		for _, in := range db.interrupts[runKey].sorted(all, byTime) {
			list = append(list, copied(&in.Interrupt))
		}
		return list
	})
}

// Questions lists the open interrupts of a project's runs, oldest first.
func (db *Database) Questions(ctx context.Context, f data.QuestionFilter) (data.Page[data.Question], error) {
	return read(ctx, db, func() data.Page[data.Question] {
		var list []*data.Question
		for key, asked := range db.interrupts {
			run := db.whole(db.runs[key])
			if run == nil || run.Project != f.Project || f.User != "" && run.User != f.User {
				continue
			}
			for _, in := range asked {
				if in.Status == data.InterruptOpen {
					list = append(list, &data.Question{
						Interrupt: in.Interrupt, Key: in.Key, User: run.User, RunID: run.ID, Agent: run.WorkflowID,
						ThreadID: run.ThreadID, ConversationID: run.ConversationID,
					})
				}
			}
		}
		slices.SortFunc(list, func(a, b *data.Question) int { return cmp.Compare(a.Key, b.Key) })
		return counted(page(list, func(q *data.Question) bool { return q.Key <= f.AfterKey }, cmp.Or(max(f.Limit, 0), 50),
			func(q *data.Question) int { return len(q.Body) }), f.Count)
	})
}

// Events returns up to limit events of the thread with an id above after, by id, fewer if they are large.
func (db *Database) Events(ctx context.Context, threadKey, after int64, limit int) ([]data.StoredEvent, error) {
	return read(ctx, db, func() []data.StoredEvent { return db.eventsBehind(threadKey, after, limit) })
}

func (db *Database) eventsBehind(thread, after int64, limit int) (page []data.StoredEvent) {
	log, size := db.events[thread], 0
	begin, _ := slices.BinarySearchFunc(log, after+1, func(ev data.StoredEvent, id int64) int { return cmp.Compare(ev.ID, id) })
	for _, ev := range head(log[begin:], limit) {
		if size += len(ev.Payload); size > maxPage && len(page) > 0 {
			break
		}
		page = append(page, ev)
	}
	db.nameRuns(thread, page)
	return page
}

// nameRuns sets the events' RunID from their spans.
func (db *Database) nameRuns(thread int64, events []data.StoredEvent) {
	spans := db.spans[thread].sorted(all, byFirst)
	for i := range events {
		ev := &events[i]
		for _, s := range spans {
			if s.First <= ev.ID && (s.Last == 0 || ev.ID <= s.Last) {
				ev.RunID = s.RunID
			}
		}
	}
}

// LastEventID returns the id of the thread's last event, also if it has been removed.
func (db *Database) LastEventID(ctx context.Context, threadKey int64) (int64, error) {
	last, err := one(ctx, db, func() *int64 {
		t, log := db.threads[threadKey], db.events[threadKey]
		switch {
		case t == nil:
			return nil
		case len(log) == 0:
			return &t.LastEventID
		}
		return new(max(t.LastEventID, log[len(log)-1].ID))
	})
	return last, err
}

// Spans returns the run's spans in order.
func (db *Database) Spans(ctx context.Context, runKey int64) ([]data.Span, error) {
	return read(ctx, db, func() []data.Span { return copies(db.spansOf(runKey)) })
}

// SpanAfter returns the thread's first span that begins after the event.
func (db *Database) SpanAfter(ctx context.Context, threadKey, eventID int64) (data.Span, error) {
	return one(ctx, db, func() *data.Span {
		return first(db.spans[threadKey].sorted(func(s *data.Span) bool { return s.First > eventID }, byFirst))
	})
}

// upTo returns n, or the largest number for 0.
func upTo(n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return n
}
