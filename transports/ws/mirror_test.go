package ws_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/transports"
)

const words = `{"say": "one two three"}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"state": {"n": 1}}, {"say": "four five"}`

func TestSubprotocolShowsBareEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`)
	s.request("POST", "/api/projects/default/agent-runs/a/cancel")
	for offered, want := range map[string]struct{ spoken, cancelled string }{
		"agui":          {"agui", `"code":"CANCELLED"`},
		"agui.1":        {"agui.1", `"outcome":{"type":"cancelled"}`},
		"x, agui.1":     {"agui.1", `"outcome":{"type":"cancelled"}`},
		"agui.1, agui ": {"agui.1", `"outcome":{"type":"cancelled"}`},
	} {
		c := s.watch("main", "", protocolHeader, offered)
		all := c.all(1000)
		if c.Subprotocol() != want.spoken || !strings.HasPrefix(all[0], `{"type":"RUN_STARTED"`) || !strings.Contains(all[len(all)-1], want.cancelled) {
			t.Errorf("%s: got %q, %s", offered, c.Subprotocol(), all)
		}
	}
	c := s.watch("main", "", protocolHeader, "graphql")
	if all := c.all(1000); c.Subprotocol() != "" || !strings.HasPrefix(all[0], `{"id":1,"event":{`) {
		t.Errorf("got %q, %s", c.Subprotocol(), all)
	}
}

func TestWhatIsWrongClosesTheSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", `{"say": "one"}`).RunID, "COMPLETED")
	for path, want := range map[string]int{
		"main/ws?after_event_id=x":    4400,
		"main/ws?after_event_id=-1":   4400,
		"main/ws?after_event_id=1000": 4400,
		"main/ws?follow=maybe":        4400,
		"main/ws?gather=1001":         4400,
		"main/ws?projectId=other":     4404,
		"other/ws":                    4404,
		"%25zz/ws":                    4404,
	} {
		_, _, err := s.open("/api/v1/agent/runs/" + path).ReadMessage()
		if reason := (&socket{s: s}).closed(err, want); reason == "" || len(reason) > 123 {
			t.Errorf("%s: got the reason %q", path, reason)
		}
	}
}

func TestFramesOfAnySize(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	var ops []string
	for _, n := range []int{1, 100, 126, 40_000, 65_000, 66_000, 300_000} {
		ops = append(ops, fmt.Sprintf(`{"tokens": 3, "size": %d}`, n))
	}
	s.Await(s.Script("main", strings.Join(ops, ",")).RunID, "COMPLETED")
	if want, got := frames(s.events("main")), s.watch("main", "").all(1000); !slices.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

// A removed range is shown as three frames, of which only the last has an id: a viewer that disconnects within gets all of them again.
func TestReset_IsWholeForAViewerCutWithin(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for thread, deleted := range map[string][]int{"first": {0}, "middle": {1}, "last": {2}, "all": {0, 1, 2}} {
		var runs []string
		for i := range 3 {
			runs = append(runs, s.Script(thread, fmt.Sprintf(`{"say": "one"}, {"state": {"n": %d}}`, i)).RunID)
			s.Await(runs[i], "COMPLETED")
		}
		all := s.events(thread)
		end := all[len(all)-1].ID
		for _, i := range deleted {
			if status, body := s.request("DELETE", "/api/projects/default/agent-runs/"+runs[i]); status != http.StatusNoContent {
				t.Fatalf("got %d %s", status, body)
			}
		}
		for door, read := range map[string]func(after int64) []numbered{
			"SSE": func(after int64) []numbered { return s.events(thread, "Last-Event-ID", fmt.Sprint(after)) },
			"the mirror": func(after int64) (list []numbered) {
				for _, frame := range s.watch(thread, fmt.Sprintf("?after_event_id=%d", after)).all(1000) {
					list = append(list, parse(t, frame))
				}
				return list
			},
			"a socket with many": func(after int64) (list []numbered) {
				c := s.many()
				c.send(fmt.Sprintf(`{"op": "subscribe", "threadId": %q, "afterEventId": %d}`, thread, after))
				c.until(`"ack"`)
				for len(list) == 0 || list[len(list)-1].ID != end {
					list = append(list, parse(t, c.next()))
				}
				return list
			},
		} {
			got := read(0)
			at := slices.IndexFunc(got, func(n numbered) bool { return strings.Contains(string(n.Event), `"log-reset"`) })
			if at < 0 || got[at].ID != 0 || got[at+1].ID != 0 || got[at+2].ID == 0 {
				t.Fatalf("%s, %s: got %s", thread, door, untimed(got))
			}
			for _, n := range got[at : at+3] {
				var whose map[string]any
				_ = json.Unmarshal(n.Event, &whose)
				if _, ok := whose["runId"].(string); !ok || whose["threadId"] != thread || whose["agent"] != "scripted" && len(deleted) < 3 {
					t.Errorf("%s, %s: whose is %s", thread, door, n.Event)
				}
			}
			for i := range got { // a viewer who has this frame and no more
				seen := slices.Clone(got[:i+1])
				slices.Reverse(seen)
				last := slices.IndexFunc(seen, func(n numbered) bool { return n.ID != 0 })
				after, rest := int64(0), got
				if last >= 0 {
					after, rest = seen[last].ID, got[i+1-last:]
				}
				if after == end {
					continue
				}
				if diff := cmp.Diff(untimed(rest), untimed(read(after))); diff != "" {
					t.Errorf("%s, %s: behind %d comes\n%s", thread, door, after, diff)
				}
			}
		}
	}
}

func parse(t *testing.T, frame string) (n numbered) {
	t.Helper()
	if err := json.Unmarshal([]byte(frame), &n); err != nil {
		t.Fatalf("%v in %s", err, frame)
	}
	return n
}

// untimed are events without their times, as events that are not in the log are made for each reader.
func untimed(all []numbered) (list []string) {
	for _, n := range all {
		list = append(list, aTime.ReplaceAllString(n.frame(), ""))
	}
	return list
}

var aTime = regexp.MustCompile(`,"timestamp":\d+`)

func TestClientWithNothingToSayMaySayLittle(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
	c := s.watch("main", "")
	c.until("STEP_STARTED")
	for range 100 {
		c.send(strings.Repeat("x", 1000))
		_ = c.WriteMessage(websocket.BinaryMessage, []byte{0, 1})
	}
	s.Keys <- "hello"
	c.until("hello")
	c.send(strings.Repeat("x", 1<<20))
	c.all(1009)
	close(s.Keys)
}

func TestClientThatClosesIsAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
	for _, payload := range [][]byte{nil, websocket.FormatCloseMessage(1000, "bye"), websocket.FormatCloseMessage(1001, "")} {
		c := s.watch("main", "")
		c.until("STEP_STARTED")
		_ = c.WriteMessage(websocket.CloseMessage, payload)
		_, _, err := c.ReadMessage()
		if _, ok := errors.AsType[*websocket.CloseError](err); !ok {
			t.Errorf("got %v", err)
		}
		_ = c.Close()
	}
	s.Eventually("all sockets have ended", func() bool { return s.Streams.Open() == 0 })
}
