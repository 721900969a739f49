package query

import (
	"context"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// Log is the log of one run.
type Log struct {
	rt  *runtime.Runtime
	run runtime.Run
}

// Open finds the log of a run of a conversation that the caller may see: its conversationId, or the caller's own
// threadId, and any name of the run. It fails with runtime.ErrThreadNotFound or runtime.ErrRunNotFound.
func Open(ctx context.Context, rt *runtime.Runtime, who runtime.Caller, conversation, run string) (Log, error) {
	th, err := rt.Threads.Get(ctx, who, conversation)
	if err != nil {
		return Log{}, err
	}
	r, err := rt.Runs.Of(ctx, &th, run)
	return Log{rt, r}, err
}

// Events returns a page of at most limit events after the event with the id after, in a projection; no types means all. It refuses a
// cursor beyond the end of the conversation's log.
func (l Log) Events(ctx context.Context, p agui.Projection, after int64, limit int, types ...agui.Type) (wire.EventPage, error) {
	recs, next, err := l.rt.Logs.RunEvents(ctx, &l.run, runtime.EventQuery{After: after, Limit: limit, Admit: wire.Logged(p, types...), Most: most(types)})
	if err != nil {
		return wire.EventPage{}, err
	}
	return wire.NewEventPage(recs, p, after, next), nil
}

// EventsBefore is Events for the last events before one, 0 for the end of the log.
func (l Log) EventsBefore(ctx context.Context, p agui.Projection, before int64, limit int, types ...agui.Type) (wire.EventPage, error) {
	recs, prev, err := l.rt.Logs.RunEvents(ctx, &l.run, runtime.EventQuery{Before: before, Back: true, Limit: limit, Admit: wire.Logged(p, types...), Most: lookedAt})
	if err != nil {
		return wire.EventPage{}, err
	}
	return wire.NewEventPageBefore(recs, p, before, prev), nil
}

// lookedAt limits the events that one page searches for some types; the next page continues there.
const lookedAt = 10_000

func most(types []agui.Type) int {
	if len(types) == 0 {
		return 0
	}
	return lookedAt
}

// Snapshot returns the run's state after the last event of its latest span, or the current state while the run executes.
func (l Log) Snapshot(ctx context.Context) (wire.RunSnapshot, error) {
	s, err := l.rt.Logs.RunSnapshot(ctx, &l.run)
	if err != nil {
		return wire.RunSnapshot{}, err
	}
	return wire.NewRunSnapshot(s), nil
}
