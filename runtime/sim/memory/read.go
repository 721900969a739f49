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
	"github.com/batonrun/baton/runtime/terms"
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

func latestFirst(a, b *data.Thread) int {
	return -cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Key, b.Key))
}

// thread returns the admitted thread with the latest activity.
func (db *Database) thread(ctx context.Context, admits func(*data.Thread) bool) (data.Thread, error) {
	return one(ctx, db, func() *data.Thread { return first(db.threads.sorted(admits, latestFirst)) })
}

// Thread returns the thread with that key.
func (db *Database) Thread(ctx context.Context, key int64) (data.Thread, error) {
	return one(ctx, db, func() *data.Thread { return db.threads[key] })
}

// ThreadByID returns the user's thread with that id.
func (db *Database) ThreadByID(ctx context.Context, project, user, id string) (data.Thread, error) {
	name := data.Name{Project: project, User: user, ID: id}
	return db.thread(ctx, func(t *data.Thread) bool { return nameOf(t) == name })
}

// ThreadByConversation returns the project's thread with that conversation id.
func (db *Database) ThreadByConversation(ctx context.Context, project, conversationID string) (data.Thread, error) {
	return db.thread(ctx, func(t *data.Thread) bool { return t.Project == project && t.ConversationID == conversationID })
}

// LatestThread returns the user's thread with the latest activity.
func (db *Database) LatestThread(ctx context.Context, project, user string) (data.Thread, error) {
	return db.thread(ctx, func(t *data.Thread) bool { return t.Project == project && t.User == user })
}

// Threads lists the threads of a user or of a project: see [data.Reader].
func (db *Database) Threads(ctx context.Context, f data.ThreadFilter) (data.Page[data.ListedThread], error) {
	return read(ctx, db, func() (p data.Page[data.ListedThread]) {
		text := strings.ToLower(f.Text)
		list := db.threads.sorted(func(t *data.Thread) bool {
			return t.Project == f.Project && (f.User == "" || t.User == f.User) && (f.Archived == nil || *f.Archived == t.Archived) &&
				(strings.Contains(strings.ToLower(t.Title), text) || strings.Contains(strings.ToLower(t.ID), text))
		}, latestFirst)
		before := &data.Thread{ThreadHead: data.ThreadHead{Key: f.BeforeKey, UpdatedAt: f.BeforeTime}}
		threads := page(list, func(t *data.Thread) bool { return f.BeforeKey != 0 && latestFirst(before, t) >= 0 },
			cmp.Or(max(f.Limit, 0), 50), func(t *data.Thread) int { return len(t.Metadata) })
		threads = counted(threads, f.Count)
		p.More, p.Total, p.Counted = threads.More, threads.Total, threads.Counted
		for i := range threads.Rows {
			p.Rows = append(p.Rows, db.listed(&threads.Rows[i]))
		}
		return p
	})
}

// ListedThread returns a thread as Threads lists it.
func (db *Database) ListedThread(ctx context.Context, project string, key int64) (data.ListedThread, error) {
	return one(ctx, db, func() *data.ListedThread {
		if t := db.threads[db.threadIn(project, key)]; t != nil {
			return new(db.listed(t))
		}
		return nil
	})
}

func (db *Database) listed(t *data.Thread) data.ListedThread {
	l := data.ListedThread{Thread: copied(t)}
	l.State = nil
	runs := db.runsOf(t.Key)
	if len(runs) == 0 {
		return l
	}
	shown := runs[len(runs)-1]
	for _, r := range runs {
		if r.Status == data.Running || r.Status == data.Waiting {
			shown = r
		}
	}
	l.RunID, l.Agent, l.Status = shown.ID, shown.WorkflowID, shown.Status
	l.Asked = begun(shown.InputQuery)
	return l
}

// begun returns the start of a run's input, as lists of threads show it.
func begun(text string) string {
	if len(text) > 64<<10 {
		return ""
	}
	letters := []rune(text)
	return string(letters[:min(len(letters), 200)])
}

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

// RunsByName returns the runs with that name: see [data.Reader].
func (db *Database) RunsByName(ctx context.Context, project, user, name string) ([]data.Run, error) {
	return read(ctx, db, func() []data.Run {
		keys := make(map[int64]bool)
		for n, row := range db.names {
			if n.Project == project && n.ID == name && (user == "" || n.User == user) {
				keys[row.RunKey] = true
			}
		}
		return db.wholes(head(db.runs.sorted(func(r *data.Run) bool { return keys[r.Key] }, byKey), 2))
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
			cmp.Or(max(f.Limit, 0), 50), func(r *data.Run) int { return len(r.InputQuery) + lengthOf(r.OutputSummary) }), f.Count)
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

// CountRunning counts RUNNING runs: see [data.ByKey].
func (db *Database) CountRunning(ctx context.Context, of []data.Name) (map[data.Name]int, error) {
	return read(ctx, db, func() map[data.Name]int {
		sums := db.count(data.Running)
		maps.DeleteFunc(sums, func(n data.Name, _ int) bool {
			return !slices.Contains(of, n) && !slices.Contains(of, data.Name{Project: n.Project})
		})
		return sums
	})
}

// CountQueued counts QUEUED runs: see [data.ByKey].
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

// LogHeads returns the heads of the logs of those of the threads that exist.
func (db *Database) LogHeads(ctx context.Context, threads []int64) ([]data.LogHead, error) {
	return read(ctx, db, func() (list []data.LogHead) {
		for _, key := range threads {
			if t := db.threads[key]; t != nil {
				list = append(list, db.logHead(t))
			}
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
		h.Busy = h.Busy || r.Status == data.Queued || r.Status == data.Running
	}
	return h
}

// LastRun returns the thread's newest run.
func (db *Database) LastRun(ctx context.Context, threadKey int64) (data.Run, error) {
	return one(ctx, db, func() *data.Run {
		runs := db.runsOf(threadKey)
		slices.Reverse(runs)
		return db.whole(first(runs))
	})
}

// Unfinished returns up to limit open runs of a status: see [data.Reader].
func (db *Database) Unfinished(ctx context.Context, status data.Status, afterThread, afterKey int64, limit int) ([]data.RunHead, error) {
	return db.open(ctx, afterThread, afterKey, limit, func(r *data.Run) bool { return r.Status == status })
}

// Orphans returns up to limit RUNNING runs whose owner may not write any more: see [data.ByKey].
func (db *Database) Orphans(ctx context.Context, afterThread int64, limit int) ([]data.RunHead, error) {
	return db.open(ctx, afterThread, math.MaxInt64, limit, func(r *data.Run) bool {
		owner := db.instances[r.Owner]
		return r.Status == data.Running && (owner == nil || owner.End != "")
	})
}

// BusyThreads returns those of the threads that have a RUNNING or WAITING run: see [data.ByKey].
func (db *Database) BusyThreads(ctx context.Context, threads []int64) ([]int64, error) {
	return read(ctx, db, func() (busy []int64) {
		for _, r := range db.runs.sorted(func(r *data.Run) bool {
			return (r.Status == data.Running || r.Status == data.Waiting) && slices.Contains(threads, r.ThreadKey)
		}, byKey) {
			busy = append(busy, r.ThreadKey)
		}
		return busy
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

// Deletions returns up to limit unfinished deletions: see [data.ByKey].
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

// Expired returns up to limit expired open interrupts of WAITING runs, by expiry.
func (db *Database) Expired(ctx context.Context, now time.Time, limit int) ([]data.Interrupt, error) {
	return read(ctx, db, func() []data.Interrupt {
		var list []*data.Interrupt
		for run, asked := range db.interrupts {
			for _, in := range asked {
				if in.Status == data.InterruptOpen && in.ExpiresAt != nil && !in.ExpiresAt.After(now) && db.runs[run].Status == data.Waiting {
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
func (db *Database) Steps(ctx context.Context, project string, runKey int64, after, limit int) (data.Page[data.Step], error) {
	return read(ctx, db, func() data.Page[data.Step] {
		list := db.steps[db.runIn(project, runKey)].sorted(all, func(a, b *data.Step) int { return cmp.Compare(a.Number, b.Number) })
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

// Audit lists the requests that changed a project: see [data.Reader].
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

// Users lists users with threads in a project: see [data.Reader].
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

// Spent returns what all spenders have spent: see [data.Reader].
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

// Raises returns the raises of budgets: see [data.Reader].
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

// Interrupts returns the run's interrupts, oldest first.
func (db *Database) Interrupts(ctx context.Context, runKey int64) ([]data.Interrupt, error) {
	return read(ctx, db, func() (list []data.Interrupt) {
		for _, in := range db.interrupts[runKey].sorted(all, byTime) {
			list = append(list, copied(&in.Interrupt))
		}
		return list
	})
}

// Questions lists the open interrupts of a project's WAITING runs, oldest first.
func (db *Database) Questions(ctx context.Context, f data.QuestionFilter) (data.Page[data.Question], error) {
	return read(ctx, db, func() data.Page[data.Question] {
		var list []*data.Question
		for key, asked := range db.interrupts {
			run := db.whole(db.runs[key])
			if run == nil || run.Status != data.Waiting || run.Project != f.Project || f.User != "" && run.User != f.User {
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
	return read(ctx, db, func() (page []data.StoredEvent) {
		log, size := db.events[threadKey], 0
		begin, _ := slices.BinarySearchFunc(log, after+1, func(ev data.StoredEvent, id int64) int { return cmp.Compare(ev.ID, id) })
		for _, ev := range head(log[begin:], limit) {
			if size += len(ev.Payload); size > maxPage && len(page) > 0 {
				break
			}
			page = append(page, ev)
		}
		db.nameRuns(threadKey, page)
		return page
	})
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
