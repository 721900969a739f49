package work

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// Snapshot returns a thread as it is now, with its newest limit stored messages. While a run executes, it waits until the run's events
// so far are stored.
func (en *Engine) Snapshot(ctx context.Context, t *tail.Tail, limit int) (tail.Snapshot, error) {
	return whole(ctx, en, t, func() (tail.Snapshot, error) {
		if l := en.runs.on(t.Key()); l != nil {
			return l.Snapshot(ctx, limit, en.await)
		}
		s, err := t.Settled(ctx, limit)
		if errors.Is(err, tail.ErrChanged) {
			return t.Growing(ctx)
		}
		return s, err
	})
}

// RunSnapshot returns a thread as the latest span of one of its runs left it. For a run that has not started yet it returns
// an empty snapshot.
func (en *Engine) RunSnapshot(ctx context.Context, t *tail.Tail, run *data.Run) (tail.RunSnapshot, error) {
	return whole(ctx, en, t, func() (tail.RunSnapshot, error) {
		return t.OfRun(ctx, run, func(ctx context.Context) (tail.Snapshot, error) {
			if l := en.runs.of(run.Key); l != nil {
				return l.Snapshot(ctx, tail.LatestMessages, en.await)
			}
			return t.Growing(ctx)
		})
	})
}

// whole makes a snapshot, again when the thread has changed meanwhile.
func whole[S any](ctx context.Context, en *Engine, t *tail.Tail, snapshot func() (S, error)) (s S, err error) {
	for {
		if err := t.Learn(ctx); err != nil {
			return s, err
		}
		changed := t.Changed()
		if s, err = snapshot(); !errors.Is(err, tail.ErrChanged) {
			return s, err
		}
		if err := en.await(ctx, changed); err != nil {
			return s, err
		}
	}
}

// await waits for a thread's next change, or beside other instances until it is time to look. It fails while the database does not commit, because there is no change then.
func (en *Engine) await(ctx context.Context, changed <-chan struct{}) error {
	var late <-chan time.Time
	if en.shared {
		late = time.After(lookEvery)
	}
	for {
		troubled := en.Commits.Troubled()
		if err := en.Commits.Trouble(); err != nil {
			return err
		}
		select {
		case <-changed:
			return nil
		case <-late:
			return nil
		case <-troubled: // the trouble may be over
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-en.abandoned.Done(): // a run that was released ends its span at the next start
			return commit.ErrStopping
		}
	}
}
