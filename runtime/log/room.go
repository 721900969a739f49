package log

import (
	"context"
	"sync"
)

// room is what large pages take that cursors have from the store. Of one project they take a quarter of it at most, or one page:
// whoever has readers that are stuck holds up no readers of others.
type room struct {
	size int64

	mu    sync.Mutex // guards the fields below
	taken int64
	by    map[string]int64 // by project
	freed chan struct{}    // closed when something is given back; nil while nobody waits
}

func newRoom(size int) *room { return &room{size: int64(size), by: make(map[string]int64)} }

// try takes room for a page of n bytes, or returns what is closed when it is worth another try.
func (r *room) try(project string, n int64) (wait <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.by[project]
	if (r.taken == 0 || r.taken+n <= r.size) && (of == 0 || of+n <= r.size/4) {
		r.taken += n
		r.by[project] = of + n
		return nil
	}
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// take is try, and waits until there is room.
func (r *room) take(ctx context.Context, project string, n int64) error {
	for {
		wait := r.try(project, n)
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// giveBack gives back what was taken.
func (r *room) giveBack(project string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
	if r.by[project] -= n; r.by[project] == 0 {
		delete(r.by, project)
	}
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
