package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// takenFromQueue is how many rows a look takes, at most.
const takenFromQueue = 64

// lookAgain is the pause before a look that goes on where the last one has found nothing, or has failed.
const lookAgain = 100 * time.Millisecond

// Run looks when there may be runs that can begin or have to be cancelled. It ends when no more runs begin here, and the last claim has
// ended.
func (q *Queue) Run(ctx context.Context) {
	for {
		select {
		case <-q.cfg.Quit:
			q.serving.Wait()
			return
		case <-q.looks.signal:
			q.Look(ctx)
		}
	}
}

// Look has runs of the queue claimed and cancelled, and makes the next look if there is more.
func (q *Queue) Look(ctx context.Context) {
	if q.looks.take(&q.looks.cancels) {
		if err := q.cancelRows(ctx); err != nil {
			q.looks.mark(true)
			q.cfg.Unshared(err)
			time.AfterFunc(lookAgain, q.looks.nudge)
			return
		}
	}
	rows, more, err := q.choose(ctx)
	for _, r := range rows {
		q.serving.Go(func() { q.attend(ctx, r) }) // as many as there are free slots
	}
	q.cfg.Unshared(err)
	if more && len(rows) > 0 {
		q.looks.nudge()
	} else if more || err != nil {
		time.AfterFunc(lookAgain, q.looks.nudge)
	}
}

// choose takes rows whose runs can begin here. It reports whether there may be more.
func (q *Queue) choose(ctx context.Context) (rows []*row, more bool, err error) {
	free := min(q.admission.free(), takenFromQueue)
	if free <= 0 || q.quits() {
		q.hint()
		return nil, false, nil // the look stays due
	}
	due, fresh, waiting, short := q.looks.takeDue()
	if !due {
		return nil, false, nil
	}
	s, cut := &serving{q: q, short: short}, false
	if err = q.takeHeavy(ctx, s, waiting); err == nil {
		c := choice{turns: &q.turns, line: q.line(ctx), admit: s.admit, most: free - len(s.rows), reads: readAtOnce + 2*free}
		more, err = c.run()
		cut = c.cut && s.passes
	}
	q.looks.looked(fresh, &s.short, more || err != nil, cut)
	if s.leaves {
		q.hint()
	}
	rows, failed := q.take(ctx, s.rows)
	if len(rows) < len(s.rows) { // others have taken rows; there may be more
		more = true
		q.looks.mark(false)
	}
	return rows, more, cmp.Or(err, failed)
}

// take keeps the other instances from taking these rows, and returns those that none of them has taken.
func (q *Queue) take(ctx context.Context, rows []*row) (got []*row, err error) {
	if len(rows) == 0 || q.cfg.Servers == nil || !q.cfg.Servers.OthersLive() {
		return rows, nil
	}
	threads := make([]int64, len(rows))
	for i, r := range rows {
		threads[i] = r.run.ThreadKey
	}
	taken, err := q.cfg.Rows.Take(ctx, threads, data.MostHold)
	for _, r := range rows {
		if r.held = slices.Contains(taken, r.run.ThreadKey); r.held {
			got = append(got, r)
			continue
		}
		q.looks.end(q.looks.serving, r.run.ThreadKey)
		r.reserved.release()
		q.frees.Add(1) // not Freed: the next look comes after a pause
	}
	return got, err
}

// giveBack lets any instance take a row that this one has not claimed. With hint the others look at once.
func (q *Queue) giveBack(ctx context.Context, r *row, hint bool) {
	if r.held {
		_, err := q.cfg.Rows.Take(ctx, []int64{r.run.ThreadKey}, 0)
		q.cfg.Unshared(err)
	}
	if hint {
		q.cfg.Link.HintAll(bus.Queue)
	}
	q.looks.end(q.looks.serving, r.run.ThreadKey)
	q.Wake(false)
}

// quits reports whether no more runs begin here.
func (q *Queue) quits() bool {
	select {
	case <-q.cfg.Quit:
		return true
	default:
		return q.cfg.Gateway
	}
}

// hint has the other instances look at the rows that this one has written and does not serve, once.
func (q *Queue) hint() {
	if q.looks.take(&q.looks.wrote) {
		q.cfg.Link.HintAll(bus.Queue)
	}
}

// line reads rows of the queue.
func (q *Queue) line(ctx context.Context) func(after data.Place, each data.Each, limit int) ([]data.Place, error) {
	return func(after data.Place, each data.Each, limit int) ([]data.Place, error) {
		return commit.RetryUnavailable(ctx, func() ([]data.Place, error) { return q.cfg.Rows.Line(ctx, after, each, limit) })
	}
}

// cancelRows has the runs cancelled that block the first in line.
func (q *Queue) cancelRows(ctx context.Context) error {
	read := q.line(ctx)
	for after := (data.Place{}); ; {
		rows, err := read(after, data.EachCancel, rowsAtOnce)
		if err != nil {
			return err
		}
		for i := range rows {
			if after = rows[i]; q.looks.begin(q.looks.cancelling, after.ThreadKey, after.RunKey) {
				q.serving.Go(func() { q.makeRoom(&rows[i]) }) // as many as there are runs that make room
			}
		}
		if len(rows) < rowsAtOnce {
			return nil
		}
	}
}

// takeHeavy serves the runs that have waited for bytes, as far as they fit now. The others block later runs.
func (q *Queue) takeHeavy(ctx context.Context, s *serving, runs []heavy) error {
	if len(runs) == 0 {
		return nil
	}
	keys, queued := make([]int64, len(runs)), make(map[int64]bool)
	for i := range runs {
		keys[i] = runs[i].run.Key
	}
	heads, err := q.cfg.Store.Heads(ctx, keys)
	if err != nil {
		return err
	}
	for i := range heads { // others may have claimed or cancelled them
		queued[heads[i].Key] = heads[i].Status == data.Queued
	}
	for i := range runs {
		h := &runs[i]
		if !queued[h.run.Key] {
			q.looks.forget(h.run.Key)
			continue
		}
		lacks, is := s.take(&h.run, &h.weight)
		if is {
			q.looks.forget(h.run.Key)
			continue
		}
		s.short.note(&h.run, lacks)
	}
	return nil
}

// weigh reserves for the bytes of a row's run. It reports false if there is no room for them now.
func (q *Queue) weigh(ctx context.Context, r *row) bool {
	h := heavy{run: r.run, weight: q.admission.weigh(ctx, &r.run)}
	if h.weight == (data.Weight{}) {
		return true
	}
	h.lacks = q.looks.lacks(&h.run, h.weight)
	h.lacks.agent, h.lacks.slot = false, quota.None // it has a slot
	if h.lacks == (shortage{}) {
		h.lacks = r.reserved.load(h.weight)
	}
	if h.lacks == (shortage{}) {
		return true
	}
	q.Release(r.reserved)
	if !q.looks.weighed(h) {
		select { // others may have its slot meanwhile
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
	}
	return false
}

// row is a row of the queue that is served.
type row struct {
	run      data.RunHead
	reserved *Reservation
	weighed  bool // the reservation has the run's bytes, too
	held     bool // others leave the row out
}

// serving takes rows in a look.
type serving struct {
	q      *Queue
	rows   []*row
	short  shortages // of runs that come first
	leaves bool      // a row is left, for which others may have room
	passes bool      // a row is served already
}

// admit takes a row if its run can begin here.
func (s *serving) admit(p *data.Place) verdict {
	run := p.Head()
	if servers := s.q.cfg.Servers; servers != nil {
		if offers, others := servers.Offers(&run); !offers {
			s.leaves = true
			if others {
				return passed
			}
			return closesLane
		}
	}
	lacks, is := s.take(&run, nil)
	s.leaves = s.leaves || lacks != (shortage{})
	switch {
	case is:
		return takes
	case lacks.agent:
		return closesLane
	}
	switch lacks.slot {
	case quota.User:
		return closesUser
	case quota.Project:
		return closesProject
	case quota.Total:
		return closesAll
	}
	return passed // it is served, or waits for bytes
}

// take takes a run that has a slot, and room for its weight if that is known. Otherwise it returns the shortage, the zero one for a run that
// is served already or waits for bytes.
func (s *serving) take(run *data.RunHead, weight *data.Weight) (lacks shortage, is bool) {
	q := s.q
	r := &row{run: *run, weighed: weight != nil}
	var w data.Weight
	if r.weighed {
		w = *weight
	} else if q.looks.weight(run.Key) != w {
		return shortage{}, false
	}
	if lacks := s.short.of(run, w); lacks != (shortage{}) {
		return lacks, false
	}
	if !q.looks.begin(q.looks.serving, run.ThreadKey, run.Key) {
		s.passes = true
		return shortage{}, false
	}
	if r.reserved, lacks = q.admission.admit(run, w); r.reserved == nil {
		q.looks.end(q.looks.serving, run.ThreadKey)
		s.short.note(run, lacks)
		return lacks, false
	}
	s.rows = append(s.rows, r)
	return shortage{}, true
}

// attend claims the run of a row. Its slot is reserved, but bytes only if it was weighed.
func (q *Queue) attend(ctx context.Context, r *row) {
	run := &r.run
	if !r.weighed && !q.weigh(ctx, r) {
		q.giveBack(ctx, r, true)
		return
	}
	err := q.cfg.Runs.Claim(run, r.reserved)
	if err == nil {
		q.looks.end(q.looks.serving, run.ThreadKey)
		return
	}
	switch {
	case errors.Is(err, decide.ErrUserFull):
		q.admission.cap(data.Name{Project: run.Project, User: run.User})
	case errors.Is(err, decide.ErrProjectFull):
		q.admission.cap(data.Name{Project: run.Project})
	case errors.Is(err, decide.ErrUncounted):
		q.admission.cap(q.cfg.Caps.Counts(run.Project, run.User))
	}
	q.Release(r.reserved)
	q.cfg.Runs.Unclaimed(run, err)
	q.giveBack(ctx, r, errors.Is(err, ErrElsewhere) || errors.Is(err, commit.ErrStopping))
}

// makeRoom cancels the run of a row, which blocks the first in line.
func (q *Queue) makeRoom(p *data.Place) {
	run := p.Head()
	q.cfg.Runs.Cancel(&run)
	q.looks.end(q.looks.cancelling, p.ThreadKey)
	q.Wake(true) // the thread may have another one to cancel
}
