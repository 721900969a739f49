// Package stream holds the open connections on which a server shows what happens, for as long as it happens: it
// takes them over from HTTP, writes at a pace, pings, finds out who has left, and says goodbye. What is written,
// and whose it is, it does not know.
package stream

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
)

// Config holds what a Set needs. Zero fields mean the default.
type Config struct {
	Log *slog.Logger

	Pace         time.Duration // between two writes to a reader while many are open, default 10 ms
	PaceAbove    int           // how many are many, default 64
	Ping         time.Duration // silence after which a stream is pinged at the latest, default 15 s
	WriteTimeout time.Duration // for one write to a reader, default 30 s
	SendBuffer   int           // the kernel's buffer for a reader, default 64 KiB
}

// Set is the open streams of a process. Each has a goroutine that waits for its source and writes; what is
// buffered for a write is given back after it, so an idle stream holds next to nothing. A stream on which both
// ends talk (see Attach) has one goroutine more, which reads. For all streams together there is one, while any is
// open, that pings the silent ones and finds those whose client has left. On a connection that is no socket, such
// as one of TLS, a ping is written by a goroutine of its own, as it may block.
type Set struct {
	cfg Config

	live     atomic.Int64
	sockets  atomic.Int64 // of live, those on which both ends talk
	cuts     atomic.Int64 // clients that were cut off as they took nothing
	stopping atomic.Bool
	ended    sync.Once      // closes quit
	quit     chan struct{}  // closed when Shutdown has ended the streams
	tasks    sync.WaitGroup // the sweep

	mu       sync.Mutex // guards the fields below
	open     map[*Writer]struct{}
	sweeping bool
}

// NewSet returns a Set without a stream.
func NewSet(cfg Config) *Set {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Pace = cmp.Or(cfg.Pace, 10*time.Millisecond)
	cfg.PaceAbove = cmp.Or(cfg.PaceAbove, 64)
	cfg.Ping = cmp.Or(cfg.Ping, 15*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 30*time.Second)
	cfg.SendBuffer = cmp.Or(cfg.SendBuffer, 64<<10)
	return &Set{cfg: cfg, quit: make(chan struct{}), open: make(map[*Writer]struct{})}
}

// WriteTimeout is how long one write to a reader may take.
func (s *Set) WriteTimeout() time.Duration { return s.cfg.WriteTimeout }

// Ping is the silence after which a stream is pinged.
func (s *Set) Ping() time.Duration { return s.cfg.Ping }

// Stats is what a Set looks like.
type Stats struct {
	Streams, Sockets int   // open, with one end that talks and with two
	Cut              int64 // clients that were cut off, so far, because they took nothing any more
}

// Stats returns what the set looks like.
func (s *Set) Stats() Stats {
	sockets := int(s.sockets.Load())
	return Stats{Streams: max(s.Open()-sockets, 0), Sockets: sockets, Cut: s.cuts.Load()}
}

// Open is how many streams are open.
func (s *Set) Open() int { return int(s.live.Load()) }

// Serve answers c with an event stream that fn writes, and returns at once: fn runs when the handlers have
// returned, and must not touch c. The headers that were set on c go out with its first Flush. fn returns nil
// for a stream that ended as it should; after any other error the client sees that it was cut off.
//
// fn's context is done with the cause ErrGone once the client has left, and runtime.ErrStopping when the
// server stops: fn then has a second to say goodbye.
//
// The connection of a stream that ended as it should takes its client's next request, if it is a Listener's, and the answer
// does not say that it will be closed: some clients then take what they got before it broke for the whole. One that a
// program's own fiber server has accepted is closed, and says so: what stands before that server's routes is not known here.
func (s *Set) Serve(c *fiber.Ctx, fn func(ctx context.Context, w *Writer) error) error {
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-cache, no-transform")
	c.Set("X-Accel-Buffering", "no")
	if c.Method() == fiber.MethodHead {
		return nil
	}
	w := &Writer{set: s, chunked: c.Request().Header.IsHTTP11()}
	if w.chunked {
		c.Response().Header.SetContentLength(-1)
	}
	w.last = !w.chunked || c.Request().Header.ConnectionClose()
	ctx := c.Context()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(conn net.Conn) { s.run(ctx, conn, w, fn) })
	return nil
}

// run is a stream's life.
func (s *Set) run(req *fasthttp.RequestCtx, conn net.Conn, w *Writer, fn func(context.Context, *Writer) error) {
	defer w.recover()
	w.head = takeHead(req, conn)
	if s.show(conn, w, fn) {
		w.own.pass()
	}
}

// show writes the stream, and reports whether its connection goes on.
func (s *Set) show(conn net.Conn, w *Writer, fn func(context.Context, *Writer) error) bool {
	ctx, cancel := context.WithCancelCause(context.Background())
	w.begin(conn, cancel, &s.cfg)
	s.add(w)
	defer s.remove(w)
	return w.end(conn, fn(ctx, w))
}

// takeHead returns the head of req's response, and frees what req holds. It is a function of its own for the
// sake of the stack on which the stream waits.
//
//go:noinline
func takeHead(req *fasthttp.RequestCtx, c net.Conn) []byte {
	req.Response.Header.Del(fasthttp.HeaderConnection) // fasthttp's, which thinks it knows
	if _, _, own := socket(c); own == nil {
		req.Response.Header.SetConnectionClose()
	}
	head := bytes.Clone(req.Response.Header.Header())
	release(req)
	return head
}

// release frees what req holds: a body may be large, and a stream long.
func release(req *fasthttp.RequestCtx) {
	req.Request.Reset()
	req.Request, req.Response = fasthttp.Request{}, fasthttp.Response{}
}

// recover keeps a stream that panics from bringing down the process.
func (s *Set) recover() {
	recovered(func() *slog.Logger { return s.cfg.Log }, recover())
}

func recovered(log func() *slog.Logger, v any) {
	if v != nil {
		log().Error("a stream panicked", "panic", v, "stack", string(debug.Stack()))
	}
}

func (s *Set) add(w *Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[w] = struct{}{}
	s.live.Add(1)
	if w.duplex {
		s.sockets.Add(1)
	}
	if s.stopping.Load() {
		w.cancel(runtime.ErrStopping)
	} else if !s.sweeping {
		s.sweeping = true
		s.tasks.Go(s.sweep)
	}
}

func (s *Set) remove(w *Writer) {
	w.cancel(nil)
	w.due.Store(never)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, w)
	s.live.Add(-1)
	if w.duplex {
		s.sockets.Add(-1)
	}
	if w.done != nil {
		close(w.done)
	}
}

// sweep looks at each stream every second. It ends when no stream is open, and with Shutdown.
func (s *Set) sweep() {
	tick := time.NewTicker(min(time.Second, s.cfg.Ping/15))
	defer tick.Stop()
	p := probes.Get().(*probe)
	defer probes.Put(p)
	for all := []*Writer(nil); ; {
		var now time.Time
		select {
		case now = <-tick.C:
		case <-s.quit:
			return
		}
		s.mu.Lock()
		if len(s.open) == 0 {
			s.sweeping = false
			s.mu.Unlock()
			return
		}
		all = slices.AppendSeq(all[:0], maps.Keys(s.open))
		s.mu.Unlock()
		for _, w := range all {
			w.look(p, now)
		}
		clear(all)
	}
}

// slice is how many streams are ended at a time, lest their clients come back as one.
const slice = 128

// Shutdown ends the open streams, a slice at a time, as it will those that are opened from now on. When ctx
// is done, but not within the first second, it cuts off those that are left.
func (s *Set) Shutdown(ctx context.Context) error {
	ctx, cancel := Farewells(ctx)
	defer cancel()
	s.mu.Lock()
	s.stopping.Store(true)
	s.mu.Unlock()
	defer s.tasks.Wait()
	defer s.ended.Do(func() { close(s.quit) })
	for {
		some := s.some()
		if len(some) == 0 {
			return nil
		}
		for _, w := range some {
			w.End(runtime.ErrStopping)
		}
		for _, w := range some {
			select {
			case <-w.done:
			case <-ctx.Done():
				s.cut()
				return ctx.Err()
			}
		}
	}
}

// Farewells returns a context that ends with ctx, but not before a server that stops has had a second to tell its
// clients so.
func Farewells(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(goodbye)
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Until(until), cancel) })
	return longer, func() { stop(); cancel() }
}

// some returns up to a slice of the open streams, whose done will be closed.
func (s *Set) some() []*Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []*Writer
	for w := range s.open {
		if len(some) == slice {
			break
		}
		if w.done == nil {
			w.done = make(chan struct{})
		}
		some = append(some, w)
	}
	return some
}

// cut closes the connections of all streams.
func (s *Set) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.open {
		w.cancel(runtime.ErrStopping)
		_ = cutOff(w.conn)
	}
}

// socket returns what can be asked about the connection below wrappers, nil when that is not a socket that can be, and the
// server's own wrapper, if there is one.
func socket(c net.Conn) (net.Conn, syscall.RawConn, *Conn) {
	var own *Conn
	for {
		switch w := c.(type) {
		case interface{ UnsafeConn() net.Conn }: // fasthttp's hijacked connection
			c = w.UnsafeConn()
			continue
		case *Conn:
			c, own = w.Conn, w
			continue
		case syscall.Conn:
			if raw, err := w.SyscallConn(); err == nil && probing {
				return c, raw, own
			}
		}
		return c, nil, own
	}
}
