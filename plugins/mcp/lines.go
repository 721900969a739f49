package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/batonrun/baton/plugins/child"
)

// lines is the connection to a program: a message is a line. A program can write other lines, and its messages in several.
type lines struct {
	child *child.Child
	tap   *tap
	in    *bufio.Reader
	ready []jsonrpc.Message // read from the last line

	mu sync.Mutex // held while writing
}

// SessionID returns "": a program is its session.
func (l *lines) SessionID() string { return "" }

// Read returns the next message. It ends with the program's output or with Close.
func (l *lines) Read(context.Context) (jsonrpc.Message, error) {
	var open part
	for len(l.ready) == 0 {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if whole := open.join(line); whole != nil {
			l.ready = l.tap.spoken(whole)
		}
	}
	m := l.ready[0]
	l.ready = l.ready[1:]
	return m, nil
}

// ends matches the id at the beginning or the end of a response.
var ends = regexp.MustCompile(`^\{(?:"jsonrpc":\s*"2\.0",\s*)?"id":\s*("?\d+"?)|"id":\s*("?\d+"?)\s*\}\s*$`)

// line returns the next line. Instead of a line that is too long it returns a response that says so.
func (l *lines) line() ([]byte, error) {
	var whole, last []byte
	for {
		piece, err := l.in.ReadSlice('\n')
		if len(whole) <= maxFrame {
			whole = append(whole, piece...)
		}
		last = append(last[max(0, len(last)-256):], piece[max(0, len(piece)-256):]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(whole) == 0:
			return nil, err
		case len(whole) > maxFrame:
		case json.Valid(whole):
			return whole, nil
		default:
			return controls.ReplaceAll(whole, nil), nil
		}
		id := ends.FindSubmatch(append(whole[:256:256], last...))
		if id == nil {
			return bytes.ReplaceAll(whole[:200], []byte("{"), nil), nil
		}
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%q}}`, append(id[1], id[2]...), tooLarge), nil
	}
}

var tooLarge = fmt.Sprintf("The result is larger than %d MiB", maxFrame>>20)

// Write writes a message.
func (l *lines) Write(ctx context.Context, m jsonrpc.Message) error {
	l.tap.begin(ctx, m)
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.child.Input.Write(append(line, '\n'))
	return err
}

// Close closes the program's input and output.
func (l *lines) Close() error {
	return errors.Join(l.child.Input.Close(), l.child.Output.Close())
}

// part is the beginning of a message that goes on in the next lines.
type part struct {
	text           []byte
	depth          int // of open brackets
	quoted, escape bool
}

// join returns a line, or the whole message that ends with it, or nil if the message goes on.
func (p *part) join(line []byte) []byte {
	whole := bytes.TrimSpace(line)
	message := bytes.Contains(whole, []byte(`"jsonrpc"`)) && json.Valid(whole)
	if message || len(p.text) == 0 && !opens(whole) || len(p.text)+len(line) > maxFrame {
		*p = part{}
		return line
	}
	p.text = append(p.text, line...)
	if p.scan(line); p.depth > 0 && !p.quoted {
		return nil
	}
	whole = p.text
	*p = part{}
	return whole
}

// opens reports whether a line begins with an object.
func opens(line []byte) bool {
	inner, ok := bytes.CutPrefix(line, []byte("{"))
	inner = bytes.TrimSpace(inner)
	return ok && (len(inner) == 0 || inner[0] == '"')
}

// scan follows the brackets outside of strings.
func (p *part) scan(line []byte) {
	for _, b := range line {
		switch {
		case p.escape:
			p.escape = false
		case p.quoted && b == '\\':
			p.escape = true
		case b == '"':
			p.quoted = !p.quoted
		case p.quoted:
		case b == '{' || b == '[':
			p.depth++
		case b == '}' || b == ']':
			p.depth--
		}
	}
}
