package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// ErrSlow means that a client is connected but has stopped reading. It is an ErrGone.
var ErrSlow = fmt.Errorf("%w: it has stopped reading", ErrGone)

// Duplex configures a stream on which both ends send.
type Duplex struct {
	Ping []byte // makes the client answer
	// Control returns the frame to write for p, which other code wrote to the connection, and whether it is the last one.
	Control func(p []byte) (frame []byte, last bool)
	Read    func(p []byte) // called with all bytes that are read
}

// Attach runs fn with the stream of a connection that was upgraded from HTTP and on which both ends send, and returns
// when fn has. The caller reads the connection in another goroutine, which calls Abort when reading fails. Any input
// proves that the client is alive; after a ping some must arrive within WriteTimeout. For a connection that another server has
// accepted, the caller reports input with Alive. Other writes to c go between two batches of the stream. Attach frees the
// request before fn runs.
//
// fn's context ends as that of Serve does, and with the cause ErrSlow for a client that does not read.
func (s *Set) Attach(req *fasthttp.RequestCtx, c net.Conn, d Duplex, fn func(ctx context.Context, w *Writer)) {
	release(req)
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &Writer{set: s, duplex: true}
	w.setUp(c, cancel, &s.cfg)
	w.keepAlive = d.Ping
	w.pingAfter(time.Now())
	if w.own != nil {
		w.own.control, w.own.onRead = d.Control, d.Read
		w.own.stream.Store(w)
	}
	s.add(w)
	defer s.remove(w)
	defer w.recover()
	fn(ctx, w)
}

// Guard runs fn, and logs a panic of fn, which must not end the process.
func (s *Set) Guard(fn func()) {
	defer s.recover()
	fn()
}

// Batch runs fn, which writes, and flushes. Batches of several goroutines do not mix. It blocks and fails like Flush.
func (w *Writer) Batch(fn func()) error {
	w.batchMu.Lock()
	defer w.endBatch()
	fn()
	return w.Flush()
}

// endBatch ends a batch. It aborts the stream if the batch panicked before its Flush.
func (w *Writer) endBatch() {
	if w.piece != nil {
		w.err, w.failed, w.partial = ErrGone, true, true
		w.releasePiece()
		w.Abort()
	}
	w.batchMu.Unlock()
}

// Fit makes the next n bytes go out in one write, if they fit into a piece.
func (w *Writer) Fit(n int) {
	if w.piece != nil && w.piece.n+n > len(w.piece.buf)-chunkTail {
		w.send()
	}
}

// Linger makes Close read and discard the client's input for a while: otherwise the client might never read the last
// write. Any goroutine may call it.
func (w *Writer) Linger() {
	if w.own != nil {
		w.own.linger.Store(true)
	}
}

// Farewell writes the last bytes of a stream that ended with ErrSlow, for a client that may resume reading: it puts them into the
// kernel's buffer behind the unsent bytes, and enlarges the buffer for that. It does nothing if the client has got a part of an
// event that cannot be completed.
func (w *Writer) Farewell(p []byte) {
	w.writeMu.Lock()
	defer w.writeMu.Unlock()
	tcp, ok := w.conn.(*net.TCPConn)
	if !ok || w.partial {
		return
	}
	out := append(bytes.Clone(w.unsent), p...)
	_ = tcp.SetWriteBuffer(2*w.set.cfg.SendBuffer + 2*len(out))
	_ = tcp.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := tcp.Write(out); err != nil {
		_ = tcp.SetLinger(0)
	}
}

// keepUnsent stores the rest of a failed write, so that Farewell can complete it.
func (w *Writer) keepUnsent(rest []byte, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		w.partial = true
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	w.unsent = bytes.Clone(rest)
	return fmt.Errorf("%w: %w", ErrSlow, err)
}

// interject writes the whole frame p between two batches. After the last frame nothing more is written.
func (w *Writer) interject(p []byte, last bool) (int, error) {
	w.writeMu.Lock()
	defer w.writeMu.Unlock()
	if w.failed {
		return 0, ErrGone
	}
	if last {
		w.cancel(ErrGone) // before the client sees it: its next request must find the stream ended
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.timeout(0)))
	n, err := w.conn.Write(p)
	if err != nil {
		w.failed, w.partial = true, n > 0
		w.Abort()
	} else if last {
		w.failed, w.partial, w.keepAlive = true, true, nil
	}
	return n, err
}

// LimitReads sets the read deadline for a message that began at began and of which got bytes have arrived. Only the goroutine
// that reads calls LimitReads and UnlimitReads.
func (w *Writer) LimitReads(began time.Time, got int) {
	if w.own != nil {
		w.setReadDeadline(w.own.ln.cfg.until(began, got))
	}
}

// UnlimitReads removes the read deadline.
func (w *Writer) UnlimitReads() { w.setReadDeadline(time.Time{}) }

func (w *Writer) setReadDeadline(t time.Time) {
	w.readMu.Lock()
	defer w.readMu.Unlock()
	if w.own != nil && !w.readStopped {
		_ = w.conn.SetReadDeadline(t)
	}
}

// StopReading ends all reading at t; LimitReads and UnlimitReads have no effect any more. Any goroutine may call it.
func (w *Writer) StopReading(t time.Time) {
	w.readMu.Lock()
	defer w.readMu.Unlock()
	w.readStopped = true
	_ = w.conn.SetReadDeadline(t)
}

// ReadingStopped reports whether StopReading was called.
func (w *Writer) ReadingStopped() bool {
	w.readMu.Lock()
	defer w.readMu.Unlock()
	return w.readStopped
}

// Alive reports input of the client. Any goroutine may call it.
func (w *Writer) Alive() { w.pingedAt.Store(0) }

// unresponsive reports whether the client has not answered a ping for WriteTimeout, and has no input that waits to be read, as
// far as the connection shows.
func (w *Writer) unresponsive(p *probe, now time.Time) bool {
	asked := w.pingedAt.Load()
	return asked != 0 && now.UnixMilli()-asked > w.set.cfg.WriteTimeout.Milliseconds() &&
		(w.below == nil || p.peek(w.below) != waiting)
}
