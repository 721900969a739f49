package runtime

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/work"
)

type (
	// Measures receive sizes and durations as they occur: see [observe.Measures].
	Measures = observe.Measures
	// Tracer follows runs from the request to the calls of models and tools: see [observe.Tracer].
	Tracer = observe.Tracer
	// Op is the beginning of an operation.
	Op = observe.Op
	// OpKind is the kind of an operation.
	OpKind = observe.OpKind
	// End is the end of an operation.
	End = observe.End
	// ModelEnd is the end of a model call.
	ModelEnd = observe.ModelEnd
)

// The operations that a Tracer receives.
const (
	OpStart = observe.OpStart
	OpRun   = observe.OpRun
	OpAgent = observe.OpAgent
	OpTool  = observe.OpTool
	OpModel = observe.OpModel
)

// LevelNotice is the log's level of intended ends: a cancelled run, and one with an exhausted budget.
const LevelNotice = work.LevelNotice

// Stats is the current load of a Runtime, and its counters since it began.
type Stats struct {
	work.Stats
	Commits commit.Stats // items that wait for a commit
	Rings   int64        // bytes in memory of the latest events of threads
	// RetentionLag is for how long the runs that the retention removes now should have been gone. It is 0 while nothing is due.
	RetentionLag time.Duration
}

// Stats returns the current load and the counters.
func (rt *Runtime) Stats() Stats {
	return Stats{rt.work.Stats(), rt.commits.Stats(), rt.keyed.rings(), time.Duration(rt.retirementLag.Load())}
}

// LastEvent is the latest event of a run.
type LastEvent struct {
	ID   int64
	Type agui.Type
	At   time.Time
}

// Wait is why a run does not go on.
type Wait = queue.Wait

// WaitOf returns why a run does not begin or go on, or nil. The run was obtained with a Caller.
func (rd *Logs) WaitOf(ctx context.Context, run *Run) *Wait {
	if _, err := run.grant(); err != nil {
		return nil
	}
	return rd.work.WaitOf(ctx, &run.RunHead)
}

// LastEventOf returns the latest event of a run that was obtained with a Caller, or nil when there is none. It
// reveals a stuck run.
func (rd *Logs) LastEventOf(ctx context.Context, run *Run) (*LastEvent, error) {
	g, err := run.grant()
	if err != nil {
		return nil, err
	}
	last := run.ClosedEvent
	if run.Status == Running { // memory lacks the run's end, which the run's own writer does not write
		if id, kind, at, ok := rd.work.LastEvent(g.run); ok {
			return &LastEvent{id, kind, at}, nil
		}
		if last, err = rd.keyed.lastEventID(ctx, g); err != nil {
			return nil, unavailable(err)
		}
	}
	if last == 0 {
		return nil, nil
	}
	stored, err := rd.keyed.event(ctx, g, last)
	if err != nil || stored == nil { // the event may have been removed
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

// TraceOf returns the trace_id of a traceparent as lines of the log have it, nothing for none.
func TraceOf(parent string) []any { return observe.TraceOf(parent) }
