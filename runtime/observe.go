package runtime

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/work"
)

type (
	// Measures are told of sizes and times as they come about: see [work.Measures].
	Measures = work.Measures
	// Tracer follows runs from the request to the calls of models and tools: see [work.Tracer].
	Tracer = work.Tracer
	// Op is an operation that begins.
	Op = work.Op
	// OpKind says what an operation is.
	OpKind = work.OpKind
	// End is how an operation has ended.
	End = work.End
	// ModelEnd is how a call of a model has ended.
	ModelEnd = work.ModelEnd
)

// The operations that a Tracer is told of.
const (
	OpStart = work.OpStart
	OpRun   = work.OpRun
	OpAgent = work.OpAgent
	OpTool  = work.OpTool
	OpModel = work.OpModel
)

// Stats is what a Runtime is doing, and what it has counted since it began.
type Stats struct {
	work.Stats
	Commits commit.Stats // what waits for a commit
	Rings   int64        // bytes in memory of the latest events of threads
	// RetentionLag is for how long the runs that the retention removes now should have been gone. It is 0 while nothing is due.
	RetentionLag time.Duration
}

// Stats returns what the runtime is doing.
func (rt *Runtime) Stats() Stats {
	return Stats{rt.work.Stats(), rt.commits.Stats(), rt.keyed.rings(), time.Duration(rt.retirementLag.Load())}
}

// LastEvent is what a run has made last.
type LastEvent struct {
	ID   int64
	Type agui.Type
	At   time.Time
}

// LastEventOf returns what a run that the caller has been given has made last, nil when that is nothing: a run that is
// stuck is known by it.
func (rt *Runtime) LastEventOf(ctx context.Context, run *Run) (*LastEvent, error) {
	g, err := run.grant()
	if err != nil {
		return nil, err
	}
	last := run.ClosedEvent
	if run.Status == Running { // its end, which is not its writer's, would be missing from what is in memory
		if id, kind, at, ok := rt.work.LastEvent(g.run); ok {
			return &LastEvent{id, kind, at}, nil
		}
		if last, err = rt.keyed.lastEventID(ctx, g); err != nil {
			return nil, unavailable(err)
		}
	}
	if last == 0 {
		return nil, nil
	}
	stored, err := rt.keyed.event(ctx, g, last)
	if err != nil || stored == nil { // it may have been removed
		return nil, unavailable(err)
	}
	ev, err := agui.Decode(stored.Payload)
	if err != nil {
		return nil, unavailable(err)
	}
	e := &LastEvent{ID: last, Type: ev.Type()}
	if ms := ev.Common().Timestamp; ms != 0 {
		e.At = time.UnixMilli(ms)
	}
	return e, nil
}
