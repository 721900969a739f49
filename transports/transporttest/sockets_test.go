package transporttest_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/transports/transporttest"
)

// dial opens a WebSocket of the scene's server.
func dial(t *testing.T, s *transporttest.Scene, path string, protocols ...string) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: protocols}
	conn, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+path, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	_ = res.Body.Close()
	return conn
}

// readSocket hands see each message until the server closes the socket because it is done, or see returns false.
func readSocket(t *testing.T, conn *websocket.Conn, see func(msg []byte) bool) {
	t.Helper()
	if conn == nil {
		return
	}
	defer conn.Close()
	for {
		_, msg, err := conn.ReadMessage()
		if closed := (*websocket.CloseError)(nil); errors.As(err, &closed) && closed.Code == websocket.CloseNormalClosure {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		if !see(msg) {
			return
		}
	}
}

// readMirror reads the thread's events from the socket that mirrors them.
func readMirror(t *testing.T, s *transporttest.Scene, after int64) []transporttest.Event {
	t.Helper()
	var all []transporttest.Event
	path := "/api/v1/agent/runs/" + url.PathEscape(s.Thread) + "/ws?after_event_id=" + strconv.FormatInt(after, 10)
	readSocket(t, dial(t, s, path), func(msg []byte) bool {
		all = append(all, decodeFrame(t, msg).event())
		return true
	})
	return all
}

// frame is a message of a socket whose events have ids.
type frame struct {
	Op       string
	ThreadID string
	ID       int64
	Body     json.RawMessage `json:"event"`
}

func decodeFrame(t *testing.T, msg []byte) frame {
	t.Helper()
	var f frame
	if err := json.Unmarshal(msg, &f); err != nil {
		t.Errorf("%s: %v", msg, err)
	}
	return f
}

func (f frame) event() transporttest.Event {
	return transporttest.Event{ID: f.ID, Body: transporttest.Decode(f.Body)}
}

// readSubscription reads the thread's events from a socket for many threads, up to the end that the log has now.
func readSubscription(t *testing.T, s *transporttest.Scene, after int64) []transporttest.Event {
	t.Helper()
	end := logEnd(t, s)
	if after >= end {
		return nil
	}
	conn := dial(t, s, "/api/v1/ws", "baton.v1")
	if conn == nil {
		return nil
	}
	if err := conn.WriteJSON(map[string]any{"op": "subscribe", "ref": "1", "threadId": s.Thread, "afterEventId": after}); err != nil {
		t.Error(err)
		return nil
	}
	var all []transporttest.Event
	readSocket(t, conn, func(msg []byte) bool {
		f := decodeFrame(t, msg)
		switch {
		case f.Op == "error" || f.Op == "event" && f.ThreadID != s.Thread:
			t.Errorf("%s", msg)
			return false
		case f.Op == "event":
			all = append(all, f.event())
		}
		return f.ID < end
	})
	return all
}

// logEnd is the id of the last event that the thread has now.
func logEnd(t *testing.T, s *transporttest.Scene) int64 {
	t.Helper()
	th, err := s.Runtime.Threads.Get(t.Context(), s.Caller, s.Thread)
	if err != nil {
		t.Error(err)
		return 0
	}
	cur, err := s.Runtime.Logs.Read(t.Context(), th, -1, true)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer cur.Close()
	return cur.After()
}

// readDoor reads what the runs' requests are answered with at AG-UI's socket, whose events have no
// ids.
func readDoor(t *testing.T, s *transporttest.Scene, _ int64) []transporttest.Event {
	t.Helper()
	var all []transporttest.Event
	for _, run := range s.Started() {
		conn := dial(t, s, "/api/v1/agui/"+run.Agent+run.Workflow+"/ws")
		if conn == nil {
			return nil
		}
		if err := conn.WriteMessage(websocket.TextMessage, run.Body); err != nil {
			t.Error(err)
			return nil
		}
		readSocket(t, conn, func(msg []byte) bool {
			all = append(all, transporttest.Event{Body: transporttest.Decode(msg)})
			return true
		})
	}
	return all
}
