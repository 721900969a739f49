package monitor

import (
	"context"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"sync"
)

// Changes notifies viewers of a project's lists of runs and threads that a list has changed. A notification has no
// content: the viewer reads the list again, so it cannot miss a change.
type Changes struct {
	// Wants is called with the key of a list that gets its first viewer, because other instances change it too. It may be nil.
	Wants func(list int64)

	mu    sync.Mutex // guards the field below
	bells map[int64]*bell
}

// bell notifies all viewers of one list.
type bell struct {
	readers int
	wake    chan struct{} // closed by the next change; nil while no viewer waits
	looks   int           // calls of RingNew since the first viewer
}

// ListKeys returns the keys by which instances tell each other that the lists of a user, and those of the whole project, have changed.
// Two lists of one key are unlikely, and their viewers then only read more often.
func ListKeys(project, user string) [2]int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, project)
	all := h.Sum64()
	_, _ = io.WriteString(h, "\x00"+user)
	return [2]int64{int64(h.Sum64() >> 16), int64(all >> 16)} //nolint:gosec // 48 bits
}

// Watch notices changes from its opening on. It is for one goroutine. Close it.
type Watch struct {
	c    *Changes
	list int64
	wake chan struct{}
}

// Watch opens a watch for a user's lists, or with all for those of the whole project.
func (c *Changes) Watch(project, user string, all bool) *Watch {
	key := ListKeys(project, user)[0]
	if all {
		key = ListKeys(project, user)[1]
	}
	c.mu.Lock()
	if c.bells == nil {
		c.bells = make(map[int64]*bell)
	}
	b := c.bells[key]
	first := b == nil
	if first {
		b = new(bell)
		c.bells[key] = b
	}
	b.readers++
	w := &Watch{c, key, b.next()}
	c.mu.Unlock()
	if first && c.Wants != nil {
		c.Wants(key)
	}
	return w
}

// Watched returns the keys of up to most lists that have viewers.
func (c *Changes) Watched(most int) []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := slices.Collect(maps.Keys(c.bells))
	return keys[:min(len(keys), most)]
}

// Tell notifies the watches of a user's lists and of its project's. It does not block.
func (c *Changes) Tell(project, user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bells) == 0 {
		return
	}
	for _, key := range ListKeys(project, user) {
		c.bells[key].ring()
	}
}

// Ring notifies the watches of a list. It does not block.
func (c *Changes) Ring(list int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bells[list].ring()
}

// RingNew notifies the watches of lists that got their first viewer about two calls ago: other instances may have told nothing of changes
// before they knew of it.
func (c *Changes) RingNew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bells {
		if b.looks < 2 {
			if b.looks++; b.looks == 2 {
				b.ring()
			}
		}
	}
}

// RingAll notifies all watches. It does not block.
func (c *Changes) RingAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bells {
		b.ring()
	}
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
