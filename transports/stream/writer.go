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

// ErrGone means that a stream's client has disconnected, or has stopped reading.
var ErrGone = errors.New("the client has left")

// goodbye is the limit for a stream's last write when the server stops.
const goodbye = time.Second

// Writer is the writing end of one stream. One goroutine uses it, except for the methods that allow any goroutine.
type Writer struct {
	Sent func(bytes int) // called after each batch, by the goroutine that writes it; nil for none

	set     *Set
	conn    net.Conn
	raw     syscall.RawConn // nil when the connection is not a socket
	below   syscall.RawConn // the socket, also below TLS; nil when there is none
	peer    peer            // the connection, when it is not a socket but knows whether its client has disconnected
	cancel  context.CancelCauseFunc
	chunked bool
	duplex  bool          // both ends send: see Attach
	final   bool          // the connection carries no request after this one
	own     *Conn         // nil when the connection is not a Listener's
	labels  []any         // see Describe
	head    []byte        // the response's head, nil once it was written
	done    chan struct{} // closed when the stream has ended, if Shutdown waits for it; guarded by Set.mu

	nextPing atomic.Int64 // in Unix ms
	pingedAt atomic.Int64 // the oldest unanswered ping, in Unix ms, else 0

	batchMu sync.Mutex // held during a batch, when several goroutines write batches

	keepAlive []byte        // a whole chunk that is written to a silent stream
	piece     *piece        // the bytes that are not flushed, nil for none
	wrote     time.Time     // when the last write began
	written   int           // bytes since the last Flush
	writeTime time.Duration // spent on writing them
	err       error         // of the first batch that failed

	writeMu sync.Mutex // held from the first Write until its Flush, so that no ping splits an event; guards the fields below
	failed  bool       // a write has failed
	partial bool       // the client has got a part of an event that cannot be completed
	unsent  []byte     // the rest of the write that failed

	readMu      sync.Mutex // guards the field below
	readStopped bool       // nothing more is read

	inputMu    sync.Mutex // guards the fields below
	handedBack bool       // the server reads the connection, as its stream has ended
	discarded  bool       // some of the client's input was discarded
}

// peer is a connection that knows whether its client has disconnected.
type peer interface{ Gone() bool }

// never is the time of a ping that is not sent.
const never = math.MaxInt64

// piece is a buffer for one chunk. Idle streams have none: pieces return to the pool.
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

func (w *Writer) setUp(conn net.Conn, cancel context.CancelCauseFunc, cfg *Config) {
	w.conn, w.raw, w.own = socket(conn)
	w.peer, _ = w.conn.(peer)
	w.below = rawOf(w.conn)
	w.cancel = cancel
	w.nextPing.Store(never)
	w.KeepAlive(": ping\n")
	if tcp := tcpOf(w.conn); tcp != nil {
		_ = tcp.SetWriteBuffer(cfg.SendBuffer)
	}
	timeout := cfg.WriteTimeout
	if w.duplex {
		timeout *= 2 // so that a client that resumes in time reads why it was given up
	}
	if w.below != nil {
		setUserTimeout(w.below, timeout)
	}
}

// KeepAlive sets the frame that is written to a silent stream; the default is a comment.
func (w *Writer) KeepAlive(frame string) {
	w.keepAlive = []byte(frame)
	if w.chunked {
		w.keepAlive = fmt.Appendf(nil, "%x\r\n%s\r\n", len(frame), frame)
	}
}

// Write buffers p, and writes each full piece. It blocks while the client does not read, and fails with ErrGone when that
// has lasted too long. Call Flush after the last Write of a batch.
func (w *Writer) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) && w.err == nil {
		w.beginPiece()
		k := copy(w.piece.buf[w.piece.n:len(w.piece.buf)-chunkTail], p[n:])
		w.piece.n += k
		if n += k; n < len(p) {
			w.send()
			w.partial = w.partial || w.err != nil
		}
	}
	return n, w.err
}

// beginPiece begins a piece unless there is one, and prevents pings until Flush.
func (w *Writer) beginPiece() {
	if w.piece == nil {
		w.writeMu.Lock()
		w.piece = pieces.Get().(*piece)
		w.piece.n = chunkHead
		w.written, w.writeTime = 0, 0
	}
}

// WriteString is Write for a string.
func (w *Writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Flush writes the buffered bytes; the first Flush also writes the response's head.
func (w *Writer) Flush() error {
	if w.piece == nil && (w.head == nil || w.err != nil) {
		return w.err
	}
	w.beginPiece()
	w.send()
	w.pingAfter(w.wrote)
	if w.Sent != nil {
		w.Sent(w.written)
	}
	w.releasePiece()
	return w.err
}

func (w *Writer) releasePiece() {
	pieces.Put(w.piece)
	w.piece = nil
	w.writeMu.Unlock()
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
	if w.failed {
		w.err = ErrGone
		return
	}
	w.wrote = time.Now()
	_ = w.conn.SetWriteDeadline(w.wrote.Add(w.timeout(len(out))))
	n, err := w.conn.Write(out)
	w.written += n
	w.writeTime += time.Since(w.wrote)
	if err == nil {
		return
	}
	w.failed = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.CountCut()
	}
	if w.duplex {
		w.err = w.keepUnsent(out[n:], err)
	} else {
		w.err = fmt.Errorf("%w: %w", ErrGone, err)
		if tcp := tcpOf(w.conn); tcp != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			_ = tcp.SetLinger(0) // the kernel discards the unsent bytes
		}
	}
	w.cancel(w.err)
}

// Describe sets the pairs that identify the stream in the log, as of [slog.Logger.Log]. Only the stream's own goroutine calls
// Describe, Labels and Log.
func (w *Writer) Describe(names ...any) { w.labels = names }

// Labels returns the pairs of Describe.
func (w *Writer) Labels() []any { return w.labels }

// Log returns a logger with the stream's labels.
func (w *Writer) Log() *slog.Logger { return w.set.cfg.Log.With(w.labels...) }

// recover logs a panic of the stream, which must not end the process.
func (w *Writer) recover() { recovered(w.Log, recover()) }

// CountCut counts a client that is cut off because it reads too little. Any goroutine may call it.
func (w *Writer) CountCut() { w.set.cuts.Add(1) }

// timeout is the limit for a write of n bytes. A large batch, as at a stream's beginning or behind a backlog, must be read at
// the server's minimum rate on average.
func (w *Writer) timeout(n int) time.Duration {
	most := w.set.cfg.WriteTimeout
	if w.own != nil {
		most = min(most, most+w.own.ln.cfg.lasting(w.written+n)-w.writeTime)
	}
	if w.set.stopping.Load() {
		return min(most, goodbye)
	}
	return most
}

// finish ends the stream with the result of its source. If err is nil it flushes and completes the response. It reports
// whether c can carry the client's next request.
func (w *Writer) finish(c net.Conn, err error) (next bool) {
	if err != nil {
		if !errors.Is(err, ErrGone) && !errors.Is(err, runtime.ErrStopping) {
			w.Log().Error("a stream failed", "error", err)
		}
		return false
	}
	_ = w.Flush()
	w.writeMu.Lock()
	defer w.writeMu.Unlock()
	w.nextPing.Store(never)
	next = w.handBack(c) // before the client sees the end
	if w.chunked {
		w.write([]byte(finalChunk))
	}
	if !next {
		w.Gone() // discards input: closing a socket with unread bytes would reset it and lose the last write
		return false
	}
	if w.err != nil {
		return false
	}
	_ = c.SetWriteDeadline(time.Time{}) // a server without write timeouts would not reset the stream's
	if w.below != nil {
		setUserTimeout(w.below, 0)
	}
	return true
}

// handBack returns the connection's input to the server. It reports false if the server takes no further request, or if some
// input was discarded.
func (w *Writer) handBack(c net.Conn) bool {
	if w.final || w.own == nil || w.own.ln.cfg.Serve == nil || w.set.stopping.Load() {
		return false
	}
	_ = c.SetReadDeadline(time.Unix(1, 0)) // reads only what fasthttp has buffered with the request
	n, _ := c.Read(make([]byte, 1))
	_ = c.SetReadDeadline(time.Time{})
	w.inputMu.Lock()
	defer w.inputMu.Unlock()
	w.handedBack = n == 0 && !w.discarded
	return w.handedBack
}

// clientLeft reports whether the client has closed the connection. It discards input.
func (w *Writer) clientLeft(p *probe) bool {
	w.inputMu.Lock()
	defer w.inputMu.Unlock()
	if w.handedBack {
		return false
	}
	if w.raw == nil {
		return w.peer != nil && w.peer.Gone()
	}
	gone := p.left(w.raw)
	w.discarded = w.discarded || p.thrown
	return gone
}

// Gone checks whether the client has disconnected, and then aborts the stream. Any goroutine may call it.
func (w *Writer) Gone() bool {
	p := probes.Get().(*probe)
	defer probes.Put(p)
	if w.duplex && w.below != nil { // its earlier input is still to be read
		if p.peek(w.below) != closed {
			return false
		}
	} else if !w.clientLeft(p) {
		return false
	}
	w.Abort()
	return true
}

// Abort ends the stream at once, with the cause ErrGone. Any goroutine may call it.
func (w *Writer) Abort() {
	w.cancel(ErrGone)
	_ = w.conn.SetWriteDeadline(time.Now()) // a write may be blocked
}

// End cancels the stream's context with the cause why. The stream then has a second for its last write. Any goroutine may call
// it.
func (w *Writer) End(why error) {
	w.cancel(why)
	_ = w.conn.SetWriteDeadline(time.Now().Add(goodbye)) // a write may be blocked
}

// visit is called by the sweep: it aborts the stream if its client has disconnected, and pings it if it is silent.
func (w *Writer) visit(p *probe, now time.Time) {
	if w.raw == nil {
		switch {
		case w.Gone():
		case w.duplex && w.unresponsive(p, now):
			w.Abort()
		default:
			w.pingSlowly(now)
		}
		return
	}
	if w.duplex && w.unresponsive(p, now) || !w.duplex && w.clientLeft(p) {
		w.Abort()
		return
	}
	late := now.UnixMilli() - w.nextPing.Load()
	if late < 0 || !w.writeMu.TryLock() {
		return // a batch is being written
	}
	defer w.writeMu.Unlock()
	if w.nextPing.Load() == never || w.failed {
		return // the stream has just ended, and the server may use its connection; or the client has only a part of an event
	}
	if w.duplex { // before the client can answer
		w.pingedAt.CompareAndSwap(0, now.UnixMilli())
	}
	switch p.send(w.raw, w.keepAlive) {
	case sent:
		w.pingAfter(now)
	case full: // the kernel's buffer is full, so the client has not read for long
		if late > w.set.cfg.WriteTimeout.Milliseconds() {
			w.CountCut()
			w.cancel(ErrSlow)
			w.Abort()
		}
	case broken:
		w.Abort()
	}
}

// pingAfter schedules the ping of a stream that is silent from t on. The time is random, so that streams that began together
// are not pinged together; with the sweep's delay it is never later than Ping.
func (w *Writer) pingAfter(t time.Time) {
	ping := w.set.cfg.Ping
	w.nextPing.Store(t.Add(ping*13/15 + rand.N(max(ping/15, 1))).UnixMilli())
}

// pingSlowly pings a stream whose connection is not a socket, in a goroutine, as the write may block.
func (w *Writer) pingSlowly(now time.Time) {
	if now.UnixMilli() < w.nextPing.Load() || !w.writeMu.TryLock() {
		return
	}
	if w.nextPing.Load() == never || w.failed {
		w.writeMu.Unlock()
		return // as in visit
	}
	w.pingAfter(now)
	if w.duplex {
		w.pingedAt.CompareAndSwap(0, now.UnixMilli())
	}
	go func() { // ends with the write's deadline
		defer w.writeMu.Unlock()
		_ = w.conn.SetWriteDeadline(now.Add(w.set.cfg.WriteTimeout))
		_, err := w.conn.Write(w.keepAlive)
		if err == nil {
			return
		}
		w.failed, w.partial = true, true
		if errors.Is(err, os.ErrDeadlineExceeded) {
			w.CountCut()
			w.cancel(ErrSlow)
		}
		w.Abort()
	}()
}
