package attachments

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
)

// places are for what is under way at a time, whoever is slow about it: each holds a connection, a file or a buffer. A user
// has but a part of them, so that nobody takes all.
type places struct {
	all  int // of them
	each int // of one user; 0 for no limit

	mu    sync.Mutex // guards the fields below
	n     int
	taken map[owner]int
}

// owner is a user of a project.
type owner struct{ project, user string }

func newPlaces(all, each int) *places {
	return &places{all: all, each: each, taken: make(map[owner]int)}
}

// take holds one of a user's places until release is called, or fails with an *runtime.Error.
func (p *places) take(o owner) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.each > 0 && p.taken[o] >= p.each:
		return nil, &runtime.Error{
			Kind: runtime.KindOverloaded, Code: "too_many_transfers", RetryAfter: 5 * time.Second,
			Detail: fmt.Sprintf("%d files of a user may be on their way at a time", p.each),
		}
	case p.n >= p.all:
		return nil, errBusy
	}
	p.n++
	p.taken[o]++
	return sync.OnceFunc(func() { p.giveBack(o) }), nil
}

func (p *places) giveBack(o owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n--
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
