package storage

import (
	"context"
	"runtime"
	"sync"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/lists"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

// Each request for a run looks up its thread. Concurrent lookups, for example after a commit for which many requests
// have waited, share one statement. A lookup never waits for others to join.

// project has the reads of a project.
type project struct {
	*lookups
	*rows.Project
	lists.Pages
}

// lookups finds threads by name, those of concurrent callers together.
type lookups struct {
	read *sqldb.Pool

	mu      sync.Mutex // guards the fields below
	busy    bool       // a statement is under way
	waiting []*wanted
}

// wanted is a thread lookup.
type wanted struct {
	name   data.Name
	turn   chan bool // gets whether it was looked for; if not, it is this one's turn to look for all that wait
	thread data.Thread
	err    error
}

// ThreadByID returns the user's thread of that id.
func (l *lookups) ThreadByID(ctx context.Context, project, user, id string) (data.Thread, error) {
	w := &wanted{name: data.Name{Project: project, User: user, ID: id}, turn: make(chan bool, 1)}
	switch found, err := l.wait(ctx, w); {
	case err != nil:
		return data.Thread{}, err
	case !found:
		l.find(ctx)
	}
	if w.err != nil { // another's name, or another's context, may be at fault
		return rows.ThreadByID(ctx, l.read, project, user, id)
	}
	if w.thread.Key == 0 {
		return w.thread, data.ErrNotFound
	}
	return w.thread, nil
}

// wait waits until w was looked for, or it is its turn to look.
func (l *lookups) wait(ctx context.Context, w *wanted) (found bool, err error) {
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return false, nil
	}
	l.mu.Unlock()
	select {
	case found = <-w.turn:
		return found, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := w.turn
	w.turn = nil // it is passed over
	select {
	case found = <-turn:
		if !found { // the others would wait for it
			l.pass()
		}
	default:
	}
	return false, context.Cause(ctx)
}

// find looks for all that wait, and passes the turn on.
func (l *lookups) find(ctx context.Context) {
	runtime.Gosched() // for lookups that could start at the same moment
	l.mu.Lock()
	list := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	names := make([]data.Name, len(list))
	for i, w := range list {
		names[i] = w.name
	}
	threads, err := rows.ThreadsNamed(ctx, l.read, names)
	found := make(map[data.Name]*data.Thread, len(threads))
	for i := range threads {
		t := &threads[i]
		found[data.Name{Project: t.Project, User: t.User, ID: t.ID}] = t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range list {
		if w.err = err; found[w.name] != nil {
			w.thread = *found[w.name]
		}
		if w.turn != nil {
			w.turn <- true
		}
	}
	l.pass()
}

// pass gives the turn to the first that waits. The caller holds mu.
func (l *lookups) pass() {
	for len(l.waiting) > 0 && l.waiting[0].turn == nil {
		l.waiting = l.waiting[1:]
	}
	if l.busy = len(l.waiting) > 0; l.busy {
		l.waiting[0].turn <- false
	}
}
