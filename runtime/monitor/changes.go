package monitor

import (
	"context"
	"sync"
)

// Changes tells those who look at lists of a project's runs and threads that there is something else to see. It does not say
// what: who wants to know asks again, and so misses nothing however much has changed meanwhile.
type Changes struct {
	mu    sync.Mutex // guards the field below
	bells map[list]*bell
}

// list is who looks: at what is one user's of a project, or at all that is the project's.
type list struct {
	project, user string
	all           bool
}

// bell rings for all who look at the same.
type bell struct {
	readers int
	wake    chan struct{} // closed when something has changed; nil while nobody knows it
}

// Watch is told of changes from when it was opened on. It is used by one goroutine; Close it when done.
type Watch struct {
	c    *Changes
	list list
	wake chan struct{}
}

// Watch opens a watch on what is a user's in a project, or with all on everybody's.
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

// Tell says that something has changed that is a user's in a project. It waits for nobody.
func (c *Changes) Tell(project, user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bells) == 0 {
		return
	}
	c.bells[list{project, user, false}].ring()
	c.bells[list{project, "", true}].ring()
}

// Next waits until something has changed since the last call, or since the watch was opened. It fails with ctx's cause.
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

// Close ends the watch. It may be called once.
func (w *Watch) Close() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	b := w.c.bells[w.list]
	if b.readers--; b.readers == 0 {
		delete(w.c.bells, w.list)
	}
}

// next returns what is closed with the next change.
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
