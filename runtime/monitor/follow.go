package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// A follower finds the runs of its project in the database, each second and earlier after a change of the project's lists, and reads the
// logs of their threads, wherever they execute. A server that has no viewers reads nothing.

const (
	followEach   = 50 * time.Millisecond // between two readings of logs, and two searches for runs
	scanEach     = time.Second           // between two searches for runs without a change
	looksBack    = 5 * time.Second       // how late a commit may become visible
	mostFollowed = 1000                  // threads of a feed that are read at the same time
	mostKnown    = 10_000                // threads whose place a feed remembers
	scanPage     = 100                   // rows of a list that are read at once
	scanPages    = 10                    // of each list
)

// follower reads the logs of one feed.
type follower struct {
	f     *feed
	store data.Reader
	logs  *tail.Logs

	threads map[int64]*followed // of which a run executes, by key
	known   map[int64]known     // where the reading of others has ended
	opened  int                 // logs, since the beginning
	began   bool                // the first scan is done
	since   time.Time           // the latest activity of a thread that was seen, by the database's clock
}

// known is a place in a log that is not read now.
type known struct {
	last int64
	at   time.Time
}

// followed is a log that is read.
type followed struct {
	thread   int64
	user, id string
	number   int // of the logs that were opened, in their order
	cursor   *tail.Cursor
	run      *watched // of the latest record
	open     bool     // the run's span has not ended
}

func (fo *follower) run(ctx context.Context) {
	defer fo.close()
	watch := fo.f.m.Changes.Watch(fo.f.project, "", true)
	defer watch.Close()
	scanned := time.Now()
	err := fo.scan(ctx)
	close(fo.f.ready)
	for last := scanned; ctx.Err() == nil; last = time.Now() {
		pause := scanEach
		if len(fo.threads) > 0 {
			pause = followEach
		}
		if err != nil {
			pauseFor(ctx, scanEach) // readiness reports a database that is away
		}
		changed := fo.await(ctx, watch, pause)
		pauseFor(ctx, followEach-time.Since(last))
		if err = nil; changed || time.Since(scanned) >= scanEach {
			scanned, err = time.Now(), fo.scan(ctx)
		}
		err = errors.Join(err, fo.read(ctx))
	}
}

// await waits for a change of the project's lists. It reports false after d.
func (fo *follower) await(ctx context.Context, watch *Watch, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return watch.Next(ctx) == nil
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (fo *follower) close() {
	for _, fd := range fo.threads {
		fd.cursor.Close()
	}
}

// scan finds the threads with a run that executes, or that has ended since the last scan, and begins to read their logs.
func (fo *follower) scan(ctx context.Context) error {
	running, err := fo.running(ctx)
	if err != nil {
		return err
	}
	recent, err := fo.recent(ctx)
	if err != nil {
		return err
	}
	for i := range slices.Backward(recent) { // the run that was active first is shown first
		th := &recent[i]
		switch k, ok := fo.known[th.Key]; {
		case fo.threads[th.Key] != nil || ok && k.last >= th.LastEventID:
		case !fo.began:
			fo.known[th.Key] = known{th.LastEventID, time.Now()}
		default:
			err = errors.Join(err, fo.follow(ctx, &th.ThreadHead, nil))
		}
	}
	for i := range slices.Backward(running) {
		run := &running[i]
		if fo.threads[run.ThreadKey] != nil {
			continue
		}
		th := &data.ThreadHead{Key: run.ThreadKey, Project: run.Project, User: run.User, ID: run.ThreadID}
		if fo.began {
			err = errors.Join(err, fo.follow(ctx, th, run))
		} else {
			err = errors.Join(err, fo.join(ctx, th, run.Key))
		}
	}
	for _, fd := range fo.threads {
		err = errors.Join(err, fo.pauseWaiting(ctx, fd))
	}
	fo.began = fo.began || err == nil
	if len(fo.known) > mostKnown {
		for key, k := range fo.known {
			if time.Since(k.at) > 2*looksBack {
				delete(fo.known, key)
			}
		}
	}
	return err
}

// pauseWaiting pauses executions of a log that wait: beside others that execute, no event says so.
func (fo *follower) pauseWaiting(ctx context.Context, fd *followed) error {
	if fd.run == nil || len(fd.run.running) < 2 {
		return nil
	}
	steps, err := fo.store.ByProject().Steps(ctx, fo.f.project, fd.run.key, "", 0, scanPage*scanPages)
	if err != nil {
		return err
	}
	fo.f.update(func() {
		for i := range steps.Rows {
			if st := &steps.Rows[i]; st.Status == data.Waiting {
				fo.f.pause(fd.run, st.Name)
			}
		}
	})
	return nil
}

// running returns the RUNNING runs of the project.
func (fo *follower) running(ctx context.Context) (all []data.Run, err error) {
	q := data.RunFilter{Project: fo.f.project, Statuses: []data.Status{data.Running}, Limit: scanPage}
	for range scanPages {
		p, err := fo.store.ByProject().Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, p.Rows...); !p.More {
			break
		}
		q.BeforeKey = p.Rows[len(p.Rows)-1].Key
	}
	return all, nil
}

// recent returns the threads of the project that were active since the last call, or shortly before.
func (fo *follower) recent(ctx context.Context) (all []data.ListedThread, err error) {
	since, q := fo.since, data.ThreadFilter{Project: fo.f.project, Limit: scanPage}
	for n := range scanPages {
		if n == 0 {
			q.Limit = 10 // few have changed as a rule
		}
		p, err := fo.store.ByProject().Threads(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range p.Rows {
			if at := p.Rows[i].UpdatedAt; at.After(fo.since) {
				fo.since = at
			}
			if p.Rows[i].UpdatedAt.Before(cmpTime(since, fo.since).Add(-looksBack)) {
				return all, nil
			}
			all = append(all, p.Rows[i])
		}
		if !p.More || len(p.Rows) == 0 {
			break
		}
		last := &p.Rows[len(p.Rows)-1]
		q.BeforeTime, q.BeforeKey, q.Limit = last.UpdatedAt, last.Key, scanPage
	}
	return all, nil
}

// cmpTime returns t, or otherwise if t is zero.
func cmpTime(t, otherwise time.Time) time.Time {
	if t.IsZero() {
		return otherwise
	}
	return t
}

// join begins to read the log of a run that executes already, from now on.
func (fo *follower) join(ctx context.Context, th *data.ThreadHead, key int64) error {
	fd, err := fo.open(ctx, th, tail.Latest)
	if err != nil || fd == nil {
		return err
	}
	run, err := fo.store.Run(ctx, key) // what has changed behind the cursor is read again
	if errors.Is(err, data.ErrNotFound) {
		return nil
	}
	if err != nil || run.Status != data.Running && !run.Unowned() {
		return err
	}
	fd.run, fd.open = watch(&run, cmp.Or(run.SpanName, run.ID), fd.id), true
	steps, err := fo.store.ByProject().Steps(ctx, run.Project, key, "", 0, scanPage*scanPages)
	if err != nil {
		return err
	}
	memos, err := fo.store.Memos(ctx, key, run.Generation)
	if err != nil {
		return err
	}
	var began []execution
	for i := range steps.Rows {
		st := &steps.Rows[i]
		fd.run.ended[st.Number] = st.Status.Final()
		if agent := fd.run.workers[st.NodeID]; agent != "" && st.Status == data.Running {
			began = append(began, execution{st.Name, agent, st.StartedAt})
		}
	}
	for i := range memos {
		if c := &memos[i]; c.Agent != "" && c.CallID != "" && !c.Done {
			began = append(began, execution{c.CallID, c.Agent, fd.run.began})
		}
	}
	fo.f.update(func() {
		for _, x := range began {
			fo.f.begin(fd.run, x.id, x.agent, x.began)
		}
	})
	return nil
}

// follow begins to read a log where the reading has ended before, otherwise from the first span that is new. run executes; it may be nil.
func (fo *follower) follow(ctx context.Context, th *data.ThreadHead, run *data.Run) error {
	if k, ok := fo.known[th.Key]; ok {
		_, err := fo.open(ctx, th, k.last)
		return err
	}
	created, err := fo.store.ByProject().Runs(ctx, data.RunFilter{
		Project: th.Project, ThreadKey: th.Key, Since: fo.since.Add(-looksBack), Oldest: true, Limit: 1,
	})
	if err != nil {
		return err
	}
	span := 0 // of a new run all are new
	if len(created.Rows) > 0 {
		run = &created.Rows[0]
	} else if span = -1; run == nil {
		last, err := fo.store.LastRun(ctx, th.Key)
		if err != nil {
			return unlessGone(err)
		}
		run = &last
	}
	spans, err := fo.store.Spans(ctx, run.Key)
	if err != nil || len(spans) == 0 {
		return unlessGone(err)
	}
	if span < 0 {
		span = len(spans) - 1
	}
	_, err = fo.open(ctx, th, spans[span].First-1)
	return err
}

// unlessGone returns err, unless it says that something was deleted.
func unlessGone(err error) error {
	if errors.Is(err, data.ErrNotFound) {
		return nil
	}
	return err
}

// open opens the log behind an event. It returns nil if there is no room or no such thread.
func (fo *follower) open(ctx context.Context, th *data.ThreadHead, after int64) (*followed, error) {
	if len(fo.threads) >= mostFollowed {
		return nil, nil
	}
	cursor, err := fo.logs.Read(ctx, quota.Owner{}, th.Key, th.ID, after, true)
	if _, refused := errors.AsType[*data.Error](err); refused || errors.Is(err, data.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	fo.opened++
	fd := &followed{thread: th.Key, user: th.User, id: th.ID, number: fo.opened, cursor: cursor}
	fo.threads[th.Key] = fd
	return fd, nil
}

// read shows what the logs have, and closes those whose run has ended.
func (fo *follower) read(ctx context.Context) error {
	var errs []error
	byOpening := func(a, b *followed) int { return a.number - b.number }
	for _, fd := range slices.SortedFunc(maps.Values(fo.threads), byOpening) {
		err := fo.readLog(ctx, fd)
		switch {
		case errors.Is(err, io.EOF): // the thread was deleted
			fo.f.m.Forget(fo.f.project, fd.user, fd.id, 0)
			if fd.run != nil {
				fo.f.update(func() { fo.f.leave(fd.run) })
			}
			fd.open = false
		case err != nil:
			errs = append(errs, err)
			continue
		}
		if !fd.open && (err != nil || fd.cursor.Waits()) {
			fo.known[fd.thread] = known{fd.cursor.After(), time.Now()}
			fd.cursor.Close()
			delete(fo.threads, fd.thread)
		}
	}
	return errors.Join(errs...)
}

// pagesAtOnce is how many pages of a log are read before it is another one's turn.
const pagesAtOnce = 8

func (fo *follower) readLog(ctx context.Context, fd *followed) error {
	for range pagesAtOnce {
		if fd.cursor.Waits() {
			return nil
		}
		recs, err := fd.cursor.Next(ctx)
		if err != nil {
			return err
		}
		for len(recs) > 0 {
			n := 1
			for n < len(recs) && recs[n].RunKey == recs[0].RunKey && !recs[n-1].Terminal() {
				n++
			}
			if err := fo.showRun(ctx, fd, slices.Clone(recs[:n])); err != nil {
				return err
			}
			recs = recs[n:]
		}
	}
	return nil
}

// showRun shows records of one span.
func (fo *follower) showRun(ctx context.Context, fd *followed, recs []*tail.Record) error {
	key := recs[0].RunKey
	if key == 0 {
		return nil // in place of events that were removed
	}
	if fd.run == nil || fd.run.key != key || !fd.open {
		row, err := fo.store.Run(ctx, key)
		if err != nil {
			return unlessGone(err)
		}
		run := watch(&row, recs[0].Event.Common().RunID, fd.id)
		if fd.run != nil && fd.run.key == key {
			run.ended = fd.run.ended
		}
		fd.run = run
	}
	if start, begins := recs[0].Event.(agui.RunStarted); begins {
		fd.run.began = timeOf(start)
	}
	ends, err := fo.endsIn(ctx, fd.run, recs)
	if err != nil {
		return err
	}
	fd.open = !recs[len(recs)-1].Terminal()
	fo.f.update(func() { fo.f.show(fd.run, recs, ends) })
	return nil
}

// endsIn reads how executions have ended, as far as records of their ends do not say it.
func (fo *follower) endsIn(ctx context.Context, run *watched, recs []*tail.Record) (ends, error) {
	e := ends{closers: len(recs)}
	if slices.ContainsFunc(recs, func(rec *tail.Record) bool { return rec.Event.Type() == agui.TypeStepFinished }) {
		p, err := fo.store.ByProject().Steps(ctx, fo.f.project, run.key, "", 0, scanPage*scanPages)
		if err != nil {
			return e, err
		}
		e.steps = p.Rows
	}
	if last := recs[len(recs)-1]; last.Terminal() {
		e.failure = failureOf(last.Event)
	}
	if e.failure == "" {
		return e, nil
	}
	for e.closers--; e.closers > 0 && closes(recs[e.closers-1].Event); {
		e.closers--
	}
	memos, err := fo.store.Memos(ctx, run.key, run.generation)
	if err != nil {
		return e, err
	}
	e.returned = make(map[string]bool)
	for i := range memos {
		e.returned[memos[i].CallID] = memos[i].Done
	}
	return e, nil
}

// watch returns a run whose events name it so.
func watch(run *data.Run, runID, threadID string) *watched {
	w := &watched{
		key: run.Key, generation: run.Generation, user: run.User, agent: run.WorkflowID, workers: make(map[string]string), ended: make(map[int]bool),
		runID: runID, threadID: threadID, began: time.Now(),
	}
	var workflow struct{ Nodes []struct{ ID, Agent string } }
	if run.Agent != "" {
		w.workers[run.Agent] = run.Agent
	} else {
		_ = json.Unmarshal(run.Definition, &workflow) // a run of which it cannot be read has failed
	}
	for _, n := range workflow.Nodes {
		w.workers[n.ID] = n.Agent
	}
	return w
}
