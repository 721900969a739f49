package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Checks are called while the database is locked.
type Checks struct {
	Place    func(*data.View, data.Place)                 // at the end of each batch, with each thread and its row in the queue, the zero Place for none
	Begins   func(run *data.RunHead, open []data.RunHead) // with each run that becomes RUNNING, and the open runs that its thread had, in order
	Running  func(map[data.Name]int)                      // at the end of a batch with such a run, with the numbers of RUNNING runs of projects and of users
	NotTaken func(claimed data.Place, instance string)    // beside others, with a row that an instance has claimed and never taken
	Overdue  func(place data.Place, instance string)      // with a row that an instance has taken and for too long neither claimed nor given back
}

// placed is a row of the queue.
type placed struct {
	data.Place
	at    time.Time // when it was written
	by    string    // the instance that has taken it last
	until time.Time // when that has no right to it any more; zero if it has given it back
}

// isTaken reports whether an instance has the row: see [data.Queue].
func (p *placed) isTaken(now time.Time) bool {
	return p.until.After(now) && !p.until.After(now.Add(2*data.MostHold))
}

// placeOf returns a thread's row in the queue, the zero Place for none.
func (db *Database) placeOf(thread int64) data.Place {
	if row := db.queue[thread]; row != nil {
		return row.Place
	}
	return data.Place{ThreadKey: thread}
}

// begins checks a run that becomes RUNNING, before it and its thread's row are changed.
func (tx *tx) begins(run *data.RunHead) {
	tx.began = true
	if tx.checks.Begins == nil {
		return
	}
	tx.checks.Begins(run, tx.openRuns(run.ThreadKey))
	row := tx.queue[run.ThreadKey]
	if tx.by == nil || row == nil {
		return
	}
	took := tx.by.took[run.ThreadKey] // also an earlier row, if its claim had to wait for the thread
	if !took && !tx.by.alone && tx.by.alongside.Before(row.at) {
		tx.checks.NotTaken(row.Place, tx.writer)
	}
	delete(tx.by.took, run.ThreadKey)
	tx.undo = append(tx.undo, func() { tx.by.took[run.ThreadKey] = took })
}

// checkQueue checks the queue at the end of a batch.
func (tx *tx) checkQueue() {
	if tx.checks.Place == nil {
		return
	}
	for _, thread := range slices.Concat(slices.Collect(maps.Keys(tx.threads)), slices.Collect(maps.Keys(tx.queue))) { // also rows of deleted threads
		ask := data.Ask{Thread: thread}
		tx.checks.Place(tx.views([]data.Ask{ask}).of(&ask), tx.placeOf(thread))
	}
	if tx.began {
		tx.checks.Running(tx.count(data.Running))
	}
}

// Misplaced returns up to limit threads whose Place cannot be right: see [data.Queue].
func (db *Database) Misplaced(ctx context.Context, limit int) ([]int64, error) {
	return read(ctx, db, func() (threads []int64) {
		active := make(map[int64]bool)
		for _, r := range db.runs {
			active[r.ThreadKey] = active[r.ThreadKey] || r.Status == data.Running || r.Status == data.Waiting
		}
		for _, r := range db.runs {
			waits := r.Status == data.Waiting && r.Waits != nil
			if (waits || r.Status == data.Queued && !active[r.ThreadKey]) && db.queue[r.ThreadKey] == nil {
				threads = append(threads, r.ThreadKey)
			}
		}
		for thread, p := range db.queue {
			r := db.runs[p.RunKey]
			if r == nil || r.ThreadKey != thread || r.Status.Final() || p.Todo == data.ToClaim && r.Status != data.Queued ||
				p.Todo == data.ToWake && r.Status != data.Waiting {
				threads = append(threads, thread)
			}
		}
		slices.Sort(threads)
		return head(slices.Compact(threads), limit)
	})
}

// Line returns up to limit rows of the queue behind a place: see [data.Queue].
func (db *Database) Line(ctx context.Context, after data.Place, each data.Each, limit int) ([]data.Place, error) {
	return read(ctx, db, func() (places []data.Place) {
		rows := db.queue.sorted(func(p *placed) bool {
			switch claims := p.Todo == data.ToClaim && !p.isTaken(db.clock()); each {
			case data.EachProject:
				return claims && p.Project > after.Project
			case data.EachLane:
				return claims && p.Project == after.Project && p.CompareLanes(&after) > 0
			case data.EachRow:
				return claims && p.SameLane(&after) && (after.ThreadKey == 0 || p.Compare(&after) > 0)
			}
			if each == data.EachDue {
				return p.Todo == data.ToWake && !p.Since.After(db.clock()) && cmp.Or(p.Since.Compare(after.Since), cmp.Compare(p.ThreadKey, after.ThreadKey)) > 0
			}
			return p.Todo == data.ToCancel && p.ThreadKey > after.ThreadKey
		}, func(a, b *placed) int {
			switch each {
			case data.EachCancel:
				return cmp.Compare(a.ThreadKey, b.ThreadKey)
			case data.EachDue:
				return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ThreadKey, b.ThreadKey))
			}
			return cmp.Or(cmp.Compare(a.Project, b.Project), a.CompareLanes(&b.Place), a.Compare(&b.Place))
		})
		switch each {
		case data.EachProject:
			rows = slices.CompactFunc(rows, func(a, b *placed) bool { return a.Project == b.Project })
		case data.EachLane:
			rows = slices.CompactFunc(rows, func(a, b *placed) bool { return a.SameLane(&b.Place) })
		}
		for _, p := range head(rows, limit) {
			places = append(places, p.Place)
		}
		return places
	})
}

// Take takes rows of the queue for a time, or gives them back: see [data.Queue].
func (s *Store) Take(ctx context.Context, threads []int64, hold time.Duration) ([]int64, error) {
	return read(ctx, s.Database, func() (taken []int64) {
		if s.beside == nil {
			return threads
		}
		now := s.clock()
		for _, thread := range threads {
			row := s.queue[thread]
			if hold == 0 {
				delete(s.took, thread)
			}
			if row == nil || hold > 0 && (row.Todo != data.ToClaim || row.isTaken(now)) {
				continue
			}
			next := *row
			if next.until = (time.Time{}); hold > 0 {
				if !row.until.IsZero() && !row.until.After(now) && s.checks.Overdue != nil {
					s.checks.Overdue(row.Place, row.by)
				}
				next.by, next.until = s.instance, now.Add(hold)
				s.took[thread], taken = true, append(taken, thread)
			}
			s.queue[thread] = &next
		}
		return taken
	})
}

// Position returns a thread's row in the queue, and its position among those of its user: see [data.Queue].
func (db *Database) Position(ctx context.Context, thread int64) (data.Place, int, error) {
	at := 0
	p, err := one(ctx, db, func() *data.Place {
		row := db.queue[thread]
		if row != nil && row.Todo == data.ToClaim {
			at = 1 + len(head(db.queue.sorted(func(p *placed) bool {
				return p.Todo == data.ToClaim && p.Project == row.Project && p.User == row.User && p.Compare(&row.Place) < 0
			}, func(a, b *placed) int { return a.Compare(&b.Place) }), 999))
		}
		if row == nil {
			return nil
		}
		return &row.Place
	})
	return p, at, err
}

// Backlog returns the work that waits: see [data.Queue].
func (db *Database) Backlog(ctx context.Context) (data.Backlog, error) {
	return read(ctx, db, func() (b data.Backlog) {
		for _, h := range db.runs {
			if h.Parked() {
				b.Parked++
			} else if h.Status == data.Waiting {
				b.Waiting++
			}
		}
		for _, p := range db.queue {
			if p.Todo == data.ToClaim && (b.Oldest.IsZero() || p.Since.Before(b.Oldest)) {
				b.Oldest = p.Since
			}
		}
		return b
	})
}
