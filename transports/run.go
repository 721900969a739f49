package transports

import (
	"context"
	"errors"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// RunStream says which run a stream shows, to whom and how.
type RunStream struct {
	Caller     runtime.Caller
	Key        *runtime.Idempotency // of the request; nil when it had none
	Started    runtime.Started      // the answer to the request
	Projection agui.Projection
	Background bool // the run does not belong to the connection
}

// ServeRun answers c with the events of the span that a request has started, up to its terminal event. The
// run belongs to the connection (see Hold) unless it runs in the background. A stream that the server must
// end early ends with a RUN_ERROR of code interrupted, which is no event of the log: the run goes on.
func (s *Streams) ServeRun(c *fiber.Ctx, r RunStream) error {
	return s.Serve(c, func(ctx context.Context, w *Stream) error { return w.run(ctx, &r) })
}

func (w *Stream) run(ctx context.Context, r *RunStream) error {
	if err := w.Flush(); err != nil {
		return err
	}
	s := w.streams
	held := (*Held)(nil)
	if !r.Background {
		held = s.Hold(w, r.Caller, r.Key, r.Started)
	}
	cur, err := s.cfg.Runtime.ReadRun(ctx, r.Started)
	if err != nil {
		held.Release()
		return errors.Join(err, w.interrupted(r))
	}
	err = w.Follow(ctx, &Tail{Cursor: cur, ThreadKey: r.Started.ThreadKey, Projection: r.Projection})
	if errors.Is(err, ErrGone) {
		held.Drop(cur)
		return err
	}
	held.Release()
	cur.Close()
	if err == nil {
		return nil
	}
	if !errors.Is(err, runtime.ErrStopping) {
		s.cfg.Log.Error("a run's stream failed", "run", r.Started.RunID, "error", err)
	}
	return w.interrupted(r)
}

// interrupted says that the stream ends before its run.
func (w *Stream) interrupted(r *RunStream) error {
	_, _ = w.Write(agui.AppendSSE(nil, 0, agui.RunError{
		Base:    agui.Base{ThreadID: r.Started.ThreadID, RunID: r.Started.RunID},
		Message: "The stream was interrupted; the run goes on without it", Code: "interrupted",
	}, r.Projection))
	return w.Flush()
}
