package transports

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/ownership"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// RunStream describes the stream of a run.
type RunStream struct {
	Caller     runtime.Caller
	Key        *runtime.Idempotency // of the request; nil if it had none
	Started    runtime.Started      // the answer to the request
	Projection agui.Projection
	Framing    fanout.Framing // nil for that of server-sent events
	Background bool           // the run does not belong to the connection
	Got        int64          // the last event that the client of a repeated request has, 0 for none
}

// ServeRun answers c with the events of the span that a request has started, up to its terminal event. A repeated request with
// Last-Event-ID gets the events after that one. The run belongs to the connection (see TieRun) unless it runs in the
// background. A stream that the server must end early ends with a RUN_ERROR of code interrupted, which is not in the log;
// the run goes on. If the stream ends with its credential, the run goes on too, without an owner: an accepted request stays
// accepted.
func (s *Streams) ServeRun(c *fiber.Ctx, r RunStream) error {
	if last := wire.LastEventID(c); last != "" && r.Started.Replayed {
		var err error
		if r.Got, err = wire.EventID(last); err != nil {
			return err
		}
	}
	return s.Serve(c, func(ctx context.Context, w *stream.Writer) error { return s.ShowRun(ctx, w, &r) })
}

// ShowRun writes the events of ServeRun to w. It returns when all are written, or with stream.ErrGone.
func (s *Streams) ShowRun(ctx context.Context, w *stream.Writer, r *RunStream) error {
	shows := sync.OnceFunc(s.rt.Logs.ShowRun())
	defer shows()
	w.Describe("run", r.Started.RunID, "thread", r.Started.ThreadID, "user", r.Caller.User(), "project", r.Caller.Project())
	tie := (*ownership.Tie)(nil)
	if !r.Background {
		tie = s.Ownership.TieRun(owner{w, ctx.Done()}, r.Caller, r.Key, r.Started)
	}
	cur, err := s.rt.Logs.ReadRunBehind(context.WithoutCancel(ctx), r.Started, r.Got) // a client that has left may come back
	if err != nil {
		tie.Release()
		return s.interrupt(w, r.log(s.log), err, r.Projection, r.Framing)
	}
	shown := &attended{RunCursor: cur, w: w, tie: tie, parked: shows}
	if r.Started.Status != runtime.Running || cur.Waits() { // otherwise the head is sent with the first events
		err = w.Flush()
	}
	if err == nil {
		err = s.Follow(ctx, w, &fanout.Feed{Cursor: shown, Projection: r.Projection, Framing: r.Framing})
	}
	if errors.Is(err, stream.ErrGone) {
		tie.Drop(cur)
		return err
	}
	if err == nil && !shown.asks {
		tie.End()
	} else {
		tie.Release()
	}
	cur.Close()
	if err == nil || cur.Ended() {
		return nil
	}
	return s.interrupt(w, r.log(s.log), err, r.Projection, r.Framing)
}

// log returns a logger with the names of the run.
func (r *RunStream) log(log *slog.Logger) *slog.Logger {
	return log.With("run", r.Started.RunID, "thread", r.Started.ThreadID, "user", r.Caller.User(), "project", r.Caller.Project())
}

// attended is the cursor of a run whose questions are shown to the client of a stream.
type attended struct {
	*runtime.RunCursor
	w   *stream.Writer
	tie *ownership.Tie // until the run is parked

	parked func() // called when it is
	asks   bool   // the last event that it returned ends the span with a question
}

// Next is the run's cursor's. If a question ends the span and the client has disconnected, it fails with stream.ErrGone: a write
// to such a client would seem to succeed.
func (a *attended) Next(ctx context.Context) ([]*runtime.Record, error) {
	recs, err := a.RunCursor.Next(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(recs, (*runtime.Record).Parks) {
		a.tie.Release()
		a.parked()
	}
	if a.asks = asks(recs[len(recs)-1].Event); a.asks && a.w.Gone() {
		return nil, stream.ErrGone
	}
	return recs, nil
}

// asks reports whether ev ends a span with a question or a frontend call.
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

// Interrupt ends a stream of a thread's AG-UI events early, because of err, with a RUN_ERROR that is not in the log. It logs err
// unless the server stops.
func (s *Streams) Interrupt(w *stream.Writer, thread string, err error, p agui.Projection) error {
	return s.interrupt(w, s.log.With("thread", thread), err, p, nil)
}

func (s *Streams) interrupt(w *stream.Writer, log *slog.Logger, err error, p agui.Projection, framing fanout.Framing) error {
	if !errors.Is(err, runtime.ErrStopping) && !errors.Is(err, auth.ErrEnded) && !errors.Is(err, context.Canceled) { // nor for a client that disconnects
		log.Error("a run's stream failed", "error", err)
	}
	ev := agui.RunError{Message: "The stream was interrupted; the run goes on without it", Code: "interrupted"}
	_, _ = w.Write(fanout.Frame(framing, ev, p))
	return w.Flush()
}
