package attachments

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/batonrun/baton/runtime"
)

// places are for what is under way at a time, whoever is slow about it: each holds a connection, a file or a buffer. A user
// has but a part of them, so that nobody takes all.
type places struct {
	all  *semaphore.Weighted
	each int // of one user; 0 for no limit

	mu    sync.Mutex // guards taken
	taken map[owner]int
}

// owner is a user of a project.
type owner struct{ project, user string }

func newPlaces(all, each int) *places {
	return &places{all: semaphore.NewWeighted(int64(all)), each: each, taken: make(map[owner]int)}
}

// patience is how long somebody waits for a place that others have: most are soon done.
const patience = 5 * time.Second

// take holds one of a user's places until release is called, or fails with an *runtime.Error.
func (p *places) take(ctx context.Context, o owner) (release func(), err error) {
	if err := p.count(o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.all.Acquire(ctx, 1) != nil {
		p.uncount(o)
		return nil, errBusy
	}
	return sync.OnceFunc(func() {
		p.all.Release(1)
		p.uncount(o)
	}), nil
}

func (p *places) count(o owner) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.each > 0 && p.taken[o] >= p.each {
		return &runtime.Error{
			Kind: runtime.KindOverloaded, Code: "too_many_transfers", RetryAfter: 5 * time.Second,
			Detail: fmt.Sprintf("%d files of a user may be on their way at a time", p.each),
		}
	}
	p.taken[o]++
	return nil
}

func (p *places) uncount(o owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[o]--; p.taken[o] == 0 {
		delete(p.taken, o)
	}
}

var errBusy = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "overloaded", RetryAfter: 2 * time.Second,
	Detail: "As many files are on their way as the server may have; try again soon",
}

// placed is a body that gives its place back when it is closed.
type placed struct {
	io.ReadCloser
	release func()
}

func (p placed) Close() error {
	defer p.release()
	return p.ReadCloser.Close()
}
