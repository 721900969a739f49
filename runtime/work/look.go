package work

import (
	"cmp"
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

// looker looks at the queue, and serves rows that can begin here.
type looker struct {
	*looks
	d     *dispatcher
	en    *Engine
	turns turns // used by one look at a time
}

// look has runs of the queue claimed and cancelled, and makes the next look if there is more.
func (k *looker) look() {
	if k.takeCancels() {
		if err := k.cancelRows(); err != nil {
			k.mark(true)
			k.en.logUnshared(err)
			time.AfterFunc(lookAgain, k.nudge)
			return
		}
	}
	rows, more, err := k.choose()
	for _, r := range rows {
		k.en.tasks.Go(func() { k.attend(r) }) // as many as there are free slots
	}
	k.en.logUnshared(err)
	if more && len(rows) > 0 {
		k.nudge()
	} else if more || err != nil {
		time.AfterFunc(lookAgain, k.nudge)
	}
}

// choose takes rows whose runs can begin here. It reports whether there may be more.
func (k *looker) choose() (rows []*row, more bool, err error) {
	free := min(k.d.admission.free(), takenFromQueue)
	if free <= 0 || k.en.Stopping() || k.en.cfg.Identity.Role == Gateway {
		k.hint()
		return nil, false, nil // the look stays due
	}
	due, fresh, waiting := k.takeDue()
	if !due {
		return nil, false, nil
	}
	s := &serving{k: k}
	s.short, _ = k.orphansWait()
	if err = k.takeHeavy(s, waiting); err == nil {
		c := choice{turns: &k.turns, line: k.line, admit: s.admit, most: free - len(s.rows), reads: readAtOnce + 2*free}
		more, err = c.run()
	}
	k.looked(fresh, &s.short, more || err != nil)
	if s.leaves {
		k.hint()
	}
	rows, failed := k.take(s.rows)
	if len(rows) < len(s.rows) { // others have taken rows; there may be more
		more = true
		k.mark(false)
	}
	return rows, more, cmp.Or(err, failed)
}

// take keeps the other instances from taking these rows, and returns those that none of them has taken.
func (k *looker) take(rows []*row) (got []*row, err error) {
	if len(rows) == 0 || !k.en.OthersLive() {
		return rows, nil
	}
	threads := make([]int64, len(rows))
	for i, r := range rows {
		threads[i] = r.run.ThreadKey
	}
	taken, err := k.en.store.Take(k.en.abandoned, threads, data.MostHold)
	for _, r := range rows {
		if r.held = slices.Contains(taken, r.run.ThreadKey); r.held {
			got = append(got, r)
			continue
		}
		k.end(k.serving, r.run.ThreadKey)
		r.reserved.release()
		k.en.frees.Add(1) // not freed: the next look comes after a pause
	}
	return got, err
}

// letGo gives the room of a row to others.
func (k *looker) letGo(r *row) {
	r.reserved.release()
	k.en.freed()
}

// giveBack lets any instance take a row that this one has not claimed. With hint the others look at once.
func (k *looker) giveBack(r *row, hint bool) {
	if r.held {
		_, err := k.en.store.Take(k.en.abandoned, []int64{r.run.ThreadKey}, 0)
		k.en.logUnshared(err)
	}
	if hint {
		k.en.link.HintAll(bus.Queue)
	}
	k.end(k.serving, r.run.ThreadKey)
	k.heed(false)
}

// hint has the other instances look at the rows that this one has written and does not serve, once.
func (k *looker) hint() {
	if k.takeWrote() {
		k.en.link.HintAll(bus.Queue)
	}
}

// line reads rows of the queue.
func (k *looker) line(after data.Place, each data.Each, limit int) ([]data.Place, error) {
	return commit.RetryUnavailable(k.en.abandoned, func() ([]data.Place, error) {
		return k.en.store.Line(k.en.abandoned, after, each, limit)
	})
}

// cancelRows has the runs cancelled that block the first in line.
func (k *looker) cancelRows() error {
	for after := (data.Place{}); ; {
		rows, err := k.line(after, data.EachCancel, rowsAtOnce)
		if err != nil {
			return err
		}
		for i := range rows {
			if after = rows[i]; k.begin(k.cancelling, after.ThreadKey, after.RunKey) {
				k.en.tasks.Go(func() { k.makeRoom(&rows[i]) }) // as many as there are runs that make room
			}
		}
		if len(rows) < rowsAtOnce {
			return nil
		}
	}
}

// takeHeavy serves the runs that have waited for bytes, as far as they fit now. The others block later runs.
func (k *looker) takeHeavy(s *serving, runs []heavy) error {
	if len(runs) == 0 {
		return nil
	}
	keys, queued := make([]int64, len(runs)), make(map[int64]bool)
	for i := range runs {
		keys[i] = runs[i].run.Key
	}
	heads, err := k.en.store.Heads(k.en.abandoned, keys)
	if err != nil {
		return err
	}
	for i := range heads { // others may have claimed or cancelled them
		queued[heads[i].Key] = heads[i].Status == data.Queued
	}
	for i := range runs {
		h := &runs[i]
		if !queued[h.run.Key] {
			k.forget(h.run.Key)
			continue
		}
		lacks, is := s.take(&h.run, &h.weight)
		if is {
			k.forget(h.run.Key)
			continue
		}
		s.short.note(&h.run, lacks)
	}
	return nil
}

// weigh reserves for the bytes of a row's run. It reports false if there is no room for them now.
func (k *looker) weigh(r *row) bool {
	h := heavy{run: r.run, weight: k.d.admission.weigh(k.en.abandoned, &r.run)}
	if h.weight == (data.Weight{}) {
		return true
	}
	h.lacks = k.lacks(&h.run, h.weight)
	h.lacks.agent, h.lacks.slot = false, quota.None // it has a slot
	if h.lacks == (shortage{}) {
		h.lacks = r.reserved.load(&r.run, h.weight)
	}
	if h.lacks == (shortage{}) {
		return true
	}
	k.letGo(r)
	if !k.weighed(h) {
		k.en.sleep(lookAgain) // others may have its slot meanwhile
	}
	return false
}

// row is a row of the queue that is served.
type row struct {
	run      data.RunHead
	reserved *reservation
	weighed  bool // the reservation has the run's bytes, too
	held     bool // others leave the row out
}

// serving takes rows in a look.
type serving struct {
	k      *looker
	rows   []*row
	short  shortages // of runs that come first
	leaves bool      // a row is left, for which others may have room
}

// admit takes a row if its run can begin here.
func (s *serving) admit(p *data.Place) verdict {
	run := p.Head()
	if s.k.en.shared && !s.k.en.offersRun(&run) {
		s.leaves = true
		if k := s.k.en; k.nodesOf(&run) != nil && run.Agent == "" { // other runs of the workflow may have begun with other nodes
			return passed
		}
		return closesLane
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
	k := s.k
	r := &row{run: *run, weighed: weight != nil}
	var w data.Weight
	if r.weighed {
		w = *weight
	} else if k.weight(run.Key) != w {
		return shortage{}, false
	}
	if lacks := s.short.of(run, w); lacks != (shortage{}) {
		return lacks, false
	}
	if !k.begin(k.serving, run.ThreadKey, run.Key) {
		return shortage{}, false
	}
	if r.reserved, lacks = k.d.admission.admit(run, w); r.reserved == nil {
		k.end(k.serving, run.ThreadKey)
		s.short.note(run, lacks)
		return lacks, false
	}
	s.rows = append(s.rows, r)
	return shortage{}, true
}

// attend claims the run of a row. Its slot is reserved, but bytes only if it was weighed.
func (k *looker) attend(r *row) {
	run := &r.run
	if !r.weighed && !k.weigh(r) {
		k.giveBack(r, true)
		return
	}
	err := k.d.claim(run, r.reserved)
	if err == nil {
		k.end(k.serving, run.ThreadKey)
		return
	}
	k.d.noteCapped(run, err)
	k.letGo(r)
	elsewhere := errors.Is(err, errAbsent) || errors.Is(err, commit.ErrStopping)
	if e := unstarted(err); e != nil {
		k.en.about(run).Error("run cannot be claimed", "error", err)
		err = k.en.closeRun(run.ThreadKey, run.Key, ending{status: data.Failed, err: e}, unclaimed)
	}
	k.pause(run, err)
	k.giveBack(r, elsewhere)
}

// pause waits before a row is served again, after an error.
func (k *looker) pause(run *data.RunHead, err error) {
	switch {
	case errors.Is(err, data.ErrTooSlow), errors.Is(err, data.ErrConflict), errors.Is(err, data.ErrDiskFull), errors.Is(err, commit.ErrContended): // the database may recover
		commit.Pause(k.en.abandoned, slowly)
	case err != nil && !unwritten(err):
		k.en.about(run).Error("run holds up its thread", "error", err)
		k.en.rest()
	case err != nil: // another run comes first, another instance was faster, or a limit is full
		k.en.sleep(heedEvery)
	}
}

// makeRoom cancels the run of a row, which blocks the first in line.
func (k *looker) makeRoom(p *data.Place) {
	head := p.Head()
	heads, err := commit.RetryUnavailable(k.en.abandoned, func() ([]data.RunHead, error) {
		return k.en.store.Heads(k.en.abandoned, []int64{p.RunKey})
	})
	if err == nil && len(heads) == 0 {
		err = decide.ErrRunNotFound
	} else if err == nil {
		head = heads[0]
		err = k.en.Cancel(&head, head.Generation, decide.By{})
	}
	if err != nil && unwritten(err) { // its owner has not answered, or it is between two owners
		commit.Pause(k.en.abandoned, slowly)
	} else if err != nil {
		k.pause(&head, err)
	}
	k.end(k.cancelling, p.ThreadKey)
	k.heed(true) // the thread may have another one to cancel
}
