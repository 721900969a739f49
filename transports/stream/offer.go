package stream

import (
	"syscall"
	"time"
)

// Form is how a stream's bytes go over its connection: streams of one form can be given the same ones.
type Form struct{ chunked bool }

// Form returns the stream's form, false when only the stream itself can write to its connection.
func (w *Writer) Form() (f Form, shared bool) { return Form{w.chunked}, w.raw != nil }

const blankHead = "00000000\r\n"

// Wrap returns what fill appends, about size bytes, as it goes over connections of this form.
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

// Offer writes p, of the stream's form, as far as the connection takes it at once, between two batches of the stream.
// It may be called from any goroutine and does not block. It reports false, and writes nothing, while somebody else
// writes to the stream; what is left of p otherwise must be handed to Finish if there is any: until then the stream
// is locked, as nothing may come between.
func (w *Writer) Offer(p []byte, now time.Time) (left []byte, ok bool) {
	if !w.turn.TryLock() {
		return nil, false
	}
	if !w.mu.TryLock() {
		w.turn.Unlock()
		return nil, false
	}
	left = p
	if !w.broken {
		left = p[startWrite(w.raw, p):]
	}
	w.wrote = now
	w.pingAfter(now)
	if len(left) == 0 {
		w.unlock()
	}
	return left, true
}

// Finish writes what Offer has left. It blocks and fails like Flush.
func (w *Writer) Finish(left []byte) error {
	if len(left) == 0 {
		return nil
	}
	defer w.unlock()
	w.write(left)
	return w.err
}

func (w *Writer) unlock() {
	w.mu.Unlock()
	w.turn.Unlock()
}

// startWrite sends what can be sent of p at once, and returns how much that was.
func startWrite(c syscall.RawConn, p []byte) int {
	pr := probes.Get().(*probe)
	defer probes.Put(pr)
	return pr.start(c, p)
}
