package transports

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/ownership"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/stream"
)

// StreamConfig configures Streams. Runtime must be set; other zero fields mean the default.
type StreamConfig struct {
	Runtime *runtime.Runtime
	Log     *slog.Logger

	Pace         time.Duration  // between two writes to a reader while many are open, default 10 ms
	PaceAbove    int            // how many are many, default 64
	Ping         time.Duration  // silence after which a stream is pinged at the latest, default 15 s
	WriteTimeout time.Duration  // for one write to a reader, default 30 s
	SendBuffer   int            // the kernel's buffer for a reader, default 64 KiB
	InFlight     int64          // bytes of requests, messages and answers that are held at a time, default 96 MiB
	Rates        *rates.Meter   // counts the requests and streams of users and projects; nil for no limits
	Grace        time.Duration  // how long a run outlives its connection, default 10 s
	Ties         ownership.Ties // the ties of all servers of a cluster; nil on a database of one server
}

// Streams are the open event streams of a process, their viewers, and the runs that belong to them. All transports of a server
// share one.
type Streams struct {
	*stream.Set
	*fanout.Viewers
	Ownership *ownership.Registry // which connections runs belong to
	Budget    *budget.Budget      // bytes held for clients
	Rates     *rates.Meter        // limits of requests and streams; nil for no limits

	rt    *runtime.Runtime
	log   *slog.Logger
	turns *quota.Pool // of large answers
}

// inFlight are the limits on the bytes that are held for clients.
func inFlight(cfg *StreamConfig) quota.Limits {
	of := cfg.Rates.Config()
	return quota.Limits{Total: cmp.Or(cfg.InFlight, InFlight), PerProject: of.Project.Bytes, PerUser: of.User.Bytes}
}

// InFlight is the default of StreamConfig.InFlight.
const InFlight = 96 << 20

// NewStreams returns Streams without a stream.
func NewStreams(cfg StreamConfig) *Streams {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	set := stream.NewSet(stream.Config{
		Log: cfg.Log, Pace: cfg.Pace, PaceAbove: cfg.PaceAbove, Ping: cfg.Ping,
		WriteTimeout: cfg.WriteTimeout, SendBuffer: cfg.SendBuffer,
	})
	return &Streams{
		Set:       set,
		Viewers:   fanout.New(set),
		Rates:     cfg.Rates,
		Budget:    budget.New(inFlight(&cfg)),
		Ownership: ownership.New(ownership.Config{Runtime: cfg.Runtime, Log: cfg.Log, Grace: cmp.Or(cfg.Grace, 10*time.Second), Ties: cfg.Ties}),
		rt:        cfg.Runtime,
		log:       cfg.Log,
		turns:     newTurns(cfg.Rates != nil),
	}
}

// Serve is stream.Set's, for a stream that ends with the credential of its request. It then ends like a complete stream, so
// that the client reconnects and gets the refusal. Serve fails when the caller has too many open streams (see Reserve).
func (s *Streams) Serve(c *fiber.Ctx, fn func(ctx context.Context, w *stream.Writer) error) error {
	if err := s.Reserve(c); err != nil {
		return err
	}
	h, names := HolderOf(c), Names(c)
	return s.Set.Serve(c, func(ctx context.Context, w *stream.Writer) error {
		defer s.Rates.Hold(h.who)()
		w.Sent = func(n int) { s.Rates.Charge(h.who, n) } // pages that it reads again are large, what a run says now is not
		defer h.term.Watch(w.End)()
		w.Describe(names...)
		if err := fn(ctx, w); !errors.Is(err, auth.ErrEnded) {
			return err
		}
		return nil
	})
}

// Attach is stream.Set's, for a stream that ends with its holder's credential: with the cause auth.ErrEnded. Its place was
// reserved.
func (s *Streams) Attach(h Holder, req *fasthttp.RequestCtx, c net.Conn, d stream.Duplex, fn func(ctx context.Context, w *stream.Writer)) {
	s.Set.Attach(req, c, d, func(ctx context.Context, w *stream.Writer) {
		defer s.Rates.Hold(h.who)()
		w.Sent = func(n int) { s.Rates.Charge(h.who, n) } // pages that it reads again are large, what a run says now is not
		defer h.term.Watch(w.End)()
		if h.within != nil {
			ctx = h.within(ctx)
		}
		fn(ctx, w)
	})
}

// Shutdown ends the open streams, a slice at a time, and every stream that is opened later. Their runs go on. When ctx is
// done, but not within the first second, it cuts off the remaining streams.
func (s *Streams) Shutdown(ctx context.Context) error {
	s.Ownership.EndGraces()
	return s.Set.Shutdown(ctx)
}
