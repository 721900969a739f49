package sqldb

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Turns limits the concurrent reads of a kind. The zero Turns have no limit.
type Turns struct{ places *semaphore.Weighted }

// TurnsOf returns n turns.
func TurnsOf(n int) Turns { return Turns{semaphore.NewWeighted(int64(n))} }

// Take waits for a turn, which is the caller's until end is called.
func (t Turns) Take(ctx context.Context, q Querier) (end func(), err error) {
	if t.places == nil {
		return func() {}, nil
	}
	if err := t.places.Acquire(ctx, 1); err != nil {
		return nil, q.Failed(ctx, err)
	}
	return func() { t.places.Release(1) }, nil
}
