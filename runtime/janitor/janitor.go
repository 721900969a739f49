// Package janitor runs the background duties of a server in turns. A duty works for a slice of time; with more to do it has its
// next turn once the other duties have had theirs. So a duty with hours of work delays none of the others.
package janitor

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"
)

// Duty is work that is done again and again.
type Duty struct {
	Name  string
	Every time.Duration // from the begin of one time to the begin of the next
	// Do does the work that there is now. Between two transactions, without a lock, it calls Yield, and ends if that fails. It
	// returns ErrNotNow when the duty is to be tried again at the next Retry.
	Do func(ctx context.Context, now time.Time) error
}

// ErrNotNow is returned by a duty that cannot be done now.
var ErrNotNow = errors.New("not now")

// Config says what a Janitor does.
type Config struct {
	Duties []Duty        // which begin in this order
	Begin  time.Time     // the time from which the first periods count
	Retry  time.Duration // the first begin of each duty, and the delay after ErrNotNow, unless a duty's period is shorter
	Slice  time.Duration // how long a turn lasts, if the duty yields often enough
	Behind time.Duration // how long a duty may take until the log says that it falls behind
	Log    *slog.Logger
}

// Janitor runs duties in turns. One goroutine may use it.
type Janitor struct {
	cfg    Config
	duties []*duty // the one whose last turn is the longest ago comes first
}

// New returns a Janitor with duties that have not begun.
func New(cfg Config) *Janitor {
	j := &Janitor{cfg: cfg}
	for _, d := range cfg.Duties {
		j.duties = append(j.duties, &duty{Duty: d, due: cfg.Begin.Add(min(d.Every, cfg.Retry))})
	}
	return j
}

// duty is a Duty with its progress.
type duty struct {
	Duty
	due  time.Time // its next begin
	turn turn

	resume func() (struct{}, bool) // nil unless the duty is under way
	stop   func()
	began  time.Time
	behind bool  // the log says so
	err    error // of the last time
}

// Turn gives a turn to the next duty that is due or has more to do. If there is none, it returns how long that will last.
func (j *Janitor) Turn(ctx context.Context, now time.Time) (idle time.Duration) {
	at := slices.IndexFunc(j.duties, func(d *duty) bool { return d.resume != nil || !now.Before(d.due) })
	if at < 0 {
		next := slices.MinFunc(j.duties, func(a, b *duty) int { return a.due.Compare(b.due) })
		return next.due.Sub(now)
	}
	d := j.duties[at]
	j.duties = append(slices.Delete(j.duties, at, at+1), d)
	if d.resume == nil {
		d.begin(ctx, now)
	}
	d.turn.ends = time.Now().Add(j.cfg.Slice)
	if _, more := d.resume(); more {
		j.watch(d, now)
		return 0
	}
	d.resume, d.stop = nil, nil
	switch d.due = d.began.Add(d.Every); {
	case errors.Is(d.err, ErrNotNow):
		d.due = d.began.Add(min(d.Every, j.cfg.Retry))
	case d.err != nil && ctx.Err() == nil:
		j.cfg.Log.Warn("a background duty failed", "duty", d.Name, "error", d.err)
	}
	return 0
}

// watch logs once that a duty falls behind.
func (j *Janitor) watch(d *duty, now time.Time) {
	if took := now.Sub(d.began); !d.behind && took > j.cfg.Behind {
		d.behind = true
		j.cfg.Log.Warn("a background duty falls behind", "duty", d.Name, "since", took.Round(time.Second).String(), "help", "baton doctor checks the database and its disk")
	}
}

// Stop ends the duties that are under way, at the place where they yield.
func (j *Janitor) Stop() {
	for _, d := range j.duties {
		if d.stop != nil {
			d.stop()
		}
	}
}

func (d *duty) begin(ctx context.Context, now time.Time) {
	d.began, d.behind = now, false
	d.turn.name = d.Name
	d.resume, d.stop = iter.Pull(func(yield func(struct{}) bool) {
		d.turn.yield = yield
		d.err = d.Do(context.WithValue(ctx, turnKey{}, &d.turn), now)
	})
}

// turn is the turn of a duty, which its context has.
type turn struct {
	name  string
	ends  time.Time
	yield func(struct{}) bool
}

type turnKey struct{}

// Name returns the name of the duty that the context belongs to, or "".
func Name(ctx context.Context) string {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		return t.name
	}
	return ""
}

// Yield ends the turn of the duty that the context belongs to, if its time is over, and returns with the duty's next turn. It fails
// when the context is done or the janitor stops. In any other context it does nothing else.
func Yield(ctx context.Context) error {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok && !time.Now().Before(t.ends) && !t.yield(struct{}{}) {
		return context.Canceled
	}
	return context.Cause(ctx)
}
