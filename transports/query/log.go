package query

import (
	"context"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// Log is the log of one run.
type Log struct {
	rt     *runtime.Runtime
	thread runtime.Thread
	run    runtime.Run
}

// Open finds the log of a run of a conversation that the caller may see: its conversationId, or the caller's own
// threadId, and any name of the run. It fails with runtime.ErrThreadNotFound or runtime.ErrRunNotFound.
func Open(ctx context.Context, rt *runtime.Runtime, who runtime.Caller, conversation, run string) (Log, error) {
	th, err := rt.Thread(ctx, who, conversation)
	if err != nil {
		return Log{}, err
	}
	// The names of runs are their user's, whoever looks.
	owner := runtime.MustCaller(th.Project, th.User, runtime.RoleUser)
	r, err := rt.Run(ctx, owner, run)
	if err == nil && r.ThreadKey != th.Key {
		err = runtime.ErrRunNotFound
	}
	return Log{rt, th, r}, err
}

// Events returns the page of at most limit events behind the one with the id after. It refuses a cursor beyond
// the end of the conversation's log.
func (l Log) Events(ctx context.Context, after int64, limit int) (wire.EventPage, error) {
	recs, more, err := l.rt.RunEvents(ctx, l.thread, l.run, after, limit, wire.Logged)
	if err != nil {
		return wire.EventPage{}, err
	}
	return wire.NewEventPage(recs, after, more), nil
}

// Snapshot returns what the log comes to as of the last event of the run's latest span, or of now while the run
// is at work.
func (l Log) Snapshot(ctx context.Context) (wire.RunSnapshot, error) {
	s, err := l.rt.RunSnapshot(ctx, l.thread, l.run)
	if err != nil {
		return wire.RunSnapshot{}, err
	}
	return wire.NewRunSnapshot(s), nil
}
