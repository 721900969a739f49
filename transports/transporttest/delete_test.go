package transporttest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports/transporttest"
)

// witness is a client that watches a thread until the server ends what it reads.
type witness struct {
	began chan struct{} // closed with the first thing it was shown
	once  sync.Once
	last  string // the data it was shown last
}

func (w *witness) see(data string) {
	w.last = data
	w.once.Do(func() { close(w.began) })
}

// doomed is a thread that is watched at every door while it is deleted.
type doomed struct {
	*transporttest.Server
	watching sync.WaitGroup
}

// post sends a request for a stream and reads what it is answered with.
func (d *doomed) post(path, body string) *witness {
	w := &witness{began: make(chan struct{})}
	d.watching.Go(func() { d.read(w, http.MethodPost, path, body) })
	return w
}

func (d *doomed) get(path string) *witness {
	w := &witness{began: make(chan struct{})}
	d.watching.Go(func() { d.read(w, http.MethodGet, path, "") })
	return w
}

func (d *doomed) read(w *witness, method, path, body string) {
	req, err := http.NewRequestWithContext(d.Context(), method, d.URL+path, strings.NewReader(body))
	if err != nil {
		d.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Error(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		d.Errorf("%s: %s", path, res.Status)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			w.see(data)
		}
	}
	if err := in.Err(); err != nil {
		d.Errorf("%s: %v", path, err)
	}
}

// dial sends a frame to a socket and reads what comes until it is closed as done, or until stop.
func (d *doomed) dial(path, frame string, stop func(msg string) bool) *witness {
	w := &witness{began: make(chan struct{})}
	dialer := websocket.Dialer{Subprotocols: []string{"baton.v1"}}
	conn, res, err := dialer.DialContext(d.Context(), "ws"+strings.TrimPrefix(d.URL, "http")+path, nil)
	if err != nil {
		d.Fatal(err)
	}
	_ = res.Body.Close()
	if frame != "" {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			d.Fatal(err)
		}
	}
	d.watching.Go(func() {
		defer conn.Close()
		for {
			_, msg, err := conn.ReadMessage()
			if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) && closed.Code == websocket.CloseNormalClosure {
				return
			}
			if err != nil {
				d.Errorf("%s: %v", path, err)
				return
			}
			if w.see(string(msg)); stop(string(msg)) {
				return
			}
		}
	})
	return w
}

func never(string) bool { return false }

// Whoever watches a thread that is deleted comes to an end, and a run's own stream to the run's.
func TestWatchersOfADeletedThreadComeToAnEnd(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + sqlitetest.New(t) },
		"PostgreSQL": func(t *testing.T) string { return postgrestest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			d := &doomed{Server: transporttest.Start(t, transporttest.Config{Database: open(t)})}
			for _, messages := range []int{1, 1200, 1, 1} { // the long thread goes in parts
				d.play(messages)
			}
		})
	}
}

func (d *doomed) play(messages int) {
	d.Helper()
	const thread = "doomed/1"
	const at = "doomed%2F1"
	request := func(run, script string, messages int) string {
		msgs := make([]map[string]string, messages)
		for i := range msgs {
			msgs[i] = map[string]string{"id": fmt.Sprint(run, " ", i), "role": "user", "content": script}
		}
		body, err := json.Marshal(map[string]any{
			"agent": "scripted", "threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": msgs,
			"tools": []any{}, "context": []any{}, "state": map[string]any{}, "forwardedProps": map[string]any{},
		})
		if err != nil {
			d.Fatal(err)
		}
		return string(body)
	}
	const stuck = `{"do": [{"say": "wait"}, {"tool": "sleep", "args": {"ms": 60000}}]}`
	own := map[string]*witness{"the run": d.post("/api/v1/agent/runs", request("running", stuck, messages))}
	<-own["the run"].began
	d.await("running", runtime.Running)
	shown := []*witness{
		d.get("/api/v1/agent/runs/" + at + "/events?follow=true"),
		d.get("/api/v1/agent/runs/" + at + "/events"),
		d.dial("/api/v1/agent/runs/"+at+"/ws?follow=true", "", never),
		d.dial("/api/v1/ws", `{"op": "subscribe", "ref": "1", "threadId": "doomed/1"}`, func(msg string) bool {
			return strings.Contains(msg, `"op":"error"`) && strings.Contains(msg, "Thread not found")
		}),
	}
	own["connect"] = d.post("/api/v1/agui/scripted/connect", request("joined", "", 0))
	shown = append(shown, own["connect"])
	own["a queued run"] = d.post("/api/v1/agui/scripted", request("queued", stuck, 1))
	d.await("queued", runtime.Queued)
	own["a queued run's socket"] = d.dial("/api/v1/agui/scripted/ws", request("queued too", stuck, 1), never)
	d.await("queued too", runtime.Queued)
	for _, w := range shown {
		<-w.began
	}

	req, err := http.NewRequestWithContext(d.Context(), http.MethodDelete, d.URL+"/api/v1/threads/"+at, nil)
	if err != nil {
		d.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		d.Fatalf("DELETE: %s", res.Status)
	}
	d.watching.Wait()
	for what, w := range own {
		if !strings.Contains(w.last, `"type":"RUN_FINISHED"`) && !strings.Contains(w.last, `"type":"RUN_ERROR"`) {
			d.Errorf("%s ended with %s", what, w.last)
		}
	}
	for _, path := range []string{"/api/v1/agent/runs/" + at + "/events", "/api/v1/agent/history?threadId=" + at} {
		res, err := http.Get(d.URL + path)
		if err != nil {
			d.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			d.Errorf("%s: %s", path, res.Status)
		}
	}
}

// await waits until a run is there and has a status.
func (d *doomed) await(run string, want runtime.Status) {
	d.Helper()
	d.Eventually(fmt.Sprintf("run %s is %s", run, want), func() bool {
		r, err := d.Runtime.Runs.Get(d.Context(), d.Caller, run)
		return err == nil && r.Status == want
	})
}
