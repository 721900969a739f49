package transporttest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Scene is a thread with the runs that were played on it: two parallel nodes, tool calls, reasoning and state,
// a question and its answer, a cancel, and a restart by a message.
type Scene struct {
	*Server
	Thread         string
	ConversationID string
	Runs           []Played // in the order they were started

	t     *testing.T
	begun chan struct{} // closed when the thread exists
	over  chan struct{} // closed when the last run has ended
	seen  map[string][]Event
}

// Played is a run of a scene.
type Played struct {
	ID       string
	Agent    string // empty for a workflow
	Workflow string
	Body     []byte // of the request that started it, the same for every door
}

// The scripts of the scene.
const (
	everything = `{"do": [{"say": "let me see"}, {"tool": "calculator", "args": {"expression": "6*7"}},
		{"reason": "that was easy"}, {"state": {"answer": 42}}, {"progress": 0.5, "message": "half"},
		{"tool": "fail", "args": {"message": "no"}}, {"say": "it is 42"}]}`
	question = `{"do": [{"say": "before"}, {"ask": {"message": "Deploy?"}}, {"say": "after"}]}`
	stuck    = `{"do": [{"say": "wait"}, {"tool": "sleep", "args": {"ms": 60000}}]}`
)

// play plays the scene. Runs of all kinds are in it that a viewer can meet.
func (s *Scene) play() {
	s.t.Helper()
	s.Thread = "scene/1"
	s.Runs = []Played{
		s.request("run-pair", "", "demo", "a poem"),
		s.request("run-all", "scripted", "", everything),
		s.request("run-ask", "scripted", "", question),
		s.request("run-stuck", "scripted", "", stuck),
	}
	ctx := context.Background()
	s.start(0)
	close(s.begun)
	s.Await(s.Runs[0].ID, runtime.Completed)
	s.start(1)
	s.Await(s.Runs[1].ID, runtime.Completed)

	s.start(2)
	s.Await(s.Runs[2].ID, runtime.Waiting)
	asks, err := s.Runtime.Runs.Interrupts(ctx, s.Caller, s.Runs[2].ID)
	if err != nil || len(asks) != 1 {
		s.t.Fatalf("%d questions, %v", len(asks), err)
	}
	answer := []agui.ResumeEntry{{InterruptID: asks[0].ID, Status: "resolved", Payload: json.RawMessage("true")}}
	if _, err := s.Runtime.Resume(ctx, s.Caller, s.Runs[2].ID, answer); err != nil {
		s.t.Fatal(err)
	}
	s.Await(s.Runs[2].ID, runtime.Completed)

	s.start(3)
	s.Await(s.Runs[3].ID, runtime.Running)
	if _, err := s.Runtime.Cancel(ctx, s.Caller, s.Runs[3].ID); err != nil {
		s.t.Fatal(err)
	}
	s.Await(s.Runs[3].ID, runtime.Cancelled)

	if _, err := s.Runtime.Append(ctx, s.Caller, s.Runs[1].ID, runtime.AppendRequest{Content: everything}); err != nil {
		s.t.Fatal(err)
	}
	s.Await(s.Runs[1].ID, runtime.Completed)
}

// request is a run of an agent or a workflow.
func (s *Scene) request(id, agent, workflow, content string) Played {
	body := map[string]any{
		"threadId": s.Thread, "runId": id, "state": map[string]any{}, "tools": []any{}, "context": []any{},
		"forwardedProps": map[string]any{"background": true}, "protocolVersion": "1.0",
		"messages": []any{map[string]any{"id": "of " + id, "role": "user", "content": content}},
	}
	if agent != "" {
		body["agent"] = agent
	} else {
		body["workflowId"] = workflow
	}
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return Played{ID: id, Agent: agent, Workflow: workflow, Body: raw}
}

// start starts the run by REST, so that no connection owns it.
func (s *Scene) start(run int) {
	s.t.Helper()
	res, err := http.Post(s.URL+"/api/v1/agent/runs", "application/json", bytes.NewReader(s.Runs[run].Body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var started struct{ ConversationID string }
	if err := json.NewDecoder(res.Body).Decode(&started); err != nil || res.StatusCode != http.StatusAccepted {
		s.t.Fatalf("start %s: %s, %v", s.Runs[run].ID, res.Status, err)
	}
	if run == 0 { // viewers read it from then on
		s.ConversationID = started.ConversationID
	}
}

// Through returns the events up to end, where the log ended before it was read run by run: later events may be missing for some runs.
func Through(end int64, all []Event) []Event {
	return slices.DeleteFunc(all, func(ev Event) bool { return ev.ID > end })
}

// End is the id of the log's last event.
func (s *Scene) End() int64 {
	th, err := s.Runtime.Threads.Get(context.Background(), s.Caller, s.Thread)
	if err != nil {
		return 0
	}
	cur, err := s.Runtime.Logs.Read(context.Background(), th, runtime.Latest, true)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer cur.Close()
	return cur.After()
}

// Started returns the runs that have been started so far. It may be called while the scene is played.
func (s *Scene) Started() []Played {
	i := slices.IndexFunc(s.Runs, func(p Played) bool {
		_, err := s.Runtime.Runs.Get(context.Background(), s.Caller, p.ID)
		return err != nil
	})
	if i < 0 {
		return s.Runs
	}
	return s.Runs[:i]
}
