package remote

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/batonrun/baton/plugins"
)

// frame is one event of a stream.
type frame struct {
	id   string // of this event alone; empty when it has none
	data []byte // valid until the next frame is read
}

// frames reads server-sent events as the HTML standard has them: lines end with LF, CR or CRLF, data may have several,
// comments and fields of other names are nothing. Blocks without data are skipped.
type frames struct {
	in    *bufio.Reader
	left  int64 // bytes that may still come
	limit int   // of one event
	data  []byte
	begun bool // a line was read
	cr    bool // the last line ended with CR: an LF that follows belongs to it
}

func newFrames(r io.Reader, event int, stream int64) *frames {
	return &frames{in: bufio.NewReaderSize(r, 32<<10), left: stream, limit: event}
}

// errCut means that a stream ended without a word.
var errCut = errors.New("the stream was cut")

var errTooMuch = &plugins.Error{Code: "answer_too_large", Message: "The remote agent's answer is larger than what is taken"}

// next returns the next event. It fails with errCut at the end of the stream, also in the midst of an event.
func (f *frames) next() (frame, error) {
	var fr frame
	f.data = f.data[:0]
	lines := 0
	for {
		line, err := f.line()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if lines > 0 {
				fr.data = f.data
				return fr, nil
			}
			fr = frame{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if lines > 0 {
				f.data = append(f.data, '\n')
			}
			if len(f.data)+len(value) > f.limit {
				return frame{}, errTooMuch
			}
			f.data = append(f.data, value...)
			lines++
		case "id":
			if len(value) <= 200 && bytes.IndexByte(value, 0) < 0 {
				fr.id = string(value)
			}
		}
	}
}

// line returns the next line without its end, which is valid until the next read.
func (f *frames) line() ([]byte, error) {
	var long []byte // what did not fit the buffer
	for {
		piece, err := f.piece()
		if err != nil {
			return nil, err
		}
		end := bytes.IndexAny(piece, "\r\n")
		n := end
		if end < 0 {
			n = len(piece)
		}
		if len(long)+n > f.limit+16 {
			return nil, errTooMuch
		}
		switch {
		case end < 0:
			long = append(long, piece...)
			f.take(n)
			continue
		case long == nil:
			long = piece[:n:n]
		default:
			long = append(long, piece[:n]...)
		}
		f.cr = piece[n] == '\r'
		f.take(n + 1)
		if !f.begun {
			f.begun = true
			long = bytes.TrimPrefix(long, []byte("\uFEFF"))
		}
		return long, nil
	}
}

// piece returns what is buffered, at least one byte, without taking it.
func (f *frames) piece() ([]byte, error) {
	for {
		if _, err := f.in.Peek(1); err != nil {
			return nil, errCut
		}
		piece, _ := f.in.Peek(f.in.Buffered())
		skip := f.cr && piece[0] == '\n'
		f.cr = false
		switch {
		case f.left <= 0:
			return nil, errTooMuch
		case !skip:
			return piece, nil
		}
		f.take(1)
	}
}

func (f *frames) take(n int) {
	_, _ = f.in.Discard(n)
	f.left -= int64(n)
}
