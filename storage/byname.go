package storage

import (
	"context"
	"runtime"
	"sync"

	"github.com/batonrun/baton/runtime/model"
)

// Each request for a run looks up its thread. Concurrent lookups, for example after a commit for which many requests
// have waited, share one statement. A lookup never waits for others to join.

// byName are the threads that are looked for.
type byName struct {
	mu      sync.Mutex // guards the fields below
	busy    bool       // a statement is under way
	waiting []*wanted
}

// wanted is a thread lookup.
type wanted struct {
	name   model.Name
	turn   chan bool // gets whether it was looked for; if not, it is this one's turn to look for all that wait
	thread model.Thread
	err    error
}

// ThreadByID returns the user's thread of that id.
func (db *DB) ThreadByID(ctx context.Context, project, user, id string) (model.Thread, error) {
	w := &wanted{name: model.Name{Project: project, User: user, ID: id}, turn: make(chan bool, 1)}
	switch found, err := db.named.wait(ctx, w); {
	case err != nil:
		return model.Thread{}, err
	case !found:
		db.find(ctx)
	}
	if w.err != nil { // another's name, or another's context, may be at fault
		return db.reader.ThreadByID(ctx, project, user, id)
	}
	if w.thread.Key == 0 {
		return w.thread, model.ErrNotFound
	}
	return w.thread, nil
}

// wait waits until w was looked for, or it is its turn to look.
func (n *byName) wait(ctx context.Context, w *wanted) (found bool, err error) {
	n.mu.Lock()
	n.waiting = append(n.waiting, w)
	if !n.busy {
		n.busy = true
		n.mu.Unlock()
		return false, nil
	}
	n.mu.Unlock()
	select {
	case found = <-w.turn:
		return found, nil
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	turn := w.turn
	w.turn = nil // it is passed over
	select {
	case found = <-turn:
		if !found { // the others would wait for it
			n.pass()
		}
	default:
	}
	return false, context.Cause(ctx)
}

// find looks for all that wait, and passes the turn on.
func (db *DB) find(ctx context.Context) {
	runtime.Gosched() // for lookups that could start at the same moment
	n := &db.named
	n.mu.Lock()
	list := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	names := make([]model.Name, len(list))
	for i, w := range list {
		names[i] = w.name
	}
	query := selectListedThreads
	if db.d.unnest {
		query = selectThreadsByID
	}
	args, f := db.d.elements(namesOf(names))
	threads, err := all(ctx, formed{db.read, f}, scanThread, query, args...)
	found := make(map[model.Name]*model.Thread, len(threads))
	for i := range threads {
		t := &threads[i]
		found[model.Name{Project: t.Project, User: t.User, ID: t.ID}] = t
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range list {
		if w.err = err; found[w.name] != nil {
			w.thread = *found[w.name]
		}
		if w.turn != nil {
			w.turn <- true
		}
	}
	n.pass()
}

// pass gives the turn to the first that waits. The caller holds mu.
func (n *byName) pass() {
	for len(n.waiting) > 0 && n.waiting[0].turn == nil {
		n.waiting = n.waiting[1:]
	}
	if n.busy = len(n.waiting) > 0; n.busy {
		n.waiting[0].turn <- false
	}
}
