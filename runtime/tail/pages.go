package tail

import (
	"context"
	"slices"
)

// EventQuery selects a page of a run's events.
type EventQuery struct {
	Thread int64
	ID     string // the user's name for the thread
	Run    int64
	After  int64 // the page begins behind this event
	Before int64 // of RunEventsBefore: the page ends before this event, 0 for the end of the log
	Limit  int
	Admit  func(*Record) bool
	Most   int // events examined at most; 0 for no limit
}

// RunEvents returns up to q.Limit admitted events of a run, fewer if they are large, and the event behind which the
// next page begins, 0 if there is none. It refuses a cursor beyond the log's end.
func (l *Logs) RunEvents(ctx context.Context, q EventQuery) (recs []*Record, next int64, err error) {
	store := l.cfg.Store
	after, err := l.checkCursor(ctx, q.Thread, q.After)
	if err != nil {
		return nil, 0, err
	}
	spans, err := store.Spans(ctx, q.Run)
	if err != nil {
		return nil, 0, err
	}
	size, looked := 0, 0
	at := after // may lie in a later span
	for i := range spans {
		for at = max(at, spans[i].First-1); spans[i].Last == 0 || at < spans[i].Last; {
			evs, err := store.Events(ctx, q.Thread, at, min(page, max(q.Limit+1-len(recs), 64)))
			if err != nil {
				return nil, 0, err
			}
			for j := range evs {
				if looked++; q.Most > 0 && looked > q.Most {
					return recs, at, nil
				}
				if at = evs[j].ID; evs[j].RunKey != q.Run {
					continue
				}
				rec, err := decode(&evs[j], q.ID)
				if err != nil {
					return nil, 0, err
				}
				if !q.Admit(rec) {
					continue
				}
				if len(recs) == q.Limit || size >= l.cfg.EventBytes {
					return recs, recs[len(recs)-1].ID, nil
				}
				recs = append(recs, rec)
				size += len(evs[j].Payload)
			}
			if len(evs) == 0 {
				break
			}
		}
	}
	return recs, 0, nil
}

// RunEventsBefore returns up to q.Limit admitted events of a run that end before q.Before, fewer if they are large,
// oldest first. prev is the end of the previous page, 0 if there is none.
func (l *Logs) RunEventsBefore(ctx context.Context, q EventQuery) (recs []*Record, prev int64, err error) {
	end, err := l.checkCursor(ctx, q.Thread, max(q.Before-1, 0))
	if err != nil {
		return nil, 0, err
	}
	if q.Before == 0 {
		if end, err = l.cfg.Store.LastEventID(ctx, q.Thread); err != nil {
			return nil, 0, err
		}
	}
	spans, err := l.cfg.Store.Spans(ctx, q.Run)
	if err != nil {
		return nil, 0, err
	}
	size, looked := 0, 0
	for _, span := range slices.Backward(spans) {
		to := end
		if span.Last != 0 {
			to = min(to, span.Last)
		}
		for to >= span.First {
			if q.Most > 0 && looked >= q.Most {
				slices.Reverse(recs)
				return recs, to + 1, nil
			}
			from := max(span.First, to-page/2+1)
			some, err := l.between(ctx, q, from, to)
			if err != nil {
				return nil, 0, err
			}
			looked += int(to - from + 1)
			for _, rec := range slices.Backward(some) {
				if len(recs) == q.Limit || len(recs) > 0 && size+rec.size > l.cfg.EventBytes {
					last := recs[len(recs)-1].ID
					slices.Reverse(recs)
					return recs, last, nil
				}
				recs = append(recs, rec)
				size += rec.size
			}
			to = from - 1
		}
	}
	slices.Reverse(recs)
	return recs, 0, nil
}

// between returns the admitted events of a run in a range of ids. It bounds memory by dropping the first ones when
// there are more than two pages of bytes.
func (l *Logs) between(ctx context.Context, q EventQuery, from, to int64) (recs []*Record, err error) {
	size := 0
	for at := from - 1; at < to; {
		evs, err := l.cfg.Store.Events(ctx, q.Thread, at, int(to-at))
		if err != nil || len(evs) == 0 {
			return recs, err
		}
		for i := range evs {
			if at = evs[i].ID; at > to {
				return recs, nil
			}
			if evs[i].RunKey != q.Run {
				continue
			}
			rec, err := decode(&evs[i], q.ID)
			if err != nil {
				return nil, err
			}
			if !q.Admit(rec) {
				continue
			}
			recs = append(recs, rec)
			for size += rec.size; size > 2*l.cfg.EventBytes && len(recs) > 2; recs = recs[1:] {
				size -= recs[0].size
			}
		}
	}
	return recs, nil
}
