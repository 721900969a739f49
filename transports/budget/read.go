package budget

import (
	"errors"
	"io"
)

// ErrTooLarge means that there is more to read than was allowed.
var ErrTooLarge = errors.New("there is more than allowed")

// first is the size of a buffer into which nothing was read yet.
const first = 1 << 10

// ReadAll reads r to its end, with the announced length, -1 for none, and adds it to h. It never holds
// more than twice the bytes that have come, whatever was announced. It fails with ErrTooLarge when there are more than limit bytes.
func (h *Hold) ReadAll(r io.Reader, announced, limit int) ([]byte, error) {
	if announced > limit {
		return nil, ErrTooLarge
	}
	if announced < 0 {
		announced = limit
	}
	buf, err := h.grow(nil, min(announced, first))
	for err == nil {
		if len(buf) == cap(buf) {
			if len(buf) >= announced {
				return buf, atEnd(r, announced < limit)
			}
			if buf, err = h.grow(buf, min(2*cap(buf), announced)); err != nil {
				break
			}
		}
		var n int
		n, err = r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
	}
	if errors.Is(err, io.EOF) {
		return buf, nil
	}
	return nil, err
}

// atEnd reads the end of r, behind which there is nothing.
func atEnd(r io.Reader, exact bool) error {
	var more [1]byte
	n, err := io.ReadFull(r, more[:])
	switch {
	case n > 0 && exact:
		return errors.New("there is more than was announced")
	case n > 0:
		return ErrTooLarge
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// grow returns a larger buffer with the content of buf. For a moment there are both.
func (h *Hold) grow(buf []byte, size int) ([]byte, error) {
	if err := h.Grow(size); err != nil {
		return nil, err
	}
	larger := append(make([]byte, 0, size), buf...)
	h.Shrink(cap(buf))
	return larger, nil
}
