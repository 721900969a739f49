package tail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Beside other instances, this process knows a log while it executes a run of the thread: then it alone writes. Any other log is looked
// at in the database, regularly while it has readers. A reader ends only after a look that began when the reader had all events that
// were known.

// errLook means that the reader must look at the log before it knows whether it has ended.
var errLook = errors.New("look at the log")

// Scope says which of the logs that have readers are looked at.
type Scope int

// The scopes, from the narrowest.
const (
	Fresh   Scope = iota // those of Foreign whose first reader has come in the last second: other instances may not know yet that it is here
	Foreign              // those that this process does not alone write
	All                  // even where this process alone writes, other instances may cancel queued runs and delete old ones
)

// Look delivers the events that other instances have written to logs with readers.
func (l *Logs) Look(ctx context.Context, scope Scope) error {
	return l.lookAt(ctx, l.read(scope))
}

// LookAt is Look at some threads.
func (l *Logs) LookAt(ctx context.Context, threads []int64) error {
	var tails []*Tail
	l.mu.Lock()
	for _, key := range threads {
		if t := l.tails[key]; t != nil {
			tails = append(tails, t)
		}
	}
	l.mu.Unlock()
	return l.lookAt(ctx, slices.DeleteFunc(tails, func(t *Tail) bool { return !t.isRead(All) }))
}

// Wanted returns up to most threads with readers of which other instances may have news.
func (l *Logs) Wanted(most int) []int64 {
	tails := l.read(Foreign)
	keys := make([]int64, min(len(tails), most))
	for i := range keys {
		keys[i] = tails[i].key
	}
	return keys
}

// read returns the tails that have readers.
func (l *Logs) read(scope Scope) []*Tail {
	l.mu.Lock()
	tails := slices.Collect(maps.Values(l.tails))
	l.mu.Unlock()
	return slices.DeleteFunc(tails, func(t *Tail) bool { return !t.isRead(scope) })
}

// isRead reports whether the log has readers, and is in the scope.
func (t *Tail) isRead(scope Scope) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readers > 0 && (scope == All || !t.here && (scope == Foreign || time.Since(t.read) < freshFor))
}

// freshFor is how long other instances may not know of a reader.
const freshFor = time.Second

func (l *Logs) lookAt(ctx context.Context, tails []*Tail) error {
	for some := range slices.Chunk(tails, 1000) {
		over, err := l.neverRun(ctx, some)
		if err == nil {
			err = l.look(ctx, some, over)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// neverRun returns which of the runs that readers wait for are cancelled or deleted, with the event of their last end.
func (l *Logs) neverRun(ctx context.Context, tails []*Tail) (map[int64]int64, error) {
	over := make(map[int64]int64)
	var runs []int64
	for _, t := range tails {
		t.mu.Lock()
		for run := range t.reads {
			runs, over[run] = append(runs, run), 0
		}
		t.mu.Unlock()
	}
	if len(runs) == 0 {
		return nil, nil
	}
	heads, err := l.cfg.Store.Heads(ctx, runs)
	for i := range heads {
		if h := &heads[i]; h.Status == data.Cancelled {
			over[h.Key] = h.ClosedEvent
		} else {
			delete(over, h.Key)
		}
	}
	return over, err
}

// look reads the heads of logs. over are runs that have ended by then.
func (l *Logs) look(ctx context.Context, tails []*Tail, over map[int64]int64) error {
	number := l.looks.Add(1)
	places, changes := make([]data.LogPlace, len(tails)), make([]int, len(tails))
	for i, t := range tails {
		t.mu.Lock()
		places[i], changes[i] = data.LogPlace{Thread: t.key, After: -1}, t.changes
		if t.known && t.readers > 0 && !t.here {
			places[i].After = t.committed
		}
		t.mu.Unlock()
	}
	heads, err := l.cfg.Store.LogHeads(ctx, places)
	if err != nil {
		return err
	}
	found := make(map[int64]*data.LogHead, len(heads))
	for i := range heads {
		found[heads[i].Thread] = &heads[i]
	}
	for i, t := range tails {
		head := found[t.key]
		t.see(number, changes[i], head, t.recordsOf(head), over)
	}
	l.evict()
	return nil
}

// recordsOf returns the records of the events that a look has read. It leaves out illegible ones, for which readers fail.
func (t *Tail) recordsOf(head *data.LogHead) (recs []*Record) {
	if head == nil {
		return nil
	}
	for i := range head.Latest {
		if rec, err := decode(&head.Latest[i], t.id); err == nil {
			recs = append(recs, rec)
		}
	}
	return recs
}

// see applies a look. changes is Tail.changes at its begin, and head is nil if the thread does not exist.
func (t *Tail) see(number int64, changes int, head *data.LogHead, latest []*Record, over map[int64]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := false
	if t.deleted = t.deleted || head == nil; t.deleted {
		news = true
		t.drop(len(t.ring))
	} else if head.Removals != t.removals {
		t.removals = head.Removals
		t.drop(len(t.ring))
	}
	if !t.deleted && !t.here && t.changes == changes && number > t.looked { // otherwise it is outdated
		news = head.Last > t.committed || head.Busy != t.busy
		t.pushLatest(latest)
		t.known, t.looked, t.busy, t.committed = true, number, head.Busy, max(t.committed, head.Last)
	}
	for run := range t.reads {
		if closed, ok := over[run]; ok && closed <= t.committed && !t.cancelled[run] { // its readers get the events before
			t.cancelled[run], news = true, true
		}
	}
	if news && t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// refresh looks at the log, unless a look has begun since.
func (t *Tail) refresh(ctx context.Context, since int64) error {
	select {
	case t.looking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t.looking }()
	t.mu.Lock()
	done := t.deleted || t.here || t.looked > since
	t.mu.Unlock()
	if done {
		return nil
	}
	return t.logs.lookWithOthers(ctx, t)
}

// lookouts batches the looks that readers request. One statement runs at a time; the next one reads all logs that were requested meanwhile.
type lookouts struct {
	mu     sync.Mutex // guards the fields below
	making bool
	next   *lookout // nil if none is asked for
}

// lookout is a look for several readers.
type lookout struct {
	tails []*Tail
	done  chan struct{}
	err   error // once done is closed
}

// lookoutTime ends a look that the database does not answer.
const lookoutTime = 10 * time.Second

// lookWithOthers looks at the log in the next look that is made.
func (l *Logs) lookWithOthers(ctx context.Context, t *Tail) error {
	o := &l.lookouts
	o.mu.Lock()
	if o.next == nil {
		o.next = &lookout{done: make(chan struct{})}
	}
	mine := o.next
	mine.tails = append(mine.tails, t)
	if !o.making {
		o.making = true
		go l.makeLookouts() // ends when no more are asked for
	}
	o.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Logs) makeLookouts() {
	o := &l.lookouts
	for {
		o.mu.Lock()
		now := o.next
		o.next, o.making = nil, now != nil
		o.mu.Unlock()
		if now == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookoutTime)
		for some := range slices.Chunk(now.tails, 1000) {
			err := l.look(ctx, some, nil)
			if errors.Is(err, data.ErrUnavailable) { // one connection may be broken
				err = l.look(ctx, some, nil)
			}
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", data.ErrTooSlow, err)
			}
			now.err = cmp.Or(now.err, err)
		}
		cancel()
		close(now.done)
	}
}

// learnShared is Learn beside other instances.
func (t *Tail) learnShared(ctx context.Context) error {
	for since := t.logs.looks.Load(); ; {
		if err := t.refresh(ctx, since); err != nil {
			return err
		}
		t.mu.Lock()
		deleted, done := t.deleted, t.here || t.looked > since
		t.mu.Unlock()
		if deleted {
			return data.ErrNotFound
		}
		if done {
			return nil
		}
	}
}

// executes reports whether this process executes a run of the thread.
func (l *Logs) executes(key int64) bool {
	l.mu.Lock()
	t := l.tails[key]
	l.mu.Unlock()
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.here
}

// knowsEnd reports whether t.busy is right now that the reader is at the end, t.mu is held.
func (r *Cursor) knowsEnd() bool {
	if r.t.here || !r.t.logs.cfg.Shared {
		return true
	}
	if r.caughtUp != r.after {
		r.caughtUp, r.since = r.after, r.t.logs.looks.Load()
	}
	return r.t.looked > r.since
}

// countReaders adds n to the thread's cursors.
func (t *Tail) countReaders(n int) {
	t.mu.Lock()
	t.readers += n
	first := n > 0 && t.readers == n && !t.here && t.logs.cfg.Shared
	if first {
		t.read = time.Now()
	}
	t.mu.Unlock()
	if first && t.logs.cfg.Wants != nil {
		t.logs.cfg.Wants(t.key)
	}
}
