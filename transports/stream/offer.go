package stream

import (
	"syscall"
	"time"
)

// Form is the transfer encoding of a stream. Streams of one form can share encoded bytes.
type Form struct{ chunked bool }

// Form returns the stream's form. It reports false if only the stream's own goroutine can write to its connection.
func (w *Writer) Form() (f Form, shared bool) { return Form{w.chunked}, w.raw != nil }

const blankHead = "00000000\r\n"

// Wrap returns the bytes that fill appends, about size of them, in the encoding of the form.
func (f Form) Wrap(size int, fill func(dst []byte) []byte) []byte {
	if !f.chunked {
		return fill(make([]byte, 0, size))
	}
	out := fill(append(make([]byte, 0, len(blankHead)+size+chunkTail), blankHead...))
	n := len(out) - len(blankHead)
	if n == 0 {
		return nil
	}
	for i := 7; i >= 0; i-- { // a size may have leading zeros
		out[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return append(out, "\r\n"...)
}

// Offer writes as much of p, which has the stream's form, as the connection accepts at once, between two batches of the
// stream. Any goroutine may call it; it does not block. It reports false, and writes nothing, while another goroutine
// writes to the stream. Otherwise it returns the unsent rest: if there is any, the stream stays locked until the rest is
// passed to Finish.
func (w *Writer) Offer(p []byte, now time.Time) (left []byte, ok bool) {
	if !w.batchMu.TryLock() {
		return nil, false
	}
	if !w.writeMu.TryLock() {
		w.batchMu.Unlock()
		return nil, false
	}
	left = p
	if !w.failed {
		left = p[startWrite(w.raw, p):]
	}
	w.wrote = now
	w.pingAfter(now)
	if len(left) == 0 {
		w.unlock()
	}
	return left, true
}

// Finish writes the unsent rest of Offer. It blocks and fails like Flush.
func (w *Writer) Finish(left []byte) error {
	if len(left) == 0 {
		return nil
	}
	defer w.unlock()
	w.write(left)
	return w.err
}

func (w *Writer) unlock() {
	w.writeMu.Unlock()
	w.batchMu.Unlock()
}

// startWrite sends as much of p as it can without blocking, and returns how much that was.
func startWrite(c syscall.RawConn, p []byte) int {
	pr := probes.Get().(*probe)
	defer probes.Put(pr)
	return pr.start(c, p)
}
