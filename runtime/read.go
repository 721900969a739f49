package runtime

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
)

// Plugins returns what this runtime offers.
func (rt *Runtime) Plugins() *plugins.Registry { return rt.reg }

// Run returns a run by any of its names.
func (rt *Runtime) Run(ctx context.Context, c Caller, name string) (Run, error) {
	return rt.visible(ctx, c, name)
}

// visible finds a run the caller may see. Roles that see others' runs meet a name that two users have as
// not found: they use the conversation.
func (rt *Runtime) visible(ctx context.Context, c Caller, name string) (Run, error) {
	if !ValidName(name) {
		return Run{}, ErrRunNotFound
	}
	user := c.User
	if c.Role != RoleUser {
		user = ""
	}
	runs, err := rt.store.RunsByName(ctx, c.Project, user, name)
	if err != nil {
		return Run{}, unavailable(err)
	}
	if len(runs) != 1 {
		return Run{}, ErrRunNotFound
	}
	return runs[0], nil
}

// owned finds a run the caller may change.
func (rt *Runtime) owned(ctx context.Context, c Caller, name string) (Run, error) {
	if err := rt.StandsBy(); err != nil {
		return Run{}, err
	}
	run, err := rt.visible(ctx, c, name)
	if err == nil && c.Role == RoleViewer && run.User != c.User {
		return Run{}, refuse(KindForbidden, "forbidden", "Your role may not change this run")
	}
	return run, err
}

// Runs lists runs, newest first, and counts those the filter admits, up to 10 000.
func (rt *Runtime) Runs(ctx context.Context, c Caller, f RunFilter) ([]Run, int, error) {
	f.Project = c.Project
	if c.Role == RoleUser {
		f.User = c.User
	}
	runs, total, err := rt.store.Runs(ctx, f)
	return runs, total, unavailable(err)
}

// Steps lists a run's steps with a number above after, and counts all.
func (rt *Runtime) Steps(ctx context.Context, c Caller, name string, after, limit int) ([]Step, int, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return nil, 0, err
	}
	steps, total, err := rt.store.Steps(ctx, run.Key, after, limit)
	return steps, total, unavailable(err)
}

// Nodes lists the states of a run's nodes.
func (rt *Runtime) Nodes(ctx context.Context, c Caller, name string) ([]Node, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return nil, err
	}
	nodes, err := rt.store.Nodes(ctx, run.Key)
	return nodes, unavailable(err)
}

// Messages lists a run's messages with a key above after, in the order they came, and counts all.
func (rt *Runtime) Messages(ctx context.Context, c Caller, name string, after int64, limit int) ([]Message, int, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return nil, 0, err
	}
	msgs, total, err := rt.store.RunMessages(ctx, run.Key, after, limit)
	return msgs, total, unavailable(err)
}

// Interrupts lists what a waiting run asks: open questions, and calls of the client's own tools.
func (rt *Runtime) Interrupts(ctx context.Context, c Caller, name string) ([]agui.Interrupt, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return rt.InterruptsOf(ctx, &run)
}

// InterruptsOf is Interrupts for a run that the caller has been given.
func (rt *Runtime) InterruptsOf(ctx context.Context, run *Run) ([]agui.Interrupt, error) {
	o, err := openOutcome(ctx, rt.store, run.Key)
	for _, id := range o.PendingToolCallIDs {
		o.Interrupts = append(o.Interrupts, agui.Interrupt{ID: id, Reason: "tool_call", ToolCallID: id})
	}
	return o.Interrupts, unavailable(err)
}

// Thread finds a thread the caller may see: by the caller's own name for it, or by its conversationId.
func (rt *Runtime) Thread(ctx context.Context, c Caller, name string) (Thread, error) {
	if !ValidName(name) {
		return Thread{}, ErrThreadNotFound
	}
	th, err := rt.store.ThreadByID(ctx, c.Project, c.User, name)
	if errors.Is(err, ErrNotFound) {
		th, err = rt.store.ThreadByConversation(ctx, c.Project, name)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return Thread{}, ErrThreadNotFound
	case err != nil:
		return Thread{}, unavailable(err)
	case th.User != c.User && c.Role == RoleUser:
		return Thread{}, ErrThreadNotFound
	}
	return th, nil
}

// Latest as a Cursor's start means the end of the log.
const Latest = -1

// Read opens a cursor into a thread's log behind the event after. A reader that follows does not end when
// no run is queued or running. It fails for a cursor beyond the log's end.
func (rt *Runtime) Read(ctx context.Context, th Thread, after int64, follow bool) (*Cursor, error) {
	t := rt.hold(th.Key, th.ID)
	if err := rt.learn(ctx, t); err != nil {
		rt.release(t)
		return nil, unavailable(err)
	}
	t.mu.Lock()
	end := t.committed
	t.mu.Unlock()
	if after < 0 || after > end { // what was stored just now may have been read from there already
		var err error
		if after, err = rt.place(ctx, th.Key, after); err != nil {
			rt.release(t)
			return nil, err
		}
	}
	return &Cursor{rt: rt, t: t, after: after, follow: follow}, nil
}

// place returns after, or for Latest the end of what the store has of a log. It refuses a cursor beyond that.
func (rt *Runtime) place(ctx context.Context, threadKey, after int64) (int64, error) {
	end, err := rt.store.LastEventID(ctx, threadKey)
	switch {
	case err != nil:
		return 0, unavailable(threadGone(err))
	case after == Latest:
		return end, nil
	case after < 0 || after > end:
		return 0, refuse(KindInvalid, "invalid_cursor", "The cursor %d is beyond the log's end, %d", after, end)
	}
	return after, nil
}

// learn reads where the thread's log ends and whether it is busy, unless a commit has told already.
func (rt *Runtime) learn(ctx context.Context, t *thread) error {
	if err := rt.StandsBy(); err != nil {
		return err
	}
	for {
		t.mu.Lock()
		known, gone, changes := t.known, t.gone, t.changes
		t.mu.Unlock()
		if gone {
			return ErrThreadNotFound
		}
		if known {
			return nil
		}
		last, err := rt.store.LastEventID(ctx, t.key)
		if err != nil {
			return threadGone(err)
		}
		open, err := rt.store.OpenRuns(ctx, t.key)
		if err != nil {
			return err
		}
		t.mu.Lock()
		if t.changes == changes { // else what was read may be older than what was shown
			t.known, t.committed = true, max(t.committed, last)
			t.busy = false
			for i := range open {
				t.busy = t.busy || open[i].Status != Waiting
			}
		}
		t.mu.Unlock()
	}
}

// snapshotAt is the thread's state and messages as of an event.
func (rt *Runtime) snapshotAt(ctx context.Context, threadKey, event int64) (json.RawMessage, []agui.Message, error) {
	var state json.RawMessage
	span, err := rt.store.SpanAfter(ctx, threadKey, event)
	switch {
	case err == nil:
		state = span.State
	case errors.Is(err, ErrNotFound):
		th, err := rt.store.Thread(ctx, threadKey)
		if err != nil {
			return nil, nil, err
		}
		state = th.State
	default:
		return nil, nil, err
	}
	rows, err := rt.store.Messages(ctx, threadKey, event, promptMessages)
	if err != nil {
		return nil, nil, err
	}
	return state, newest(contents(rows)), nil
}

// Delete removes a run that is over, with its events. Readers meet the gap as docs/protocol.md says in 2.7.
func (rt *Runtime) Delete(ctx context.Context, c Caller, name string) error {
	found, err := rt.owned(ctx, c, name)
	if err != nil {
		return err
	}
	return unavailable(rt.com.decide(&item{cmd: &decide.Delete{Thread: found.ThreadKey, Run: found.Key}}))
}
