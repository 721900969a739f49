package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// Beside other instances, a feed is not what this one commits: it is read from the logs of all runs, wherever they execute, while the feed
// has a ring. A follower finds the runs of its project in the database, each second and earlier after a change of the project's lists,
// and reads the logs of their threads. A server that has no viewers reads nothing.

const (
	followEach   = 50 * time.Millisecond // between two readings of logs, and two searches for runs
	scanEach     = time.Second           // between two searches for runs without a change
	looksBack    = 5 * time.Second       // how late a commit may become visible
	mostFollowed = 1000                  // threads of a feed that are read at the same time
	mostKnown    = 10_000                // threads whose place a feed remembers
	scanPage     = 100                   // rows of a list that are read at once
	scanPages    = 10                    // of each list
)

// source is what followers read.
type source struct {
	store data.Reader
	logs  *tail.Logs

	ended     context.Context // done with Close
	end       context.CancelFunc
	following sync.WaitGroup
}

// Share makes the feeds show also the runs of other instances, as they are in the database. Call it before Open, and Close at the end.
// Observe must not be called then.
func (m *Feeds) Share(store data.Reader, logs *tail.Logs) {
	m.source = &source{store: store, logs: logs}
	m.source.ended, m.source.end = context.WithCancel(context.Background())
}

// Close ends the reading of logs. Feeds that are opened later show nothing.
func (m *Feeds) Close() {
	if m.source == nil {
		return
	}
	m.mu.Lock()
	m.source.end()
	m.mu.Unlock()
	m.source.following.Wait()
}

// begin starts to read the logs of a feed, and sets ready, which is closed once the states of agents are known. The caller holds m.mu
// and f.mu.
func (m *Feeds) begin(f *feed) {
	if m.source == nil || m.source.ended.Err() != nil {
		return
	}
	f.ready = make(chan struct{})
	fo := &follower{m: m, source: m.source, f: f, threads: make(map[int64]*followed), known: make(map[int64]known)}
	m.source.following.Go(func() { fo.run(m.source.ended) }) // ends when the ring is closed, or with Close
}

// follower reads the logs of one feed.
type follower struct {
	m *Feeds
	*source
	f *feed

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
	run      *Run              // of the latest record
	workers  map[string]string // the agents of its nodes; nil for a run of a single agent
	steps    map[int]bool      // numbers of its steps whose ends were shown
	open     bool              // the run's span has not ended
}

func (fo *follower) run(ctx context.Context) {
	defer fo.close()
	watch := fo.m.Changes.Watch(fo.f.project, "", true)
	defer watch.Close()
	err := fo.scan(ctx)
	close(fo.f.ready)
	for scanned := time.Now(); ctx.Err() == nil && fo.isShown(); {
		pause := scanEach
		if len(fo.threads) > 0 {
			pause = followEach
		}
		changed := err == nil && fo.await(ctx, watch, pause)
		if changed || time.Since(scanned) >= scanEach {
			pauseFor(ctx, followEach) // changes come together
			scanned, err = time.Now(), fo.scan(ctx)
		}
		err = errors.Join(err, fo.read(ctx))
		if err != nil {
			pauseFor(ctx, scanEach) // readiness reports a database that is away
			err = nil
		}
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

func (fo *follower) isShown() bool {
	fo.f.mu.RLock()
	defer fo.f.mu.RUnlock()
	return fo.f.ring != nil
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

// running returns the RUNNING runs of the project.
func (fo *follower) running(ctx context.Context) (all []data.Run, err error) {
	q := data.RunFilter{Project: fo.f.project, Statuses: []data.Status{data.Running}, Limit: scanPage}
	for range scanPages {
		p, err := fo.store.Runs(ctx, q)
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
		p, err := fo.store.Threads(ctx, q)
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
	if err != nil || run.Status != data.Running {
		return err
	}
	fd.begins(&run)
	steps, err := fo.store.Steps(ctx, run.Project, key, 0, scanPage*scanPages)
	if err != nil {
		return err
	}
	memos, err := fo.store.Memos(ctx, key, run.Generation)
	if err != nil {
		return err
	}
	var began []Execution
	for i := range steps.Rows {
		st := &steps.Rows[i]
		fd.steps[st.Number] = st.Status.Final()
		if agent := fd.agentOf(st.Name); agent != "" && st.Status == data.Running {
			began = append(began, Execution{ID: st.Name, Agent: agent, began: st.StartedAt})
		}
	}
	for i := range memos {
		if c := &memos[i]; c.Agent != "" && c.CallID != "" && !c.Done {
			began = append(began, Execution{ID: c.CallID, Agent: c.Agent})
		}
	}
	fo.show(&Item{Run: fd.run, Takes: true, Began: began})
	return nil
}

// follow begins to read a log where the reading has ended before, otherwise from the first span that is new. run executes; it may be nil.
func (fo *follower) follow(ctx context.Context, th *data.ThreadHead, run *data.Run) error {
	if k, ok := fo.known[th.Key]; ok {
		_, err := fo.open(ctx, th, k.last)
		return err
	}
	created, err := fo.store.Runs(ctx, data.RunFilter{
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
			fo.m.Forget(fo.f.project, fd.user, fd.id, 0)
			if fd.run != nil {
				fo.show(&Item{Run: fd.run, Leaves: true})
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
	if fd.run == nil || fd.run.Key != key {
		run, err := fo.store.Run(ctx, key)
		if err != nil {
			return unlessGone(err)
		}
		fd.begins(&run)
	}
	ticks, err := fo.ticks(ctx, fd, recs)
	if err != nil {
		return err
	}
	fd.open = !recs[len(recs)-1].Terminal()
	end := len(recs)
	if !fd.open {
		for end--; end > 0 && closes(recs[end-1].Event); end-- { // the run's end closes what is open
		}
	}
	at := slices.IndexFunc(ticks, func(t Tick) bool { return t.At > end })
	if at < 0 {
		at = len(ticks)
	}
	fo.show(&Item{Run: fd.run, Records: recs[:end], Ticks: ticks[:at]})
	for i := range ticks[at:] {
		ticks[at+i].At -= end
	}
	if !fd.open {
		fo.show(&Item{Run: fd.run, Records: recs[end:], Ticks: ticks[at:], Leaves: true})
	}
	return nil
}

// closes reports whether an event closes something, as those do that precede the end of a run.
func closes(ev agui.Event) bool {
	switch ev.(type) {
	case agui.TextMessageEnd, agui.ToolCallEnd, agui.ToolCallResult, agui.StepFinished, agui.SubagentFinished, agui.SubagentError,
		agui.ReasoningMessageEnd, agui.ReasoningEnd:
		return true
	}
	return false
}

// begins makes run the one whose records follow.
func (fd *followed) begins(run *data.Run) {
	fd.run = &Run{Key: run.Key, Project: run.Project, User: run.User, ID: run.ID, ThreadID: fd.id, Agent: run.WorkflowID}
	fd.workers, fd.steps, fd.open = nil, make(map[int]bool), true
	if run.Agent != "" {
		return
	}
	var workflow struct{ Nodes []struct{ ID, Agent string } }
	_ = json.Unmarshal(run.Definition, &workflow) // a run of which it cannot be read has failed
	fd.workers = make(map[string]string)
	for _, n := range workflow.Nodes {
		fd.workers[n.ID] = n.Agent
	}
}

// agentOf returns the agent that executes a step, "" for a tool.
func (fd *followed) agentOf(step string) string {
	if fd.workers == nil {
		return fd.run.Agent
	}
	node, _, _ := strings.Cut(step, "#") // the number of a second execution at the same time
	return fd.workers[node]
}

// ticks returns the changes of executions between the records. The log has their times; why a step has ended is in its row.
func (fo *follower) ticks(ctx context.Context, fd *followed, recs []*tail.Record) ([]Tick, error) {
	var ticks []Tick
	var rows []data.Step
	for i, rec := range recs {
		switch ev := rec.Event.(type) {
		case agui.StepStarted:
			if agent := fd.agentOf(ev.StepName); agent != "" {
				ticks = append(ticks, Tick{At: i, Step: ev.StepName, Agent: agent, When: timeOf(ev.Base), Status: data.Running})
			}
		case agui.StepFinished:
			if fd.agentOf(ev.StepName) == "" {
				continue
			}
			if rows == nil {
				p, err := fo.store.Steps(ctx, fd.run.Project, fd.run.Key, 0, scanPage*scanPages)
				if err != nil {
					return nil, err
				}
				rows = p.Rows
			}
			if t := fd.end(rows, &ev); t.Status != data.Cancelled { // the end of the run ends it
				t.At = i + 1
				ticks = append(ticks, t)
			}
		}
	}
	return ticks, nil
}

// end returns how the step that an event finishes has ended.
func (fd *followed) end(rows []data.Step, ev *agui.StepFinished) Tick {
	at := slices.IndexFunc(rows, func(st data.Step) bool { return st.Name == ev.StepName && !fd.steps[st.Number] })
	t := Tick{Step: ev.StepName, When: timeOf(ev.Base), Status: data.Completed}
	switch {
	case at < 0:
	case rows[at].CompletedAt == nil || rows[at].CompletedAt.After(t.When.Add(time.Millisecond)): // it has gone on since
		t.Status = data.Waiting
	default:
		fd.steps[rows[at].Number] = true
		t.Status, t.Err = rows[at].Status, rows[at].Error
	}
	if t.Status == data.Failed && t.Err == nil {
		t.Err = &agui.OutputError{}
	}
	return t
}

func timeOf(b agui.Base) time.Time { return time.UnixMilli(b.Timestamp) }

// show adds a part of a log to the ring, unless it was closed.
func (fo *follower) show(it *Item) {
	fo.f.mu.Lock()
	defer fo.f.mu.Unlock()
	if fo.f.ring != nil {
		it.Run.feed = nil
		fo.f.show(it)
	}
}
