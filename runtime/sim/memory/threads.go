package memory

import (
	"cmp"
	"context"
	"strings"

	"github.com/batonrun/baton/runtime/data"
)

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

// Threads lists the threads of a user or of a project: see [data.ByProject].
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
