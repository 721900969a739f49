package ws_test

import (
	"context"
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/fasthttp/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/transporttest"
	"github.com/batonrun/baton/transports/wire"
	"github.com/batonrun/baton/transports/ws"
)

// many opens the socket for many threads.
func (s *server) many() *socket {
	s.Helper()
	c := s.open("/api/v1/ws", protocolHeader, "baton.v1")
	if c.Subprotocol() != "baton.v1" {
		s.Fatalf("got the subprotocol %q", c.Subprotocol())
	}
	return c
}

// reply is a frame of such a socket.
type reply struct {
	Op       string
	Ref      json.RawMessage
	ThreadID string
	ID       *int64
	Event    json.RawMessage
	Result   json.RawMessage
	Detail   string
	Code     string
}

// reply returns the next frame.
func (c *socket) reply() (r reply) {
	c.s.Helper()
	if text := c.next(); json.Unmarshal([]byte(text), &r) != nil {
		c.s.Fatalf("got %s", text)
	}
	return r
}

// do sends a command and returns the answer to it, which must be the next frame that shows nothing.
func (c *socket) do(command string) reply {
	c.s.Helper()
	c.send(command)
	for {
		if r := c.reply(); r.Op != "event" && r.Op != "changed" {
			return r
		}
	}
}

// done is do for a command that must be done, and returns its result.
func (c *socket) done(command string) string {
	c.s.Helper()
	r := c.do(command)
	if r.Op != "ack" {
		c.s.Fatalf("%s: got %+v", command, r)
	}
	return string(r.Result)
}

func TestManyThreadsOnOneSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.many()
	const threads = 5
	for i := range threads {
		s.Script(fmt.Sprintf("t%d", i), `{"tokens": 100, "delayMs": 1}`)
		c.send(fmt.Sprintf(`{"op": "subscribe", "threadId": "t%d"}`, i))
	}
	got, acks := make(map[string][]numbered), 0
	for ended := 0; ended < threads; {
		r := c.reply()
		if r.Op == "ack" {
			if want := fmt.Sprintf(`{"threadId":"t%d","afterEventId":0}`, acks); string(r.Result) != want {
				t.Errorf("got %s, want %s", r.Result, want)
			}
			acks++
			continue
		}
		if r.Op != "event" || r.ID == nil {
			t.Fatalf("got %+v", r)
		}
		got[r.ThreadID] = append(got[r.ThreadID], numbered{*r.ID, r.Event})
		if strings.Contains(string(r.Event), `"type":"RUN_FINISHED"`) {
			ended++
		}
	}
	for thread, all := range got {
		if diff := cmp.Diff(s.events(thread), all); diff != "" {
			t.Errorf("%s: %s", thread, diff)
		}
	}
	if acks != threads || len(got) != threads {
		t.Errorf("%d answers, events of %d threads", acks, len(got))
	}
}

func TestThreadIsCalledWhatTheClientCallsIt(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	run := s.Script(`a "quoted" name`, `{"say": "x"}`)
	for _, name := range []string{`a \"quoted\" name`, run.ConversationID} {
		c := s.many()
		c.done(`{"op": "subscribe", "threadId": "` + name + `"}`)
		if got, want := c.next(), `{"op":"event","threadId":"`+name+`","id":1,"event":{"type":"RUN_STARTED"`; !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s…", got, want)
		}
	}
}

func TestCommandsAnswerLikeREST(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.many()
	var run started
	if err := json.Unmarshal([]byte(c.done(`{"op": "run", "ref": 1, "agent": "typist", "threadId": "main", "content": "go", "runId": "a"}`)), &run); err != nil ||
		run.ThreadID != "main" || run.RunID != "a" || run.ConversationID == "" || run.EventsURL != "/api/v1/agent/runs/main/events?after_event_id=0" {
		t.Errorf("got %+v, %v", run, err)
	}
	var msg struct{ ID, RunID, Role, Content string }
	if err := json.Unmarshal([]byte(c.done(`{"op": "append", "runId": "a", "content": "and", "contextItemIds": ["i"]}`)), &msg); err != nil ||
		msg.ID == "" || msg.RunID != "a" || msg.Role != "user" || msg.Content != "and" {
		t.Errorf("got %+v, %v", msg, err)
	}
	if got, want := c.done(`{"op": "event", "runId": "a", "name": "paid", "payload": {"n": 1}}`), `{"delivered":false}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var end struct{ ID, Status, FinishedAt string }
	if err := json.Unmarshal([]byte(c.done(`{"op": "cancel", "runId": "a"}`)), &end); err != nil || end.ID != "a" || end.Status != "CANCELLED" || end.FinishedAt == "" {
		t.Errorf("got %+v, %v", end, err)
	}

	c.done(`{"op": "run", "runId": "b", ` + transporttest.Scripted("other", `{"ask": {"message": "Deploy?", "schema": {"type": "object"}}}`)[1:])
	s.Await("b", "WAITING")
	asks, err := s.Runtime.Runs.Interrupts(t.Context(), local, "b")
	if err != nil || len(asks) != 1 {
		t.Fatal(asks, err)
	}
	if got, want := c.done(`{"op": "resume", "runId": "b", "resume": [{"interruptId": "`+asks[0].ID+`", "status": "resolved", "payload": {}}]}`), `{"id":"b","status":"QUEUED"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.Await("b", "COMPLETED")
}

// Each command is executed, or refused for its content.
func TestEachOpIsDone(t *testing.T) {
	t.Parallel()
	c := serve(t, transports.StreamConfig{}).many()
	for _, op := range wire.Ops() {
		r := c.do(`{"op": "` + op + `", "ref": 1, "threadId": "absent", "runId": "absent", "agent": "absent", "content": "x", "resume": [{"interruptId": "x", "status": "resolved"}]}`)
		if r.Code == "unknown_op" || r.Code == "internal" || r.Op == "ack" && r.Result == nil {
			t.Errorf("%s is answered with %+v", op, r)
		}
	}
}

func TestRefComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.many()
	for _, ref := range []string{`1`, `-1.5e3`, `"x"`, `"é\n"`, `""`} {
		if r := c.do(`{"op": "cancel", "runId": "x", "ref": ` + ref + `}`); r.Op != "error" || string(r.Ref) != ref {
			t.Errorf("%s: got %+v", ref, r)
		}
	}
	for _, ref := range []string{`{}`, `[1]`, `true`, `"` + strings.Repeat("x", 300) + `"`} {
		if r := c.do(`{"op": "cancel", "runId": "x", "ref": ` + ref + `}`); r.Op != "error" || r.Ref != nil || r.Code != "invalid_request" {
			t.Errorf("%s: got %+v", ref, r)
		}
	}
}

func TestRefusedCommandLeavesTheSocketOpen(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	ann := runtime.MustCaller("default", "ann", runtime.RoleUser)
	hers, err := s.Runtime.StartRun(t.Context(), ann, runtime.StartRequest{
		Agent: "echo", ThreadID: "hers", RunID: "hers", Messages: []agui.Message{{Role: agui.RoleUser, Content: "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.watch(hers.ConversationID, "").all(4404)
	s.Await(s.Script("mine", `{"say": "x"}`).RunID, "COMPLETED")
	s.Start(`{"agent": "typist", "threadId": "busy", "content": "x"}`)
	c := s.many()
	c.done(`{"op": "subscribe", "threadId": "busy"}`)
	for command, want := range map[string]string{
		``:                                    "invalid_json",
		`{`:                                   "invalid_json",
		`[]`:                                  "invalid_request",
		`{}`:                                  "unknown_op",
		`null`:                                "invalid_request",
		`{"op": "fly"}`:                       "unknown_op",
		`{"op": 7}`:                           "invalid_request",
		`{"op": "subscribe"}`:                 "invalid_request",
		`{"op": "subscribe", "threadId": ""}`: "invalid_name",
		`{"op": "subscribe", "threadId": 7}`:  "invalid_request",
		`{"op": "subscribe", "threadId": "nowhere"}`:                     "not_found",
		`{"op": "subscribe", "threadId": "hers"}`:                        "not_found",
		`{"op": "subscribe", "threadId": "` + hers.ConversationID + `"}`: "not_found",
		`{"op": "subscribe", "threadId": "busy"}`:                        "already_subscribed",
		`{"op": "subscribe", "threadId": "mine", "afterEventId": -2}`:    "invalid_cursor",
		`{"op": "subscribe", "threadId": "mine", "afterEventId": "1"}`:   "invalid_cursor",
		`{"op": "subscribe", "threadId": "mine", "afterEventId": 1.5}`:   "invalid_cursor",
		`{"op": "subscribe", "threadId": "mine", "afterEventId": 1000}`:  "invalid_cursor",
		`{"op": "unsubscribe", "threadId": "mine"}`:                      "not_subscribed",
		`{"op": "run"}`: "missing_agent",
		`{"op": "run", "agent": "nobody", "content": "x"}`:                                          "unknown_agent",
		`{"op": "run", "agent": "echo", "content": "x", "projectId": "other"}`:                      "not_found",
		`{"op": "run", "agent": "echo", "content": "x", "threadId": "busy", "multitask": "reject"}`: "thread_busy",
		`{"op": "append", "content": "x"}`:                                                          "invalid_request",
		`{"op": "append", "runId": "hers", "content": "x"}`:                                         "not_found",
		`{"op": "append", "runId": "x", "content": 7}`:                                              "invalid_request",
		`{"op": "cancel", "runId": "hers"}`:                                                         "not_found",
		`{"op": "cancel", "runId": "x", "pad": "` + strings.Repeat("x", 3<<20) + `"}`:               "body_too_large",
		`{"op": "resume", "runId": "x"}`:                                                            "invalid_request",
	} {
		if r := c.do(command); r.Op != "error" || r.Code != want || r.Detail == "" {
			t.Errorf("%s: got %+v, want %s", brief(command), r, want)
		}
	}
	if err := c.WriteMessage(websocket.BinaryMessage, []byte(`{"op": "unsubscribe", "threadId": "busy"}`)); err != nil {
		t.Fatal(err)
	}
	if r := c.reply(); r.Code != "invalid_request" {
		t.Errorf("got %+v", r)
	}
	c.done(`{"op": "unsubscribe", "threadId": "busy"}`)
}

func TestNothingFollowsUnsubscribe(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", `{"tokens": 2000, "delayMs": 1}`)
	c := s.many()
	for i := range 20 {
		c.done(`{"op": "subscribe", "threadId": "main"}`)
		c.reply()
		c.done(`{"op": "unsubscribe", "threadId": "main"}`)
		if r := c.do(fmt.Sprintf(`{"op": "cancel", "runId": "x", "ref": %d}`, i)); r.Op == "event" {
			t.Errorf("got %+v", r)
		}
		c.send(`{"op": "fly"}`)
		if r := c.reply(); r.Op != "error" {
			t.Errorf("behind the end of a subscription came %+v", r)
		}
	}
}

// TestSubscriptionsOfAllSocketsAreBounded: all sockets of a user share one limit.
func TestSubscriptionsOfAllSocketsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Rates: rates.New(rates.Config{User: rates.Limits{Streams: 20}})})
	const limit = 256
	runs := make([]started, limit/2)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { runs[i] = s.Script(fmt.Sprintf("t%d", i), "") })
	}
	all.Wait()
	one, other := s.many(), s.many()
	for i := range limit {
		run := runs[i/2]
		one.done(fmt.Sprintf(`{"op": "subscribe", "threadId": %q}`, []string{run.ThreadID, run.ConversationID}[i%2]))
	}
	first := `{"op": "subscribe", "threadId": "t0"}`
	if r := other.do(`{"op": "subscribe", "threadId": "none"}`); r.Code != "too_many_subscriptions" || !strings.Contains(r.Detail, "All your sockets together may show 256") {
		t.Errorf("got %+v", r)
	}
	one.done(`{"op": "unsubscribe", "threadId": "t7"}`)
	if r := other.do(`{"op": "subscribe", "threadId": "none"}`); r.Code != "not_found" { // and takes no place
		t.Errorf("got %+v", r)
	}
	other.done(first)
	if r := other.do(`{"op": "subscribe", "threadId": "t1"}`); r.Code != "too_many_subscriptions" {
		t.Errorf("got %+v", r)
	}
	_ = one.Close()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) { // until the server has seen it
		if r := other.do(`{"op": "subscribe", "threadId": "t1"}`); r.Op == "ack" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a socket that is closed keeps its subscriptions")
		}
	}
}

// TestASubscriptionWithoutItsTurnHoldsNoRecords: a socket has one page of events in memory, however many threads it shows.
func TestASubscriptionWithoutItsTurnHoldsNoRecords(t *testing.T) {
	s := serve(t, transports.StreamConfig{})
	run := s.Script("t", `{"tokens": 5000}`) // more than a ring or a page has
	s.Await(run.RunID, runtime.Completed)
	th, err := s.Runtime.Threads.Get(t.Context(), local, "t")
	if err != nil {
		t.Fatal(err)
	}
	cur, err := s.Runtime.Logs.Read(t.Context(), th, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close()
	turn := make(chan struct{}, 1)
	sub := ws.InTurn(cur, turn)
	recs, err := sub.Next(t.Context())
	if err != nil || sub.Waits() {
		t.Fatal("there is no second page", err)
	}
	first := weak.Make(recs[0])
	turn <- struct{}{} // it is another's turn
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := sub.Next(ctx)
		ended <- err
	}()
	for deadline := time.Now().Add(patience); first.Value() != nil && time.Now().Before(deadline); {
		goruntime.GC()
	}
	if first.Value() != nil {
		t.Error("it holds the page that it has shown")
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it had events without its turn")
	}
}

func TestRunsOfASocketOutliveIt(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	c := s.many()
	c.done(`{"op": "run", "agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`)
	_ = c.Close()
	s.Eventually("the socket has ended", func() bool { return s.Streams.Open() == 0 })
	s.OutlastGrace()
	s.Keys <- "still here"
	close(s.Keys)
	s.Await("a", "COMPLETED")
}

func TestCommandsAreDoneInOrder(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.many()
	for i := range 20 { // sent without waiting for any answer
		run := fmt.Sprintf(`{"op": "run", "ref": %d, "agent": "typist", "threadId": "t%d", "runId": "r%d", "content": "x"}`, 3*i, i, i)
		c.send(run)
		c.send(fmt.Sprintf(`{"op": "append", "ref": %d, "runId": "r%d", "content": "y"}`, 3*i+1, i))
		c.send(fmt.Sprintf(`{"op": "cancel", "ref": %d, "runId": "r%d"}`, 3*i+2, i))
	}
	for ref := range 60 {
		if r := c.reply(); r.Op != "ack" || string(r.Ref) != fmt.Sprint(ref) {
			t.Fatalf("got %+v, want the answer to %d", r, ref)
		}
	}
}

func TestSubscriptionShowsRunsToCome(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", `{"say": "x"}`).RunID, "COMPLETED")
	c := s.many()
	c.done(`{"op": "subscribe", "threadId": "main", "afterEventId": "latest"}`)
	for range 3 {
		c.send(`{"op": "run", "ref": "r", ` + transporttest.Scripted("main", `{"say": "more"}`)[1:])
		c.until(`"type":"RUN_FINISHED"`)
	}
}

func TestOversizedCommandClosesTheSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.many()
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op": "run", "content": "`+strings.Repeat("x", 33<<20)+`"}`)) // cut off half-way
	c.all(1009)
}

func TestProjectOfAnother(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.open("/api/v1/ws?projectId=other").all(4404)
	c := s.open("/api/v1/ws?projectId=default")
	c.done(`{"op": "run", "agent": "echo", "content": "x", "projectId": "other"}`) // the query goes first
	if runs, err := s.Runtime.Runs.List(context.Background(), local, runtime.RunFilter{Limit: 1, Count: true}); runs.Total != 1 || err != nil {
		t.Error(runs.Total, err)
	}
}
