package agui

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// connect answers POST connect: the thread's current state, then its new events. It shows the whole thread, also the runs of
// other agents.
func (t Transport) connect(c *fiber.Ctx, who runtime.Caller) error {
	v, err := t.join(c, who, agentOf(c), c.Request().Body())
	if err != nil {
		return err
	}
	return v.serve(c)
}

// viewer is a client that joins a thread.
type viewer struct {
	t          Transport
	id         string         // the thread's name
	thread     runtime.Handle // zero when it is unknown
	after      int64          // the last event that the prelude contains
	running    bool           // the prelude leaves its span open
	prelude    []byte         // nil once it was written
	held       *budget.Hold   // for the prelude until then
	projection agui.Projection
}

// serve answers c with the viewer's stream.
func (v *viewer) serve(c *fiber.Ctx) error {
	err := v.t.Streams.Serve(c, v.show)
	if err != nil {
		v.held.Release()
	}
	return err
}

// join reads a request to join a thread. Runs of the thread whose connection is closed lose their owner; the viewer owns none.
func (t Transport) join(c *fiber.Ctx, who runtime.Caller, agent string, body []byte) (*viewer, error) {
	req, who, err := t.decode(c, who, agent, body)
	if err != nil {
		return nil, err
	}
	if !runtime.ValidName(req.ThreadID) || req.RunID != "" && !runtime.ValidName(req.RunID) {
		return nil, errNames
	}
	c.SetUserContext(transports.Reading(c))
	th, err := t.Runtime.Threads.Get(c.UserContext(), who, req.ThreadID)
	if err == nil {
		t.Streams.Ownership.Join(who, &th) // at once: the run would end while its client waits for its turn
	}
	end, late := t.Streams.Turn(c.UserContext(), who)
	if late != nil {
		return nil, late
	}
	defer end()
	var snap runtime.Snapshot
	if err == nil {
		snap, err = t.Runtime.Logs.Snapshot(c.UserContext(), th)
	}
	if errors.Is(err, runtime.ErrThreadNotFound) {
		th = runtime.Thread{}
		th.ID, snap, err = req.ThreadID, runtime.Snapshot{State: []byte("{}")}, nil
	}
	if err != nil {
		return nil, err
	}
	v := &viewer{t: t, id: th.ID, thread: th.Handle(), after: snap.After, running: snap.Running, projection: req.Dialect()}
	snap.RunID = cmp.Or(snap.RunID, req.RunID)
	v.begin(&snap)
	v.held = t.Streams.Budget.Hold().For(t.Streams.Owner(transports.HolderOf(c)))
	return v, v.held.Grow(len(v.prelude))
}

var errNames = wire.Refuse("invalid_name", "A threadId is needed; threadId and runId must be 1 to 200 characters without control characters")

// begin makes the snapshot the stream's prelude: a span that brings a client which knows nothing, or has an
// older copy, to where the snapshot is. Its events are not the log's and have no ids.
func (v *viewer) begin(s *runtime.Snapshot) {
	base := agui.Base{ThreadID: v.id, RunID: cmp.Or(s.RunID, uuid.Must(uuid.NewV7()).String())}
	started := agui.RunStarted{Base: base, ProtocolVersion: "1.0"}
	if s.Run != nil {
		started.AgentID, started.Agent = s.Run.WorkflowID, s.Run.WorkflowID
		if started.ParentRunID = s.Run.ParentRun; s.Run.ID != base.RunID {
			started.ParentRunID = s.Run.ID
		}
	}
	v.write(started)
	v.write(agui.StateSnapshot{Base: base, Snapshot: s.State})
	v.write(agui.MessagesSnapshot{Base: base, Messages: s.Messages})
	for _, ev := range s.Open {
		v.write(ev)
	}
	if !s.Running {
		v.write(agui.RunFinished{Base: base, Outcome: s.Outcome})
	}
}

func (v *viewer) write(ev agui.Event) {
	v.prelude = agui.AppendSSE(v.prelude, 0, agui.At(time.Now(), ev), v.projection)
}

// unknown reports whether there is no such thread.
func (v *viewer) unknown() bool { return v.thread == runtime.Handle{} }

// show writes the prelude and, as long as the thread is busy, the log behind it.
func (v *viewer) show(ctx context.Context, w *stream.Writer) error {
	defer v.held.Release()
	w.Describe("thread", v.id)
	_, _ = w.Write(v.prelude)
	v.prelude = nil
	err := w.Flush()
	v.held.Release()
	if err != nil || v.unknown() {
		return err
	}
	cur, err := v.t.Runtime.Logs.Read(ctx, v.thread, v.after, false)
	if err != nil {
		return v.t.Streams.Interrupt(w, v.id, err, v.projection)
	}
	defer cur.Close()
	ordered := &orderedCursor{Cursor: cur, projection: v.projection, ended: v.after}
	if v.running {
		ordered.ended = -1
	}
	err = v.t.Streams.Follow(ctx, w, &fanout.Feed{Cursor: ordered, Projection: v.projection})
	if err == nil && !ordered.between() {
		err = runtime.ErrRemoved
	}
	switch {
	case err == nil, errors.Is(err, stream.ErrGone):
		return err
	case !ordered.between() || !ordered.failed && !cur.Ended():
		return v.t.Streams.Interrupt(w, v.id, err, v.projection)
	case errors.Is(err, runtime.ErrStopping):
		return nil
	}
	return err
}

// orderedCursor is a cursor that enforces the order that AG-UI's clients enforce, and shows them the messages behind a
// retraction.
type orderedCursor struct {
	*runtime.Cursor
	projection agui.Projection
	ended      int64 // the id of the last event that ended a span, or of the one before the tail if no span is open there
	failed     bool  // that event was a RUN_ERROR, after which only a RUN_STARTED may follow
	removed    bool  // events were removed
}

// between reports whether the last shown event ended a span.
func (t *orderedCursor) between() bool { return t.After() == t.ended }

// Next returns the next records of the log. If some were removed it fails with ErrRemoved, from then on: the end of a run that
// the viewer saw begin may be missing, so the client must join anew.
func (t *orderedCursor) Next(ctx context.Context) ([]*runtime.Record, error) {
	if t.removed {
		return nil, runtime.ErrRemoved
	}
	after := t.After()
	recs, err := t.Cursor.Next(ctx)
	if err != nil {
		return nil, err
	}
	if t.removed = recs[0].ID == 0; t.removed { // a log-reset begins with frames of no id
		return nil, runtime.ErrRemoved
	}
	if last := recs[len(recs)-1]; last.Terminal() {
		t.ended = last.ID
		t.failed = agui.Project(last.Event, t.projection).Type() == agui.TypeRunError
	}
	if recs, err = t.Restated(ctx, recs); err != nil {
		t.Skip(after) // the caller does not get them
	}
	return recs, err
}
