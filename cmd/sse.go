package cmd

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// frame is one server-sent event.
type frame struct {
	id   int64 // 0 when it has none
	data []byte
}

// sseReader reads the frames of a stream whose data are single lines, as Baton's are.
type sseReader struct {
	body  io.ReadCloser
	lines *bufio.Reader
}

func newSSEReader(body io.ReadCloser) *sseReader {
	return &sseReader{body, bufio.NewReaderSize(body, 64<<10)}
}

// next returns the next frame, waiting for it. A frame that was cut off is not returned.
func (r *sseReader) next() (frame, error) {
	var f frame
	for {
		line, err := r.line()
		if err != nil {
			return frame{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return f, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			f.id, _ = strconv.ParseInt(string(value), 10, 64) // else it is no event's
		case "data":
			f.data = value
		}
	}
}

// maxFrame is how long a line may be, in bytes. An event of Baton's has 8 MB at most.
const maxFrame = 16 << 20

var errLongFrame = errors.New("the server sends an event of more than 16 MiB")

// line returns the next line with its end.
func (r *sseReader) line() (line []byte, err error) {
	for {
		piece, err := r.lines.ReadSlice('\n')
		if len(line)+len(piece) > maxFrame {
			return nil, errLongFrame
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (r *sseReader) close() error { return r.body.Close() }
