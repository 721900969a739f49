package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
)

// restarting is a server over HTTP that can be restarted: then its sessions are unknown, and down is called before each new one.
type restarting struct {
	generation atomic.Int64
	down       func(ctx context.Context) error
}

func (s *restarting) RoundTrip(req *http.Request) (*http.Response, error) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if req.Body != nil {
		body, _ := io.ReadAll(req.Body)
		_ = json.Unmarshal(body, &m)
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	req.Header.Set("Test-Id", string(m.ID))
	session := string('a' + rune(s.generation.Load()))
	w := httptest.NewRecorder()
	switch known := req.Header.Get("Mcp-Session-Id") == session; {
	case m.Method == "initialize":
		if s.generation.Load() > 0 {
			if err := s.down(req.Context()); err != nil {
				return nil, err
			}
		}
		w.Header().Set("Mcp-Session-Id", session)
		reply(w, req, helloResult)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case m.Method == "tools/list":
		reply(w, req, listResult)
	case m.Method == "tools/call":
		reply(w, req, `{"content":[{"type":"text","text":"hi"}]}`)
	default:
		normal(w, req)
	}
	return w.Result(), nil
}

// A call waits for a server that restarts as long as its time limit allows, and not for one whose port refuses connections.
func TestCall_WaitsForRestart(t *testing.T) {
	t.Parallel()
	refusing := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, tt := range map[string]struct {
		down  error         // of attempts to connect, nil if they hang
		until time.Duration // since the restart
		limit time.Duration // of the call
		works bool
		after time.Duration // at least, and a second more at most; zero for any time
	}{
		"slow":            {errors.New("bad gateway"), 20 * time.Second, time.Minute, true, 0},
		"slow to answer":  {nil, 20 * time.Second, time.Minute, true, 20 * time.Second},
		"too slow":        {errors.New("bad gateway"), time.Hour, 30 * time.Second, false, 29 * time.Second},
		"refused":         {refusing, 20 * time.Second, time.Minute, false, 0},
		"refused no more": {refusing, 0, time.Minute, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := new(restarting)
				begun := time.Now()
				web.down = func(ctx context.Context) error {
					left := tt.until - time.Since(begun)
					switch {
					case left <= 0:
						return nil
					case tt.down != nil:
						return tt.down
					}
					select {
					case <-time.After(left):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				s := started(t, mcp.Config{Name: "it", URL: "http://tools.test/mcp", Client: &http.Client{Transport: web}})
				put := func() (time.Duration, error) {
					ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
					defer cancel()
					begun := time.Now()
					_, err := find(t, s, "it.put").Call(ctx, &plugins.Call{ID: "c", Args: json.RawMessage(`{}`)})
					if ctx.Err() != nil {
						t.Error("the limit was reached")
					}
					return time.Since(begun), err
				}
				begun = time.Now()
				web.generation.Add(1)
				took, err := put()
				if failed, ok := errors.AsType[*plugins.Error](err); (err == nil) != tt.works || err != nil && (!ok || failed.Code != "tool_unavailable") {
					t.Errorf("after %s: %v", took, err)
				}
				if errors.Is(tt.down, refusing) && took > 2*time.Second || tt.after > 0 && (took < tt.after || took > tt.after+time.Second) {
					t.Errorf("it took %s", took)
				}
				if tt.until < time.Hour { // it is back, and a call finds it at once
					<-time.After(tt.until)
					if took, err := put(); err != nil || took > time.Second {
						t.Errorf("after its restart: %s, %v", took, err)
					}
				}
			})
		})
	}
}
