package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/batonrun/baton/runtime"
)

// ErrGone means that a stream's client has left, or takes nothing any more.
var ErrGone = errors.New("the client has left")

// goodbye is how long a stream's last write may take when the server stops.
const goodbye = time.Second

// Writer is the writing end of one stream. It is used by one goroutine, except for the methods that say otherwise.
type Writer struct {
	set     *Set
	conn    net.Conn
	raw     syscall.RawConn // nil when the connection is not a socket
	below   syscall.RawConn // the socket, though TLS may be spoken on it; nil when there is none
	peer    peer            // the client, when the connection is not a socket but knows
	cancel  context.CancelCauseFunc
	chunked bool
	head    []byte // the response's head, nil once it was written
	alive   []byte // a whole chunk that says the stream is alive
	piece   *piece // what is not flushed, nil for nothing
	wrote   time.Time
	taken   int           // of what was written since the last Flush
	spent   time.Duration // on having that taken
	err     error         // of the first write that failed
	about   []any         // what the log says of the stream; of the goroutine that shows it

	turn sync.Mutex    // held by the goroutine that writes a batch, where several do
	mu   sync.Mutex    // held from the first Write until its Flush, so that pings stand between events
	due  atomic.Int64  // when to ping, in Unix ms
	done chan struct{} // closed when the stream has ended, if somebody waits; guarded by Set.mu

	duplex bool         // the client is read too: see Attach
	own    *Conn        // nil when the connection is not the server's
	asked  atomic.Int64 // when the client was pinged that has not been heard since, in Unix ms, else 0
	broken bool         // a write has failed; guarded by mu
	torn   bool         // the client has got part of something; guarded by mu
	last   bool         // the connection takes no request behind this one

	ears sync.Mutex // guards the field below
	deaf bool       // nothing more will be read

	sight  sync.Mutex // guards the fields below
	away   bool       // what the client sends is not the stream's any more
	talked bool       // what the client has sent was thrown away
	rest   []byte     // what the client did not take of the write that failed; guarded by mu
}

// peer is a connection that knows whether its client has left.
type peer interface{ Gone() bool }

// never is a time for pings that does not come.
const never = math.MaxInt64

// piece is a chunk of a response in the making. Those of idle streams are in the pool.
type piece struct {
	n   int // bytes used, the chunk's head included
	buf [32 << 10]byte
}

const (
	chunkHead = 6 // four hexadecimal digits and CRLF
	chunkTail = 2
)

var pieces = sync.Pool{New: func() any { return new(piece) }}

// finalChunk ends a chunked response.
const finalChunk = "0\r\n\r\n"

func (w *Writer) begin(conn net.Conn, cancel context.CancelCauseFunc, cfg *Config) {
	w.conn, w.raw, w.own = socket(conn)
	w.peer, _ = w.conn.(peer)
	w.below = rawOf(w.conn)
	w.cancel = cancel
	w.due.Store(never)
	w.KeepAlive(": ping\n")
	if tcp := tcpOf(w.conn); tcp != nil {
		_ = tcp.SetWriteBuffer(cfg.SendBuffer)
	}
	timeout := cfg.WriteTimeout
	if w.duplex {
		timeout *= 2 // a client that wakes up can be told why it was given up
	}
	if w.below != nil {
		setUserTimeout(w.below, timeout)
	}
}

// KeepAlive sets what is written to a silent stream, instead of a comment.
func (w *Writer) KeepAlive(frame string) {
	w.alive = []byte(frame)
	if w.chunked {
		w.alive = fmt.Appendf(nil, "%x\r\n%s\r\n", len(frame), frame)
	}
}

// Write buffers p, and writes what fills a piece. It blocks while the client takes nothing, and fails with
// ErrGone when that has lasted too long. After the last Write of a batch call Flush.
func (w *Writer) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) && w.err == nil {
		w.open()
		k := copy(w.piece.buf[w.piece.n:len(w.piece.buf)-chunkTail], p[n:])
		w.piece.n += k
		if n += k; n < len(p) {
			w.send()
			w.torn = w.torn || w.err != nil
		}
	}
	return n, w.err
}

// open begins a piece unless one is begun, and keeps pings out until Flush.
func (w *Writer) open() {
	if w.piece == nil {
		w.mu.Lock()
		w.piece = pieces.Get().(*piece)
		w.piece.n = chunkHead
		w.taken, w.spent = 0, 0
	}
}

// WriteString is Write for a string.
func (w *Writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush writes what is buffered; the first one writes the response's head.
func (w *Writer) Flush() error {
	if w.piece == nil && (w.head == nil || w.err != nil) {
		return w.err
	}
	w.open()
	w.send()
	w.pingAfter(w.wrote)
	w.giveBack()
	return w.err
}

func (w *Writer) giveBack() {
	pieces.Put(w.piece)
	w.piece = nil
	w.mu.Unlock()
}

// send writes the piece and empties it.
func (w *Writer) send() {
	out := w.piece.buf[chunkHead:w.piece.n]
	if w.chunked && len(out) > 0 {
		out = w.piece.chunk()
	}
	if w.head != nil {
		out = append(w.head, out...)
		w.head = nil
	}
	w.piece.n = chunkHead
	w.write(out)
}

// chunk is the piece as a chunk. A size may have leading zeros.
func (p *piece) chunk() []byte {
	const hex = "0123456789abcdef"
	n := p.n - chunkHead
	p.buf[0], p.buf[1], p.buf[2], p.buf[3] = hex[n>>12&15], hex[n>>8&15], hex[n>>4&15], hex[n&15]
	p.buf[4], p.buf[5] = '\r', '\n'
	p.buf[p.n], p.buf[p.n+1] = '\r', '\n'
	return p.buf[:p.n+chunkTail]
}

func (w *Writer) write(out []byte) {
	if w.err != nil {
		return
	}
	if w.broken {
		w.err = ErrGone
		return
	}
	w.wrote = time.Now()
	_ = w.conn.SetWriteDeadline(w.wrote.Add(w.timeout(len(out))))
	n, err := w.conn.Write(out)
	w.taken += n
	w.spent += time.Since(w.wrote)
	if err == nil {
		return
	}
	w.broken = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.Cut()
	}
	if w.duplex {
		w.err = w.keep(out[n:], err)
	} else {
		w.err = fmt.Errorf("%w: %w", ErrGone, err)
		if tcp := tcpOf(w.conn); tcp != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			_ = tcp.SetLinger(0) // what it did not take is not kept for it
		}
	}
	w.cancel(w.err)
}

// About says what the stream shows, for lines of the log: pairs as of [slog.Logger.Log]. It is for who shows it, as are the next.
func (w *Writer) About(names ...any) { w.about = names }

// Names are what About was told.
func (w *Writer) Names() []any { return w.about }

// Log is a logger whose lines say what the stream shows.
func (w *Writer) Log() *slog.Logger { return w.set.cfg.Log.With(w.about...) }

// recover keeps a stream that panics from bringing down the process.
func (w *Writer) recover() { recovered(w.Log, recover()) }

// Cut counts the client as one that is cut off because it takes too little. It may be called from any goroutine.
func (w *Writer) Cut() { w.set.cuts.Add(1) }

// timeout is what a write of n bytes may take. Much that is written at once, as a stream begins or is behind, is taken at the
// server's least rate on the average.
func (w *Writer) timeout(n int) time.Duration {
	most := w.set.cfg.WriteTimeout
	if w.own != nil {
		most = min(most, most+w.own.ln.cfg.lasting(w.taken+n)-w.spent)
	}
	if w.set.stopping.Load() {
		return min(most, goodbye)
	}
	return most
}

// end ends the stream for which its source has returned err: when that is nil it writes what is left and the
// mark of a complete response. It reports whether the client may send its next request over c.
func (w *Writer) end(c net.Conn, err error) (next bool) {
	if err != nil {
		if !errors.Is(err, ErrGone) && !errors.Is(err, runtime.ErrStopping) {
			w.Log().Error("a stream failed", "error", err)
		}
		return false
	}
	_ = w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due.Store(never)
	next = w.lookAway(c) // before the client knows that this is the end
	if w.chunked {
		w.write([]byte(finalChunk))
	}
	if !next {
		w.Gone() // a socket closed with bytes unread would take back what it has sent
		return false
	}
	if w.err != nil {
		return false
	}
	_ = c.SetWriteDeadline(time.Time{}) // the stream's, which no server lifts that sets none
	if w.below != nil {
		setUserTimeout(w.below, 0)
	}
	return true
}

// lookAway has the stream leave what its client sends from now on, and reports true, unless there is nobody for it or
// some of it was thrown away.
func (w *Writer) lookAway(c net.Conn) bool {
	if w.last || w.own == nil || w.own.ln.cfg.Serve == nil || w.set.stopping.Load() {
		return false
	}
	_ = c.SetReadDeadline(time.Unix(1, 0)) // what came with the stream's request is read all the same
	n, _ := c.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	w.sight.Lock()
	defer w.sight.Unlock()
	w.away = n == 0 && !w.talked
	return w.away
}

// left reports whether the client has closed the connection.
func (w *Writer) left(p *probe) bool {
	w.sight.Lock()
	defer w.sight.Unlock()
	if w.away {
		return false
	}
	if w.raw == nil {
		return w.peer != nil && w.peer.Gone()
	}
	gone := p.left(w.raw)
	w.talked = w.talked || p.thrown
	return gone
}

// Gone looks whether the client has left. It may be called from any goroutine.
func (w *Writer) Gone() bool {
	p := probes.Get().(*probe)
	defer probes.Put(p)
	if w.duplex && w.below != nil { // what it has sent before is read
		if p.peek(w.below) != closed {
			return false
		}
	} else if !w.left(p) {
		return false
	}
	w.Leave()
	return true
}

// Leave ends a stream whose client has left. It may be called from any goroutine.
func (w *Writer) Leave() {
	w.cancel(ErrGone)
	_ = w.conn.SetWriteDeadline(time.Now()) // it may be stuck in a write
}

// End ends a stream for a reason, which is its context's cause: it has a second to say goodbye. It may be called from any
// goroutine.
func (w *Writer) End(why error) {
	w.cancel(why)
	_ = w.conn.SetWriteDeadline(time.Now().Add(goodbye)) // it may be stuck in a write
}

// look is the sweep's visit: it finds out whether the client has left, and pings a silent stream.
func (w *Writer) look(p *probe, now time.Time) {
	if w.raw == nil {
		switch {
		case w.Gone():
		case w.duplex && w.mute(p, now):
			w.Leave()
		default:
			w.pingSlowly(now)
		}
		return
	}
	if w.duplex && w.mute(p, now) || !w.duplex && w.left(p) {
		w.Leave()
		return
	}
	late := now.UnixMilli() - w.due.Load()
	if late < 0 || !w.mu.TryLock() {
		return // it is being written to
	}
	defer w.mu.Unlock()
	if w.due.Load() == never {
		return // it ended just now, and its connection may go on
	}
	if w.duplex { // before it can answer
		w.asked.CompareAndSwap(0, now.UnixMilli())
	}
	switch p.send(w.raw, w.alive) {
	case sent:
		w.pingAfter(now)
	case full: // the kernel holds so much for it already that it has not read for long
		if late > w.set.cfg.WriteTimeout.Milliseconds() {
			w.Cut()
			w.cancel(ErrSlow)
			w.Leave()
		}
	case broken:
		w.Leave()
	}
}

// pingAfter has the stream pinged once it was silent from t on: at random, as streams that began together
// should not be pinged together, and with the sweep's own delay never later than Ping.
func (w *Writer) pingAfter(t time.Time) {
	ping := w.set.cfg.Ping
	w.due.Store(t.Add(ping*13/15 + rand.N(max(ping/15, 1))).UnixMilli())
}

// pingSlowly pings a stream whose connection is not a socket, without waiting for it.
func (w *Writer) pingSlowly(now time.Time) {
	if now.UnixMilli() < w.due.Load() || !w.mu.TryLock() {
		return
	}
	if w.due.Load() == never {
		w.mu.Unlock()
		return // as in look
	}
	w.pingAfter(now)
	if w.duplex {
		w.asked.CompareAndSwap(0, now.UnixMilli())
	}
	go func() { // ends with the write's deadline
		defer w.mu.Unlock()
		_ = w.conn.SetWriteDeadline(now.Add(w.set.cfg.WriteTimeout))
		_, err := w.conn.Write(w.alive)
		if err == nil {
			return
		}
		w.broken, w.torn = true, true
		if errors.Is(err, os.ErrDeadlineExceeded) {
			w.Cut()
			w.cancel(ErrSlow)
		}
		w.Leave()
	}()
}
