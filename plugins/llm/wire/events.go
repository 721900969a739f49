package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Events reads the data of server-sent events, whatever their names.
type Events struct {
	r    *bufio.Reader
	data []byte
	line []byte
}

// MaxEvent is the longest event or line that is read, in bytes.
const MaxEvent = 16 << 20

var errLong = errors.New("the answer, or a line of it, is too long")

// NewEvents reads from r.
func NewEvents(r io.Reader) *Events { return &Events{r: bufio.NewReaderSize(r, 16<<10)} }

// Next returns the next event's data, which is valid until Next is called again. It fails with io.EOF at the end; an
// event that the end cuts is lost.
func (e *Events) Next() ([]byte, error) {
	e.data = e.data[:0]
	for {
		line, err := e.Line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if len(e.data) > 0 {
				return e.data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue // a name, a comment, an id
		}
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
		if len(e.data) > MaxEvent {
			return nil, errLong
		}
	}
}

// Line returns the next line without its end, valid until the next call. It fails with io.EOF at the end; a line that
// the end cuts is lost.
func (e *Events) Line() ([]byte, error) {
	e.line = e.line[:0]
	for {
		piece, err := e.r.ReadSlice('\n')
		switch {
		case err == nil && len(e.line) == 0:
			return bytes.TrimRight(piece, "\r\n"), nil
		case err == nil:
			e.line = append(e.line, piece...)
			return bytes.TrimRight(e.line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if e.line = append(e.line, piece...); len(e.line) > MaxEvent {
			return nil, errLong
		}
	}
}
