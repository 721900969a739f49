package calls

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// MaxDepth is how deep agents are nested in each other.
const MaxDepth = 8

// Places limits the calls of a run's agents at once, by their depth: an agent has its place while it waits for one at the next depth only.
type Places struct {
	Most int64

	mu     sync.Mutex // guards depths
	depths [MaxDepth + 1]*semaphore.Weighted
}

func (p *Places) at(depth int) *semaphore.Weighted {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.depths[depth]
	if *at == nil {
		*at = semaphore.NewWeighted(p.Most)
	}
	return *at
}

// Acquire waits for n places at a depth. It fails with ctx's cause.
func (p *Places) Acquire(ctx context.Context, depth, n int) error {
	if p.at(depth).Acquire(ctx, int64(n)) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Release releases n places at a depth.
func (p *Places) Release(depth, n int) { p.at(depth).Release(int64(n)) }
