package agui

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is returned by a Reader for an event or line above its limit.
var ErrTooLong = errors.New("the event is too long")

// Reader reads server-sent events as the HTML standard defines them: lines end with LF, CR or CRLF, an event can have
// several data lines, and comments and other fields are ignored.
type Reader struct {
	in    *bufio.Reader
	limit int
	line  []byte // a line that is longer than the buffer
	data  []byte
	begun bool // a line was read
	cr    bool // the last line ended with CR: a following LF belongs to it
}

// NewReader returns a Reader that fails with ErrTooLong for data of more than limit bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 32<<10), limit: limit}
}

// Next returns the id, if there is one, and the data of the next event that has data. data is valid until the next call.
// Next returns the error of the underlying reader, io.EOF at its end; an incomplete event is dropped.
func (r *Reader) Next() (id string, data []byte, err error) {
	r.data = r.data[:0]
	lines := 0
	for {
		line, err := r.Line()
		if err != nil {
			return "", nil, err
		}
		if len(line) == 0 {
			if len(r.data) > 0 {
				return id, r.data, nil
			}
			id, lines = "", 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if lines > 0 {
				r.data = append(r.data, '\n')
			}
			if len(r.data)+len(value) > r.limit {
				return "", nil, ErrTooLong
			}
			r.data = append(r.data, value...)
			lines++
		case "id":
			if len(value) <= 200 && bytes.IndexByte(value, 0) < 0 {
				id = string(value)
			}
		}
	}
}

// Line returns the next line without its end, valid until the next call. An incomplete last line is left to Rest.
func (r *Reader) Line() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		piece, _ := r.in.Peek(r.in.Buffered())
		if r.cr && piece[0] == '\n' {
			r.cr = false
			_, _ = r.in.Discard(1)
			continue
		}
		r.cr = false
		end := bytes.IndexByte(piece, '\n')
		whole := end >= 0
		if whole {
			piece = piece[:end]
		}
		if cr := bytes.IndexByte(piece, '\r'); cr >= 0 {
			piece, whole, r.cr = piece[:cr], true, true
		}
		if len(r.line)+len(piece) > r.limit+len("data: ") {
			return nil, ErrTooLong
		}
		if !whole {
			r.line = append(r.line, piece...)
			_, _ = r.in.Discard(len(piece))
			continue
		}
		_, _ = r.in.Discard(len(piece) + 1)
		if len(r.line) > 0 {
			r.line = append(r.line, piece...)
			piece = r.line
		}
		if !r.begun {
			r.begun = true
			piece = bytes.TrimPrefix(piece, []byte("\uFEFF"))
		}
		return piece, nil
	}
}

// Rest returns what was read of the last line after Line has failed, for streams that end without a line end.
func (r *Reader) Rest() []byte {
	if r.begun {
		return r.line
	}
	return bytes.TrimPrefix(r.line, []byte("\uFEFF"))
}
