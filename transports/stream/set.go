// Package stream holds the open connections on which a server sends events: it takes them over from HTTP, paces the
// writes, pings, detects disconnected clients, and ends them in order. It does not know the meaning of the events.
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

// Config configures a Set. Zero fields mean the default.
type Config struct {
	Log *slog.Logger

	Pace         time.Duration // between two writes to a reader while many are open, default 10 ms
	PaceAbove    int           // how many are many, default 64
	Ping         time.Duration // silence after which a stream is pinged at the latest, default 15 s
	WriteTimeout time.Duration // for one write to a reader, default 30 s
	SendBuffer   int           // the kernel's buffer for a reader, default 64 KiB
}

// Set is the open streams of a process. Each has a goroutine that waits for its source and writes; buffers return to a pool
// after a write, so an idle stream needs little memory. A stream on which both ends send (see Attach) has a second
// goroutine, which reads. While any stream is open, one goroutine for all of them pings the silent ones and finds
// disconnected clients. On a connection that is not a socket, such as one of TLS, a ping may block and so has its own
// goroutine.
type Set struct {
	cfg Config

	live     atomic.Int64
	sockets  atomic.Int64 // part of live: streams on which both ends send
	cuts     atomic.Int64 // clients that were cut off because they did not read
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

// Stats counts the streams of a Set.
type Stats struct {
	Streams, Sockets int   // open, with one end that talks and with two
	Cut              int64 // clients that were cut off so far because they did not read
}

// Stats returns the current counts.
func (s *Set) Stats() Stats {
	sockets := int(s.sockets.Load())
	return Stats{Streams: max(s.Open()-sockets, 0), Sockets: sockets, Cut: s.cuts.Load()}
}

// Open is how many streams are open.
func (s *Set) Open() int { return int(s.live.Load()) }

// Serve answers c with an event stream that fn writes, and returns at once. fn runs after the handlers have returned, and
// must not use c. The headers set on c are sent with fn's first Flush. fn returns nil for a complete stream; after any other
// error the connection is closed without the mark of a complete response.
//
// fn's context ends with the cause ErrGone when the client disconnects, and with runtime.ErrStopping when the server stops:
// fn then has a second for its last write.
//
// After a complete stream a Listener's connection carries its client's next request. Its answer does not announce a close, as
// some clients then take a broken stream for a complete one. A connection of another program's fiber server is closed, and
// the answer announces it: the middleware of that server is not known here.
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
	w.final = !w.chunked || c.Request().Header.ConnectionClose()
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
		w.own.serveNext()
	}
}

// show writes the stream, and reports whether its connection can carry another request.
func (s *Set) show(conn net.Conn, w *Writer, fn func(context.Context, *Writer) error) bool {
	ctx, cancel := context.WithCancelCause(context.Background())
	w.setUp(conn, cancel, &s.cfg)
	s.add(w)
	defer s.remove(w)
	return w.finish(conn, fn(ctx, w))
}

// takeHead returns the head of req's response, and frees req. It is a function of its own to keep the waiting stream's stack
// small.
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

// release frees the request's memory: a body may be large, and a stream long.
func release(req *fasthttp.RequestCtx) {
	req.Request.Reset()
	req.Request, req.Response = fasthttp.Request{}, fasthttp.Response{}
}

// recover logs a panic of a stream, which must not end the process.
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
	w.nextPing.Store(never)
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
			w.visit(p, now)
		}
		clear(all)
	}
}

// slice is the number of streams that are ended at a time, so that their clients do not reconnect all at once.
const slice = 128

// Shutdown ends the open streams, a slice at a time, and every stream that is opened later. When ctx is done, but not within
// the first second, it cuts off the remaining ones.
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

// Farewells returns a context that ends with ctx, but not within the first second, so that a stopping server can write the last
// frames.
func Farewells(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(goodbye)
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Until(until), cancel) })
	return longer, func() { stop(); cancel() }
}

// some returns up to a slice of the open streams, and makes their done channels.
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

// socket unwraps c. It returns the connection below, its RawConn, which is nil if it is not a socket that can be probed, and
// the Listener's wrapper, if there is one.
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
