package cmd

import (
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
	"github.com/batonrun/baton/transports/mcp"
)

// bridge forwards the messages of an MCP client, one per line, to the endpoint of a server, and writes the server's answers.
// Requests run concurrently.
type bridge struct {
	server target
	in     io.Reader

	mu      sync.Mutex // guards the fields below
	out     io.Writer
	version string // protocol version, set when client and server have agreed on one
}

const maxRequests = 16 // at once

// forward returns when in has ended and every request has its answer, when ctx ends, or when out fails.
func (b *bridge) forward(ctx context.Context) error {
	if err := retry(ctx, connectTimeout, func() error { return unavailable(ready(ctx, b.server.http(), b.server.url)) }); err != nil {
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
		b.out = io.Discard // for the answers to open requests
		b.mu.Unlock()
		return context.Cause(ctx)
	}
}

func (b *bridge) read(ctx context.Context, stop context.CancelCauseFunc) error {
	var requests sync.WaitGroup
	slots := make(chan struct{}, maxRequests)
	lines := mcp.NewLines(b.in, b)
	for {
		line, err := lines.Next()
		if err != nil {
			requests.Wait()
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("read a message: %w", err)
			}
			return context.Cause(ctx)
		}
		slots <- struct{}{}
		requests.Go(func() {
			defer func() { <-slots }()
			if err := b.request(ctx, line); err != nil {
				stop(err)
			}
		})
	}
}

// Write writes a line to the client.
func (b *bridge) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(line)
}

// message has the fields of a JSON-RPC message that the bridge needs.
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

// request sends one message to the server and writes the answers. It fails when out does.
func (b *bridge) request(ctx context.Context, line []byte) error {
	var msg message
	_ = json.Unmarshal(line, &msg) // the server reports errors in it
	var answers [][]byte
	err := retry(ctx, restartTimeout, func() (err error) {
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

// post makes the request and returns the messages of the answer. It returns an unavailableError when the server did not accept
// the request, which may then be repeated.
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
	if msg.Params.Meta.Version != "" { // the client does without a handshake
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
			err = unavailable(err)
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusServiceUnavailable {
		return nil, unavailable(refusal(res))
	}
	return messages(res)
}

// messages reads the messages of an answer. There may be none.
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

// streamed reads the messages of an event stream, which ends after the answer.
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

// unavailable wraps an error so that retry repeats the request. It returns nil for nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &unavailableError{err: err}
}

// isMessage reports whether body is a JSON-RPC message or a batch of them.
func isMessage(body []byte) bool {
	var one struct{ JSONRPC string }
	var several []json.RawMessage
	return json.Unmarshal(body, &one) == nil && one.JSONRPC != "" || json.Unmarshal(body, &several) == nil && several != nil
}

// answer writes the server's answer to msg as one line.
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
		_ = json.Unmarshal(body, &agreed) // empty if the server refused
		b.version = agreed.Result.ProtocolVersion
	}
	_, err := b.out.Write(line.Bytes())
	return err
}

// failure returns the JSON-RPC answer to a message that could not be forwarded. A notification gets none.
func (m *message) failure(reason error) [][]byte {
	if m.Method != "" && m.ID == nil {
		return nil
	}
	const internal = -32603
	type problem struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(struct { // cannot fail: the id was decoded before
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   problem         `json:"error"`
	}{"2.0", m.ID, problem{internal, reason.Error()}})
	return [][]byte{body}
}
