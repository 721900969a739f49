package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/model"
)

// Trouble is what happens to one commit.
type Trouble string

// The troubles of a commit. A killed process does nothing more; what it had not been told of may be stored.
const (
	Away       Trouble = "away"        // the database is unavailable and nothing was written
	Lost       Trouble = "lost"        // it was written, and the answer is lost
	Full       Trouble = "full"        // there is no room
	Refused    Trouble = "refused"     // the database does not take the data
	Slow       Trouble = "slow"        // it takes a long time
	KillBefore Trouble = "kill-before" // the process dies and nothing was written
	KillAfter  Trouble = "kill-after"  // the process dies and all was written
)

// faulty is the Store of one process: it does what the history has in store for its commits, and takes its
// time. All that the simulator knows of the Store stands in this file.
type faulty struct {
	runtime.Store
	w *world
	p *process

	written int64 // the batch whose answer was lost: who asks again is told that it is written, if anything. Used by Commit only
}

func (f *faulty) Join(ctx context.Context, instance, addr string) error {
	f.w.nap("join")
	if f.p.dead.Load() {
		return errDead
	}
	return f.Store.Join(ctx, instance, addr)
}

// Commit passes the batch on, unless the process is dead by then.
func (f *faulty) Commit(ctx context.Context, n int64, b *model.Batch) error {
	number, trouble := f.w.nextCommit()
	if trouble != "" {
		f.w.note("commit %d of %s: %s", number, f.p, trouble)
	}
	f.w.nap("commit", number)
	if trouble == Slow {
		f.w.sleep(700 * time.Millisecond)
	}
	switch {
	case trouble == KillBefore:
		f.w.kill(f.p)
	case trouble == Away:
		return fmt.Errorf("nothing written: %w", model.ErrUnavailable)
	case trouble == Full && n != f.written:
		return model.ErrDiskFull
	case trouble == Refused && n != f.written:
		f.w.spoilt.Store(true)
		return errors.New("invalid byte sequence")
	}
	if f.p.dead.Load() {
		return errDead
	}
	timed := *b
	if b.Decide != nil {
		timed.Decide = func(i int, v *model.View) model.Changes {
			v.Now = f.w.dbNow()
			return b.Decide(i, v)
		}
	}
	err := f.Store.Commit(ctx, n, &timed)
	if err == nil && trouble == Lost {
		f.written = n
		err = fmt.Errorf("answer lost: %w", model.ErrUnavailable)
	}
	if trouble == KillAfter {
		f.w.kill(f.p)
	}
	f.w.nap("committed", number)
	if f.p.dead.Load() {
		return errDead
	}
	return err
}

// errDead is what a process that was killed is told, so that it ends; nobody sees what it does with it.
var errDead = fmt.Errorf("the process is dead: %w", model.ErrFenced)

// The reads that an engine waits for take a while, so that something can happen meanwhile.

func (f *faulty) read(what ...any) error {
	f.w.nap(what...)
	if f.p.dead.Load() {
		return errDead
	}
	return nil
}

func (f *faulty) Queued(ctx context.Context, runKey int64) ([]runtime.Message, error) {
	if err := f.read("queued", runKey); err != nil {
		return nil, err
	}
	return f.Store.Queued(ctx, runKey)
}

func (f *faulty) Messages(ctx context.Context, threadKey, upTo int64, limit int) ([]runtime.Message, error) {
	if err := f.read("messages", threadKey); err != nil {
		return nil, err
	}
	return f.Store.Messages(ctx, threadKey, upTo, limit)
}

func (f *faulty) RunsByName(ctx context.Context, project, user, name string) ([]runtime.Run, error) {
	if err := f.read("named", len(name)); err != nil {
		return nil, err
	}
	return f.Store.RunsByName(ctx, project, user, name)
}

func (f *faulty) ThreadByID(ctx context.Context, project, user, id string) (runtime.Thread, error) {
	if err := f.read("thread", id); err != nil {
		return runtime.Thread{}, err
	}
	return f.Store.ThreadByID(ctx, project, user, id)
}

func (f *faulty) Events(ctx context.Context, threadKey, after int64, limit int) ([]runtime.StoredEvent, error) {
	if err := f.read("events", threadKey, after); err != nil {
		return nil, err
	}
	return f.Store.Events(ctx, threadKey, after, limit)
}

func (f *faulty) Spans(ctx context.Context, runKey int64) ([]runtime.Span, error) {
	if err := f.read("spans", runKey); err != nil {
		return nil, err
	}
	return f.Store.Spans(ctx, runKey)
}

func (f *faulty) Expired(ctx context.Context, now time.Time, limit int) ([]runtime.Interrupt, error) {
	if err := f.read("expired"); err != nil {
		return nil, err
	}
	return f.Store.Expired(ctx, now, limit)
}

func (f *faulty) Run(ctx context.Context, key int64) (runtime.Run, error) {
	if err := f.read("run", key); err != nil {
		return runtime.Run{}, err
	}
	return f.Store.Run(ctx, key)
}
