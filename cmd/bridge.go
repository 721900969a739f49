package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/batonrun/baton/runtime/agui"
)

// bridge passes the messages of an MCP client, a line each, on to the endpoint of a server, and what the server
// answers back. Requests do not wait for each other.
type bridge struct {
	server target
	in     io.Reader

	mu      sync.Mutex // guards the fields below
	out     io.Writer
	version string // of the protocol, once client and server have agreed on one
}

const (
	maxMessage  = 32 << 20 // bytes of a message
	maxRequests = 16       // under way at once
)

// pass passes messages until in ends and all that was asked is answered, ctx ends, or out fails.
func (b *bridge) pass(ctx context.Context) error {
	if err := retry(ctx, neverThere, func() error { return away(ready(ctx, b.server.http(), b.server.url)) }); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	read := make(chan error, 1)
	go func() { read <- b.read(ctx, stop) }() // ends with in, at the latest with the process
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		b.mu.Lock()
		b.out = io.Discard // for what is still under way
		b.mu.Unlock()
		return context.Cause(ctx)
	}
}

func (b *bridge) read(ctx context.Context, stop context.CancelCauseFunc) error {
	var requests sync.WaitGroup
	slots := make(chan struct{}, maxRequests)
	lines := bufio.NewScanner(b.in)
	lines.Buffer(make([]byte, 64<<10), maxMessage)
	for lines.Scan() {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 {
			continue
		}
		slots <- struct{}{}
		requests.Go(func() {
			defer func() { <-slots }()
			if err := b.request(ctx, line); err != nil {
				stop(err)
			}
		})
	}
	requests.Wait()
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a message: %w", err)
	}
	return context.Cause(ctx)
}

// message is what the bridge has to know of a message of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"` // nil for a notification
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// request makes one message a request to the server and writes what is answered. It fails when out does.
func (b *bridge) request(ctx context.Context, line []byte) error {
	var msg message
	_ = json.Unmarshal(line, &msg) // what is wrong with it the server says
	var answers [][]byte
	err := retry(ctx, restarting, func() (err error) {
		answers, err = b.post(ctx, &msg, line)
		return err
	})
	if err != nil {
		answers = msg.failure(err)
	}
	for _, answer := range answers {
		if err := b.answer(&msg, answer); err != nil {
			return err
		}
	}
	return nil
}

// post makes the request and returns the messages of the answer. Its error is an awayError when the server has not
// taken the request and may be asked again.
func (b *bridge) post(ctx context.Context, msg *message, line []byte) ([][]byte, error) {
	req, err := b.server.request(ctx, http.MethodPost, "/mcp", bytes.NewReader(line))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	b.mu.Lock()
	version := b.version
	b.mu.Unlock()
	if msg.Params.Meta.Version != "" { // of a client that needs no handshake
		version = msg.Params.Meta.Version
		req.Header.Set("Mcp-Method", msg.Method)
		if msg.Params.Name != "" {
			req.Header.Set("Mcp-Name", msg.Params.Name)
		}
	}
	if version != "" {
		req.Header.Set("Mcp-Protocol-Version", version)
	}
	res, err := b.server.http().Do(req)
	if err != nil {
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			err = away(err)
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusServiceUnavailable {
		return nil, away(refusal(res))
	}
	return messages(res)
}

// messages reads the messages of an answer, which may be none.
func messages(res *http.Response) ([][]byte, error) {
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return streamed(res.Body)
	}
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case isMessage(body):
		return [][]byte{body}, nil
	case res.StatusCode >= 300:
		res.Body = io.NopCloser(bytes.NewReader(body))
		return nil, refusal(res)
	}
	return nil, nil
}

// streamed reads the messages of an event stream, which ends with the answer.
func streamed(body io.ReadCloser) ([][]byte, error) {
	var list [][]byte
	for events := agui.NewReader(body, maxEvent); ; {
		_, data, err := events.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if isMessage(data) {
			list = append(list, bytes.Clone(data))
		}
	}
}

// away makes err, if there is one, a reason to try again.
func away(err error) error {
	if err == nil {
		return nil
	}
	return &awayError{err: err}
}

// isMessage reports whether body is of JSON-RPC: a message or several.
func isMessage(body []byte) bool {
	var one struct{ JSONRPC string }
	var several []json.RawMessage
	return json.Unmarshal(body, &one) == nil && one.JSONRPC != "" || json.Unmarshal(body, &several) == nil && several != nil
}

// answer writes what the server has answered to msg as one line.
func (b *bridge) answer(msg *message, body []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return err
	}
	line.WriteByte('\n')
	b.mu.Lock()
	defer b.mu.Unlock()
	if msg.Method == "initialize" {
		var agreed struct {
			Result struct{ ProtocolVersion string }
		}
		_ = json.Unmarshal(body, &agreed) // none when the server refused
		b.version = agreed.Result.ProtocolVersion
	}
	_, err := b.out.Write(line.Bytes())
	return err
}

// failure is the answer of JSON-RPC to a message that could not be passed on. A notification gets none.
func (m *message) failure(reason error) [][]byte {
	if m.Method != "" && m.ID == nil {
		return nil
	}
	const internal = -32603
	type problem struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(struct { // its id was decoded: it cannot fail
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"` // null for what is no message
		Error   problem         `json:"error"`
	}{"2.0", m.ID, problem{internal, reason.Error()}})
	return [][]byte{body}
}
