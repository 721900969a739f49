package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxLine is the largest message on a stream in bytes.
const maxLine = 32 << 20

// Lines reads the messages of a client, one per line. It answers a line that is no message with a JSON-RPC error, and goes on.
type Lines struct {
	in  *bufio.Reader
	out io.Writer // of the answers
}

// NewLines returns the messages in a stream. out must accept concurrent writes of others.
func NewLines(in io.Reader, out io.Writer) *Lines {
	return &Lines{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// Next returns the next message, without its line feed. It fails with io.EOF behind the last one, and with the errors of in and out.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, long, err := l.line()
		if err != nil {
			return nil, err
		}
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff"))) // some programs begin a stream with a byte order mark
		code, problem := 0, ""
		switch _, wrong := jsonrpc.DecodeMessage(line); {
		case long:
			code, problem = jsonrpc.CodeInvalidRequest, fmt.Sprintf("the line has more than %d MiB", maxLine>>20)
		case len(line) == 0:
			continue
		case !json.Valid(line):
			code, problem = jsonrpc.CodeParseError, "the line is not JSON"
		case line[0] == '[':
			code, problem = jsonrpc.CodeInvalidRequest, "a batch is not supported; send each message on a line of its own"
		case wrong != nil:
			code, problem = jsonrpc.CodeInvalidRequest, "the line is not a JSON-RPC message"
		default:
			return line, nil
		}
		if _, err := fmt.Fprintf(l.out, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, problem); err != nil {
			return nil, err
		}
	}
}

// line returns the next line. It drops the bytes of a line beyond maxLine.
func (l *Lines) line() (line []byte, long bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0: // the last line has no line feed
			return line, long, nil
		default:
			return line, long, err
		}
	}
}

// lineReader is a stream of the messages of Lines.
type lineReader struct {
	io.Closer
	lines *Lines
	rest  []byte
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		line, err := r.lines.Next()
		if err != nil {
			return 0, err
		}
		r.rest = append(line, '\n') //nolint:gocritic // the line is the reader's own
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// locked is a stream that several goroutines write to.
type locked struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *locked) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
