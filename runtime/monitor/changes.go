package monitor

import (
	"context"
	"sync"
)

// Changes notifies viewers of a project's lists of runs and threads that a list has changed. A notification has no
// content: the viewer reads the list again, so it cannot miss a change.
type Changes struct {
	mu    sync.Mutex // guards the field below
	bells map[list]*bell
}

// list identifies a list: of one user of a project, or of the whole project.
type list struct {
	project, user string
	all           bool
}

// bell notifies all viewers of one list.
type bell struct {
	readers int
	wake    chan struct{} // closed by the next change; nil while no viewer waits
}

// Watch notices changes from its opening on. It is for one goroutine. Close it.
type Watch struct {
	c    *Changes
	list list
	wake chan struct{}
}

// Watch opens a watch for a user's lists, or with all for those of the whole project.
func (c *Changes) Watch(project, user string, all bool) *Watch {
	l := list{project, user, all}
	if all {
		l.user = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bells == nil {
		c.bells = make(map[list]*bell)
	}
	b := c.bells[l]
	if b == nil {
		b = new(bell)
		c.bells[l] = b
	}
	b.readers++
	return &Watch{c, l, b.next()}
}

// Tell notifies the watches of a user's lists and of its project's. It does not block.
func (c *Changes) Tell(project, user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bells) == 0 {
		return
	}
	c.bells[list{project, user, false}].ring()
	c.bells[list{project, "", true}].ring()
}

// Next waits for a change since the last call, or since the watch was opened. It fails with ctx's cause.
func (w *Watch) Next(ctx context.Context) error {
	select {
	case <-w.wake:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.wake = w.c.bells[w.list].next()
	return nil
}

// Close ends the watch. Call it once.
func (w *Watch) Close() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	b := w.c.bells[w.list]
	if b.readers--; b.readers == 0 {
		delete(w.c.bells, w.list)
	}
}

// next returns a channel that the next change closes.
func (b *bell) next() chan struct{} {
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return b.wake
}

func (b *bell) ring() {
	if b != nil && b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}
