package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/google/uuid"
)

// target is the measured server.
type target struct {
	addr string // host and port
	pid  int    // 0 if unknown
}

func newTarget(server string, pid int) (*target, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		return nil, fmt.Errorf("server: want a URL such as http://127.0.0.1:8080, got %q", server)
	}
	return &target{u.Host, pid}, nil
}

// cpu returns the CPU time that the server has used.
func (t *target) cpu() time.Duration {
	if t.pid == 0 {
		return 0
	}
	return cpu(t.pid)
}

// newThread returns a new thread's id.
func newThread() string { return "bench-" + uuid.NewString() }

func events(thread string) string { return "/api/v1/agent/runs/" + thread + "/events" }

func socketOf(thread string) string { return "/api/v1/agent/runs/" + thread + "/ws" }

const acceptStream = "Accept: text/event-stream\r\n"

// body returns the request body for a run of a script.
func body(thread, script string) []byte {
	b, _ := json.Marshal(map[string]string{"agent": "scripted", "threadId": thread, "content": script})
	return b
}

// start starts a run and returns its id.
func start(c *conn, thread, script string) (runID string, err error) {
	if err := c.send("POST", "/api/v1/agent/runs", "Accept: application/json\r\n", body(thread, script)); err != nil {
		return "", err
	}
	text, err := c.answer(202)
	if err != nil {
		return "", err
	}
	var started struct{ RunID string }
	err = json.Unmarshal(text, &started)
	return started.RunID, err
}

// answer reads a whole answer. It fails unless the answer has the status want.
func (c *conn) answer(want int) ([]byte, error) {
	status, err := c.receive()
	if err != nil {
		return nil, err
	}
	text, err := c.text()
	if err == nil && status != want {
		err = fmt.Errorf("status %d, want %d: %s", status, want, text)
	}
	return text, err
}

// stream requests a stream and reads its head.
func (c *conn) stream(path string) error {
	if err := c.send("GET", path, acceptStream, nil); err != nil {
		return err
	}
	return c.streaming()
}

func (c *conn) streaming() error {
	status, err := c.receive()
	if err == nil && status != 200 {
		text, _ := c.text()
		err = fmt.Errorf("status %d instead of a stream: %s", status, text)
	}
	return err
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration { return cpu(os.Getpid()) }
