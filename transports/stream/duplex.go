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

// ErrSlow means that a stream's client is there but takes nothing any more. It is an ErrGone.
var ErrSlow = fmt.Errorf("%w: it takes nothing any more", ErrGone)

// Duplex says what is written to a connection on which both ends talk.
type Duplex struct {
	Ping []byte // asks the client for a sign of life
	// Control returns what is written for p, which is somebody else's, and whether it is the last that is to be written.
	Control func(p []byte) (frame []byte, last bool)
	Read    func(p []byte) // is shown all that is read
}

// Attach runs fn with the stream of a connection that has left HTTP and on which both ends talk, and returns
// when fn has. The connection stays the caller's to read, in a goroutine that calls Leave when that fails;
// whatever is read counts as a sign of life, which is asked for with a ping and must come within WriteTimeout. Of a
// connection that another server has accepted the caller tells what it reads, with Heard.
// What others write to c goes between two batches of the stream. Of the request nothing is left when fn runs.
//
// fn's context ends as that of Serve does, with the cause ErrSlow for a client that takes nothing.
func (s *Set) Attach(req *fasthttp.RequestCtx, c net.Conn, d Duplex, fn func(ctx context.Context, w *Writer)) {
	release(req)
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &Writer{set: s, duplex: true}
	w.begin(c, cancel, &s.cfg)
	w.alive = d.Ping
	w.pingAfter(time.Now())
	if w.own != nil {
		w.own.last, w.own.seen = d.Control, d.Read
		w.own.stream.Store(w)
	}
	s.add(w)
	defer s.remove(w)
	defer w.recover()
	fn(ctx, w)
}

// Guard runs fn, and logs its panic lest it bring down the process.
func (s *Set) Guard(fn func()) {
	defer s.recover()
	fn()
}

// Batch lets fn write and flushes, apart from the batches of other goroutines, any of which may call it. It blocks
// and fails like Flush.
func (w *Writer) Batch(fn func()) error {
	w.turn.Lock()
	defer w.endTurn()
	fn()
	return w.Flush()
}

// endTurn ends a batch, and the stream when the batch panicked half-way.
func (w *Writer) endTurn() {
	if w.piece != nil {
		w.err, w.broken, w.torn = ErrGone, true, true
		w.giveBack()
		w.Leave()
	}
	w.turn.Unlock()
}

// Fit sees to it that the next n bytes go out in one write, if a write can hold so many.
func (w *Writer) Fit(n int) {
	if w.piece != nil && w.piece.n+n > len(w.piece.buf)-chunkTail {
		w.send()
	}
}

// Linger has the connection, once it is closed, read on for a while what its client still sends: else that
// might never read the last that was sent to it. It may be called from any goroutine.
func (w *Writer) Linger() {
	if w.own != nil {
		w.own.linger.Store(true)
	}
}

// Farewell writes the last bytes of a stream that ended with ErrSlow, for a client that may yet wake up: they
// are left with the kernel behind what it has not taken, in a buffer made large enough. It does nothing when the
// client has got part of something that cannot be completed.
func (w *Writer) Farewell(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tcp, ok := w.conn.(*net.TCPConn)
	if !ok || w.torn {
		return
	}
	out := append(bytes.Clone(w.rest), p...)
	_ = tcp.SetWriteBuffer(2*w.set.cfg.SendBuffer + 2*len(out))
	_ = tcp.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := tcp.Write(out); err != nil {
		_ = tcp.SetLinger(0)
	}
}

// keep notes what a client has not taken of a write that failed, so that Farewell can complete it.
func (w *Writer) keep(rest []byte, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		w.torn = true
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	w.rest = bytes.Clone(rest)
	return fmt.Errorf("%w: %w", ErrSlow, err)
}

// interject writes p, which is whole, between two batches. Behind the last nothing is written any more.
func (w *Writer) interject(p []byte, last bool) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return 0, ErrGone
	}
	if last {
		w.cancel(ErrGone) // before its client knows: what that asks next finds the stream gone
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.timeout(0)))
	n, err := w.conn.Write(p)
	if err != nil {
		w.broken, w.torn = true, n > 0
		w.Leave()
	} else if last {
		w.broken, w.torn, w.alive = true, true, nil
	}
	return n, err
}

// Expect has what the client sends fail to be read unless it gets on, after what there is of it since it began. It is for who
// reads, as is Relax.
func (w *Writer) Expect(began time.Time, got int) {
	if w.own != nil {
		w.deadline(w.own.ln.cfg.until(began, got))
	}
}

// Relax has what the client sends take as long as it takes.
func (w *Writer) Relax() { w.deadline(time.Time{}) }

func (w *Writer) deadline(t time.Time) {
	w.ears.Lock()
	defer w.ears.Unlock()
	if w.own != nil && !w.deaf {
		_ = w.conn.SetReadDeadline(t)
	}
}

// Deafen has nothing be read any more after t, whatever Expect and Relax say. It may be called from any goroutine.
func (w *Writer) Deafen(t time.Time) {
	w.ears.Lock()
	defer w.ears.Unlock()
	w.deaf = true
	_ = w.conn.SetReadDeadline(t)
}

// Deaf reports whether Deafen was called.
func (w *Writer) Deaf() bool {
	w.ears.Lock()
	defer w.ears.Unlock()
	return w.deaf
}

// Heard notes a sign of life. It may be called from any goroutine.
func (w *Writer) Heard() { w.asked.Store(0) }

// mute reports whether the client has not answered for long, and what it may have sent is not still to be read, as far as
// the connection tells.
func (w *Writer) mute(p *probe, now time.Time) bool {
	asked := w.asked.Load()
	return asked != 0 && now.UnixMilli()-asked > w.set.cfg.WriteTimeout.Milliseconds() &&
		(w.below == nil || p.peek(w.below) != waiting)
}
