package sim

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// readers follow the threads of a history.
type readers struct {
	*servers

	mu        sync.Mutex // guards the fields below
	readings  []*reading
	snapshots []snapshot
}

// snapshot is a thread as a server has shown it.
type snapshot struct {
	by   string
	conv string // conversation id of the thread
	runtime.Snapshot
}

// snapshot takes a snapshot of a thread. It must not wait for the end of a run.
func (r *readers) snapshot(p *process, s *Step) {
	caller, name := place(s.Thread)
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	th, err := p.rt.Threads.Get(ctx, caller, name)
	if err != nil {
		return
	}
	shot, err := p.rt.Logs.Snapshot(ctx, th)
	if ctx.Err() != nil && p.ctx.Err() == nil && !p.fenced() {
		r.find(RuleSnapshot, "%s has no snapshot of %s after a minute", p, name)
	}
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.snapshots = append(r.snapshots, snapshot{p.String(), th.ConversationID, shot})
}

// reading is one reader's events, in order.
type reading struct {
	what    string
	conv    string // conversation id of the thread
	after   int64  // start of the reader
	follows bool   // until the history ends
	got     int64  // the last event, of one that follows
	client  client // of a run
	shown   []shown
}

// client is the client of a run, which reads its span.
type client struct {
	run   string // empty for another reader, and for a client that was cut off
	of    *process
	since time.Time
	ended time.Time // zero while it reads
}

// shown is an event as a reader got it. Id 0 is a frame that is not in the log.
type shown struct {
	id   int64
	run  string
	json string
}

func (r *readers) show(p *process, rd *reading, recs []*runtime.Record) {
	var more []shown
	ids := idsOf(recs)
	for i, rec := range recs {
		if run := rec.Event.Common().RunID; ids[i] != 0 && !isReset(rec.Event) && p.shows() && r.isGone(run) {
			r.find(RuleGone, "%s was shown event %d of run %s by %s, long after that was deleted", rd.what, ids[i], short(run), p)
		}
		more = append(more, shown{ids[i], rec.Event.Common().RunID, string(rec.JSON(agui.Stored))})
	}
	r.mu.Lock()
	rd.shown = append(rd.shown, more...)
	r.mu.Unlock()
}

// idsOf returns the ids of recs. Readers get three records for removed events, of which only the last has an id; here
// the first, the log-reset, has it.
func idsOf(recs []*runtime.Record) []int64 {
	ids := make([]int64, len(recs))
	for i, rec := range recs {
		if ids[i] = rec.ID; i >= 2 && isReset(recs[i-2].Event) {
			ids[i-2], ids[i] = rec.ID, 0
		}
	}
	return ids
}

// soon is how long after a change all servers show it.
const soon = 3 * time.Second

// shows reports whether the process shows soon what the others have written.
func (p *process) shows() bool {
	late := slices.ContainsFunc(p.w.h.Faults, func(f Fault) bool { return f.Read > 0 })
	return !late && !p.stood.Load() && !p.dead.Load() && !p.leaves.Load() && !p.fenced()
}

// shots returns the snapshots so far.
func (r *readers) shots() []snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.snapshots)
}

// soFar returns the readers' events so far.
func (r *readers) soFar() (all []reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rd := range r.readings {
		all = append(all, *rd)
	}
	return all
}

// move records how far a reader has come.
func (r *readers) move(rd *reading, follows bool, got int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rd.follows, rd.got = follows, got
}

func (r *readers) newReading(what, conv string, after int64) *reading {
	rd := &reading{what: what, conv: conv, after: after}
	r.mu.Lock()
	r.readings = append(r.readings, rd)
	r.mu.Unlock()
	return rd
}

// stays as a part of a reader's choice has it stay at its server.
const stays = 8

// follow reads a thread until the history ends, and resumes behind its last id whenever its server stops.
func (r *readers) follow(s *Step) {
	caller, name := place(s.Thread)
	choice := s.Choice
	var rd *reading
	after := int64(0)
	for r.ctx.Err() == nil {
		p := r.server("reader", s.N)
		if p == nil {
			return
		}
		th, err := p.rt.Threads.Get(p.ctx, caller, name)
		if rd != nil && err == nil && th.ConversationID != rd.conv {
			return // the name belongs to another thread now
		}
		if err == nil && rd == nil {
			if choice%8 == 7 {
				after = runtime.Latest
			} else {
				after = th.LastEventID * int64(choice%8) / 8
			}
		}
		if err == nil {
			err = r.readOn(p, s, th, &rd, &after)
		}
		if rd != nil && isNotFound(err) && !r.h.Does(doClear, doWipe) {
			r.find(RuleKept, "%s is told that the thread is not there: %v", rd.what, err)
		}
		if errors.Is(err, io.EOF) || rd != nil && isNotFound(err) {
			return
		}
		r.nap("reader", s.N)
		if rd == nil {
			r.sleep(100 * time.Millisecond) // the thread does not exist yet
		}
	}
}

func (r *readers) readOn(p *process, s *Step, th runtime.Thread, rd **reading, after *int64) error {
	follow := !r.several() || s.Choice%2 == 0
	since := time.Now()
	cur, err := p.rt.Logs.Read(p.ctx, th, *after, follow)
	if err != nil {
		return err
	}
	defer cur.Close()
	if *rd == nil {
		*after = cur.After()
		*rd = r.newReading("a reader of "+th.ID, th.ConversationID, *after)
		r.move(*rd, follow, *after)
	}
	for {
		recs, err := cur.Next(p.ctx)
		if errors.Is(err, io.EOF) && !follow {
			return r.checkEnd(*rd, th.ConversationID, *after, since)
		}
		if err != nil {
			return err
		}
		r.show(p, *rd, recs)
		*after, since = cur.After(), time.Now()
		r.move(*rd, follow, *after)
		r.nap("reader", s.N)
		if r.several() && s.Choice < stays && r.choose(4, []any{"moves", s.N}) == 0 {
			return nil // on to any of the servers
		}
	}
}

// checkEnd checks that the log had ended where a reader was told so, at some moment since it got the last event. The reader goes on
// behind it.
func (r *readers) checkEnd(rd *reading, conversation string, last int64, since time.Time) error {
	if m := r.db.memory; m != nil && !m.Rested(conversation, last, since) && !r.h.Does(doClear, doWipe) {
		r.find(RuleEnd, "%s is told that the log ends with event %d, which it did not when it had got that", rd.what, last)
	}
	r.sleep(100 * time.Millisecond)
	return nil
}

// watch reads the span of a request, like the client that made it, which may ask another server for it.
func (r *readers) watch(p *process, s runtime.Started) {
	if r.several() {
		p = r.server("watch", s.RunID)
	}
	if p == nil {
		return
	}
	cur, err := p.rt.Logs.ReadRun(p.ctx, s)
	if err != nil {
		return
	}
	defer cur.Close()
	rd := r.newReading("the client of "+s.RunID, s.ConversationID, -1)
	is := client{run: s.RunID, of: p, since: time.Now()}
	for {
		r.reads(rd, is)
		recs, err := cur.Next(p.ctx)
		if errors.Is(err, io.EOF) {
			r.checkWatched(rd)
			is.ended = time.Now()
			r.reads(rd, is)
			return
		}
		if err != nil {
			r.reads(rd, client{})
			return
		}
		r.show(p, rd, recs)
	}
}

func (r *readers) reads(rd *reading, is client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rd.client = is
}

// checkWatched checks that a client whose stream has ended got the whole span.
func (r *readers) checkWatched(rd *reading) {
	n := len(rd.shown)
	if n < 2 || !strings.Contains(rd.shown[0].json, `"RUN_STARTED"`) ||
		!strings.Contains(rd.shown[n-1].json, `"RUN_FINISHED"`) && !strings.Contains(rd.shown[n-1].json, `"RUN_ERROR"`) {
		r.find(RuleWatch, "%s was shown %d events: %+v", rd.what, n, rd.shown)
	}
}
