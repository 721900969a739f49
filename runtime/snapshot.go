package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// Snapshot is a thread as of one of its events: what a viewer needs who reads on behind it.
type Snapshot struct {
	After    int64           // the id of that event, which is stored; 0 for an empty log
	Run      *Run            // the RUNNING or WAITING run, else the latest that wrote; nil when the thread has had none
	RunID    string          // the name Run has in its latest span
	Running  bool            // a span of Run is open
	State    json.RawMessage // an object
	Messages []agui.Message  // those that are open as they are so far; the newest that fit 8 MB
	Open     []agui.Event    // events that open again what is open, outermost first; none unless Running
	Outcome  agui.Outcome    // what Run waits for, zero unless it is WAITING
}

// Snapshot returns the thread as it is now. While a run is at work it waits for what that run has emitted so
// far to be stored.
func (rt *Runtime) Snapshot(ctx context.Context, th Thread) (Snapshot, error) {
	t := rt.hold(th.Key, th.ID)
	defer rt.release(t)
	for {
		if err := rt.learn(ctx, t); err != nil {
			return Snapshot{}, unavailable(err)
		}
		changed := t.changed()
		if l := rt.liveOn(th.Key); l != nil {
			s, err := l.snapshot(ctx)
			if !errors.Is(err, errSettled) {
				return s, unavailable(err)
			}
		} else {
			s, err := rt.settled(ctx, th.Key)
			if !errors.Is(err, errSettled) {
				return s, unavailable(threadGone(err))
			}
		}
		if err := rt.await(ctx, changed); err != nil {
			return Snapshot{}, err
		}
	}
}

// await waits for a thread's next change. It refuses while the database does not commit: there is none.
func (rt *Runtime) await(ctx context.Context, changed <-chan struct{}) error {
	if err := rt.com.trouble.Load(); err != nil {
		return unavailable(*err)
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-rt.abandoned.Done(): // a run that was released ends its span at the next start
		return ErrStopping
	}
}

// changed returns a channel that is closed with the next commit of the thread.
func (t *thread) changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// liveOn returns the run that this instance executes on the thread, nil when there is none.
func (rt *Runtime) liveOn(threadKey int64) *live {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, l := range rt.live {
		if l.t.key == threadKey {
			return l
		}
	}
	return nil
}

// snapshot is the thread as the run has left it so far. It fails with errSettled when the run's span ends
// meanwhile.
func (l *live) snapshot(ctx context.Context) (Snapshot, error) {
	l.mu.Lock()
	if l.gate != nil {
		l.mu.Unlock()
		return Snapshot{}, errSettled
	}
	run := l.run
	s := Snapshot{After: l.w.last, Run: &run, RunID: l.w.runID, Running: true, State: l.state(), Open: l.w.fold.Open()}
	folded := l.w.fold.Messages()
	var partial []Message
	for _, m := range folded {
		if row := l.w.messages[m.ID]; row != nil && row.EventID == 0 {
			partial = append(partial, Message{Seq: row.Seq, Message: m})
		}
	}
	l.mu.Unlock()

	if err := l.stored(ctx, s.After); err != nil {
		return Snapshot{}, err
	}
	rows, err := l.rt.store.Messages(ctx, l.t.key, s.After, promptMessages)
	if err != nil {
		return Snapshot{}, err
	}
	s.Messages = newest(asOf(rows, folded, partial))
	return s, nil
}

// asOf is rows as they were when the log folded to folded: later events may have changed them since. Those of
// folded that had no row then are partial.
func asOf(rows []Message, folded []agui.Message, partial []Message) []agui.Message {
	then := make(map[string]agui.Message, len(folded))
	for _, m := range folded {
		then[m.ID] = m
	}
	for i := range rows {
		if m, ok := then[rows[i].ID]; ok {
			rows[i].Message = m
		}
	}
	rows = append(rows, partial...)
	slices.SortStableFunc(rows, func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return contents(rows)
}

// stored waits until the run's event of that id is stored.
func (l *live) stored(ctx context.Context, id int64) error {
	for {
		changed := l.t.changed()
		l.t.mu.Lock()
		committed := l.t.committed
		l.t.mu.Unlock()
		if committed >= id {
			return nil
		}
		if l.lost.Load() || l.rt.liveRun(l.run.Key) != l {
			return errSettled
		}
		if err := l.rt.await(ctx, changed); err != nil {
			return err
		}
	}
}

// settled is a thread on which no span is open. It fails with errSettled when one is, or was opened meanwhile.
func (rt *Runtime) settled(ctx context.Context, threadKey int64) (Snapshot, error) {
	th, err := rt.store.Thread(ctx, threadKey)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{After: th.LastEventID, State: th.State}
	if s.Run, s.RunID, err = rt.shownRun(ctx, threadKey, s.After); err != nil {
		return s, err
	}
	if s.Run != nil && s.Run.Status == Waiting {
		if s.Outcome, err = waitingOutcome(ctx, rt.store, s.Run.Key); err != nil {
			return s, err
		}
	}
	rows, err := rt.store.Messages(ctx, threadKey, s.After, promptMessages)
	if err != nil {
		return s, err
	}
	s.Messages = newest(contents(rows))
	last, err := rt.store.LastEventID(ctx, threadKey)
	if err == nil && last != s.After {
		err = errSettled
	}
	return s, err
}

// shownRun is the run that stands for a thread on which none is running, and the name of its latest span.
func (rt *Runtime) shownRun(ctx context.Context, threadKey, last int64) (*Run, string, error) {
	open, err := rt.store.OpenRuns(ctx, threadKey)
	if err != nil {
		return nil, "", err
	}
	var key int64
	name := ""
	if i := slices.IndexFunc(open, func(r RunHead) bool { return r.Status == Waiting }); i >= 0 {
		run, err := rt.store.Run(ctx, open[i].Key)
		if err != nil {
			return nil, "", err
		}
		spans, err := rt.store.Spans(ctx, run.Key)
		if err != nil || len(spans) == 0 {
			return &run, run.ID, err
		}
		return &run, spans[len(spans)-1].RunID, nil
	}
	evs, err := rt.store.Events(ctx, threadKey, max(last-1, 0), 1)
	if err != nil {
		return nil, "", err
	}
	if len(evs) > 0 {
		key, name = evs[0].RunKey, evs[0].RunID
	}
	run, err := rt.store.Run(ctx, key)
	if errors.Is(err, ErrNotFound) { // its events were removed
		run, err = rt.store.LastRun(ctx, threadKey)
		name = run.ID
	}
	if errors.Is(err, ErrNotFound) {
		return nil, "", nil
	}
	return &run, name, err
}

// RunSnapshot is a thread as of the last event of a run's latest span, or as it is now while the run is at work.
type RunSnapshot struct {
	Snapshot
	Started *Record // the span's RUN_STARTED; nil when the run has none, or it was removed
	Ended   *Record // its terminal event; nil while the run is at work, or when it was removed
}

// RunSnapshot returns the thread as the run's latest span left it. Of a run that has not started yet it
// returns one without anything.
func (rt *Runtime) RunSnapshot(ctx context.Context, th Thread, run Run) (RunSnapshot, error) {
	t := rt.hold(th.Key, th.ID)
	defer rt.release(t)
	for {
		if err := rt.learn(ctx, t); err != nil {
			return RunSnapshot{}, unavailable(err)
		}
		changed := t.changed()
		s, err := rt.runSnapshot(ctx, t, &run)
		if !errors.Is(err, errSettled) {
			return s, unavailable(err)
		}
		if err := rt.await(ctx, changed); err != nil {
			return RunSnapshot{}, err
		}
	}
}

func (rt *Runtime) runSnapshot(ctx context.Context, t *thread, run *Run) (RunSnapshot, error) {
	s := RunSnapshot{Snapshot: Snapshot{Run: run, RunID: run.ID}}
	spans, err := rt.store.Spans(ctx, run.Key)
	if err != nil || len(spans) == 0 {
		return s, err
	}
	span := &spans[len(spans)-1]
	if span.Last == 0 {
		l := rt.liveRun(run.Key)
		if l == nil {
			return s, errSettled
		}
		if s.Snapshot, err = l.snapshot(ctx); err != nil {
			return s, err
		}
	} else {
		s.After, s.RunID = span.Last, span.RunID
		if s.State, s.Messages, err = rt.snapshotAt(ctx, t.key, span.Last); err != nil {
			return s, err
		}
		if s.Ended, err = rt.record(ctx, t, span.Last); err != nil {
			return s, err
		}
	}
	s.Started, err = rt.record(ctx, t, span.First)
	return s, err
}

// record reads one event, nil when it was removed.
func (rt *Runtime) record(ctx context.Context, t *thread, id int64) (*Record, error) {
	evs, err := rt.store.Events(ctx, t.key, id-1, 1)
	if err != nil || len(evs) == 0 || evs[0].ID != id {
		return nil, err
	}
	return t.decode(&evs[0])
}

// RunEvents returns up to limit of the run's events behind the one with the id after, those that admit holds
// true for, fewer when they are large, and whether another such event is stored behind them. It fails for a cursor
// beyond the end of the thread's log.
func (rt *Runtime) RunEvents(ctx context.Context, th Thread, run Run, after int64, limit int, admit func(*Record) bool) (recs []*Record, more bool, err error) {
	t := rt.hold(th.Key, th.ID)
	defer rt.release(t)
	if after, err = rt.place(ctx, th.Key, after); err != nil {
		return nil, false, err
	}
	spans, err := rt.store.Spans(ctx, run.Key)
	if err != nil {
		return nil, false, unavailable(err)
	}
	size := 0
	at := after // a page may reach into the next span
	for i := range spans {
		for at = max(at, spans[i].First-1); spans[i].Last == 0 || at < spans[i].Last; {
			evs, err := rt.store.Events(ctx, th.Key, at, min(page, max(limit+1-len(recs), 64)))
			if err != nil {
				return nil, false, unavailable(err)
			}
			for j := range evs {
				if at = evs[j].ID; evs[j].RunKey != run.Key {
					continue
				}
				rec, err := t.decode(&evs[j])
				if err != nil {
					return nil, false, err
				}
				if !admit(rec) {
					continue
				}
				if len(recs) == limit || size >= maxEvent {
					return recs, true, nil
				}
				recs = append(recs, rec)
				size += len(evs[j].Payload)
			}
			if len(evs) == 0 {
				break
			}
		}
	}
	return recs, false, nil
}
