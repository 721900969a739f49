package runtime

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
	"github.com/batonrun/baton/runtime/work"
)

// Logs opens cursors into the logs of threads and takes snapshots of them. It changes nothing.
type Logs struct {
	store      data.ByProject
	keyed      keyed
	work       *work.Engine // the state of running runs
	frameBytes int          // see Config.FrameBytes
}

// Latest as a Cursor's start means the end of the log.
const Latest = tail.Latest

// Read opens a cursor into a thread's log behind the event after. With follow the cursor does not end when no run is
// queued or running. Read fails for an event beyond the log's end.
func (rd *Logs) Read(ctx context.Context, of Log, after int64, follow bool) (*Cursor, error) {
	g, err := of.grant()
	if err != nil {
		return nil, err
	}
	return rd.read(ctx, g, after, follow)
}

func (rd *Logs) read(ctx context.Context, g grant, after int64, follow bool) (*Cursor, error) {
	cur, err := rd.keyed.read(ctx, g, after, follow)
	return cur, unavailable(data.Gone(err, ErrThreadNotFound))
}

// ReadRun opens a cursor to the span that a request has started or will start, for the client that sent it.
func (rd *Logs) ReadRun(ctx context.Context, s Started) (*RunCursor, error) {
	g, err := s.grant()
	if err != nil {
		return nil, err
	}
	cur, err := rd.read(ctx, g, s.After, false)
	if err != nil {
		return nil, err
	}
	of := cur.OfRun(g.run, s.RunID, tail.Sender{Messages: s.Messages, Results: s.Results, State: s.State, Before: s.Before})
	if s.Executed {
		of.Behind()
	}
	if s.Status == Running {
		return of, nil
	}
	run, err := rd.keyed.run(ctx, g)
	if err == nil && run.Status == Cancelled && run.ClosedEvent <= s.After { // the run was cancelled before the cursor existed
		of.NeverRan()
	}
	return of, nil // the cursor reports errors of the store
}

// ReadRunBehind is ReadRun for a client that repeats its request and has the events up to got, 0 for none of them.
// got may be any event id: beyond the log's end, the cursor returns the events that come next.
func (rd *Logs) ReadRunBehind(ctx context.Context, s Started, got int64) (*RunCursor, error) {
	of, err := rd.ReadRun(ctx, s)
	if err != nil || got <= s.After {
		return of, err
	}
	end, err := rd.keyed.lastEventID(ctx, s.granted)
	var spans []data.Span
	if err == nil {
		spans, err = rd.keyed.spans(ctx, s.granted)
	}
	if err != nil {
		of.Close()
		return nil, unavailable(err)
	}
	i := slices.IndexFunc(spans, func(sp data.Span) bool { return sp.RunID == s.RunID && s.After < sp.First && sp.First <= got })
	if i >= 0 {
		of.Resume(min(got, end), spans[i])
	}
	return of, nil
}

// JoinRun opens a cursor to all events of a run behind the event after. It ends when the run is neither queued nor
// running. It fails for a run with removed events, and for an event beyond the log's end.
func (rd *Logs) JoinRun(ctx context.Context, run *Run, after int64) (*RunCursor, error) {
	g, err := run.grant()
	if err != nil {
		return nil, err
	}
	spans, err := rd.keyed.spans(ctx, g)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case len(spans) > 0:
		after = max(after, spans[0].First-1)
	case run.Status.Final() && run.Status != Cancelled:
		return nil, ErrRunNotFound
	case after == 0:
		after = Latest
	}
	cur, err := rd.read(ctx, g, after, false)
	if err != nil {
		return nil, err
	}
	of := cur.OfRun(g.run, run.ID, tail.Sender{})
	for _, sp := range slices.Backward(spans) {
		if sp.First <= after {
			of.Resume(after, sp)
			break
		}
	}
	of.Spans(len(spans) > 0, func(ctx context.Context, after int64) (bool, error) {
		run, err := rd.keyed.run(ctx, g)
		return run.Status == Queued || run.Status == Running || run.ClosedEvent > after, unavailable(data.Gone(err, ErrRunNotFound))
	})
	if len(spans) == 0 && run.Status == Cancelled {
		of.NeverRan()
	}
	return of, nil
}

// ShowRun counts a stream that shows a run to the client that has started it, until the returned function is called. Shutdown waits for
// such streams once runs are handed over to another instance, which write on.
func (rd *Logs) ShowRun() (end func()) { return rd.work.Show() }
