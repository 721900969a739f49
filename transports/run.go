package transports

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/lease"
	"github.com/batonrun/baton/transports/stream"
)

// RunStream says which run a stream shows, to whom and how.
type RunStream struct {
	Caller     runtime.Caller
	Key        *runtime.Idempotency // of the request; nil when it had none
	Started    runtime.Started      // the answer to the request
	Projection agui.Projection
	Framing    fanout.Framing // nil for that of server-sent events
	Background bool           // the run does not belong to the connection
	Got        int64          // the last event that a client has which sends its request again, 0 for none
}

// ServeRun answers c with the events of the span that a request has started, up to its terminal event; a request that is sent
// again with Last-Event-ID, with those behind that one. The
// run belongs to the connection (see Hold) unless it runs in the background. A stream that the server must
// end early ends with a RUN_ERROR of code interrupted, which is no event of the log: the run goes on. So does one whose
// stream ends with its credential, and belongs to no connection any more: what somebody was let begin is not undone
// because time has passed.
func (s *Streams) ServeRun(c *fiber.Ctx, r RunStream) error {
	if last := LastEventID(c); last != "" && r.Started.Replayed {
		var err error
		if r.Got, err = parseCursor(last); err != nil {
			return err
		}
	}
	return s.Serve(c, func(ctx context.Context, w *stream.Writer) error { return s.ShowRun(ctx, w, &r) })
}

// ShowRun writes to w what ServeRun answers with, and returns when that is all, or with stream.ErrGone.
func (s *Streams) ShowRun(ctx context.Context, w *stream.Writer, r *RunStream) error {
	w.About("run", r.Started.RunID, "thread", r.Started.ThreadID, "user", r.Caller.User(), "project", r.Caller.Project())
	held := (*lease.Held)(nil)
	if !r.Background {
		held = s.Hold(owner{w, ctx.Done()}, r.Caller, r.Key, r.Started)
	}
	cur, err := s.rt.ReadRunBehind(context.WithoutCancel(ctx), r.Started, r.Got) // a client that has left may come back
	if err != nil {
		held.Release()
		return s.interrupt(w, r.log(s.log), err, r.Projection, r.Framing)
	}
	if r.Started.Status != runtime.Running || cur.Waits() { // else the head goes out with the first events
		err = w.Flush()
	}
	if err == nil {
		err = s.Follow(ctx, w, &fanout.Tail{Cursor: attended{cur, w}, Projection: r.Projection, Framing: r.Framing})
	}
	if errors.Is(err, stream.ErrGone) {
		held.Drop(cur)
		return err
	}
	held.Release()
	cur.Close()
	if err == nil || cur.Ended() {
		return nil
	}
	return s.interrupt(w, r.log(s.log), err, r.Projection, r.Framing)
}

// log is a logger whose lines say which run the stream shows.
func (r *RunStream) log(log *slog.Logger) *slog.Logger {
	return log.With("run", r.Started.RunID, "thread", r.Started.ThreadID, "user", r.Caller.User(), "project", r.Caller.Project())
}

// attended is the cursor of a run whose questions are for the client of a stream.
type attended struct {
	*runtime.RunCursor
	w *stream.Writer
}

// Next returns what the run's cursor does, but not what a client is asked that has left: then it fails with
// stream.ErrGone. What is written to such a client would seem to arrive.
func (a attended) Next(ctx context.Context) ([]*runtime.Record, error) {
	recs, err := a.RunCursor.Next(ctx)
	if err == nil && asks(recs[len(recs)-1].Event) && a.w.Gone() {
		return nil, stream.ErrGone
	}
	return recs, err
}

// asks reports whether ev ends a span of a run that waits for its client.
func asks(ev agui.Event) bool {
	end, ok := ev.(agui.RunFinished)
	return ok && (end.Outcome.Type == agui.OutcomeInterrupt || len(end.Outcome.PendingToolCallIDs) > 0)
}

// owner is a stream that a run belongs to: gone as soon as it was given up, while its client may still be there.
type owner struct {
	*stream.Writer
	over <-chan struct{}
}

func (o owner) Gone() bool {
	select {
	case <-o.over:
		return true
	default:
		return o.Writer.Gone()
	}
}

// Interrupt ends a stream of a thread's AG-UI events before its end, because of err: with a RUN_ERROR that is no event of
// the log. Of a server that stops it says so to nobody else.
func (s *Streams) Interrupt(w *stream.Writer, thread string, err error, p agui.Projection) error {
	return s.interrupt(w, s.log.With("thread", thread), err, p, nil)
}

func (s *Streams) interrupt(w *stream.Writer, log *slog.Logger, err error, p agui.Projection, framing fanout.Framing) error {
	if !errors.Is(err, runtime.ErrStopping) && !errors.Is(err, auth.ErrEnded) && !errors.Is(err, context.Canceled) { // nor of a client that leaves
		log.Error("a run's stream failed", "error", err)
	}
	ev := agui.RunError{Message: "The stream was interrupted; the run goes on without it", Code: "interrupted"}
	_, _ = w.Write(fanout.Frame(framing, ev, p))
	return w.Flush()
}
