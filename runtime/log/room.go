package log

import (
	"context"
	"sync"
)

// Owner is whose a log is.
type Owner struct{ Project, User string }

// room is what large pages take that cursors have from the store. Of one project they take a quarter of it at most, and of one user's
// logs as much as a user may have, or one page, and no more than a project of those of users of one name, who may be the same person in
// many projects: whoever has readers that are stuck holds up no readers of others.
type room struct {
	size, user int64

	mu    sync.Mutex // guards the fields below
	taken int64
	of    map[string]int64 // by project
	by    map[Owner]int64
	named map[string]int64 // by user
	freed chan struct{}    // closed when something is given back; nil while nobody waits
}

func newRoom(size, user int) *room {
	return &room{size: int64(size), user: int64(user), of: make(map[string]int64), by: make(map[Owner]int64), named: make(map[string]int64)}
}

// try takes room for a page of n bytes, or returns what is closed when it is worth another try.
func (r *room) try(who Owner, n int64) (wait <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	within := func(taken, most int64) bool { return taken == 0 || taken+n <= most }
	if within(r.taken, r.size) && within(r.of[who.Project], r.size/4) && within(r.named[who.User], r.size/4) && within(r.by[who], r.user) {
		r.add(who, n)
		return nil
	}
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// take is try, and waits until there is room.
func (r *room) take(ctx context.Context, who Owner, n int64) error {
	for {
		wait := r.try(who, n)
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
func (r *room) giveBack(who Owner, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(who, -n)
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// add counts n bytes. The caller holds mu.
func (r *room) add(who Owner, n int64) {
	r.taken += n
	if r.of[who.Project] += n; r.of[who.Project] == 0 {
		delete(r.of, who.Project)
	}
	if r.named[who.User] += n; r.named[who.User] == 0 {
		delete(r.named, who.User)
	}
	if r.by[who] += n; r.by[who] == 0 {
		delete(r.by, who)
	}
}
