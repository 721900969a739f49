package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/transports/wire"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int{"": 50, "1": 1, "500": 500, "050": 50} {
		if got, err := wire.Limit(limit); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", limit, got, err, want)
		}
	}
	for _, limit := range []string{"0", "501", "-1", "x", "1.5", " 5", "99999999999999999999", "null"} {
		_, err := wire.Limit(limit)
		refused(t, err, "invalid_limit", "1 to 500")
	}
}

func TestIdempotencyScope(t *testing.T) {
	t.Parallel()
	ann := runtime.MustCaller("p", "ann", runtime.RoleUser)
	remember := func(c runtime.Caller, method, path, key, body string) runtime.Idempotency {
		t.Helper()
		id, err := wire.Idempotency(c, method, path, [][]byte{[]byte(key)}, wire.Hash([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		return *id
	}
	first := remember(ann, "POST", "/a", "k", "x")
	if again := remember(ann, "POST", "/a", "k", "x"); again != first {
		t.Errorf("the same request gave %v and %v", first, again)
	}
	if other := remember(ann, "POST", "/a", "k", "y"); other.Scope != first.Scope || other.BodyHash == first.BodyHash {
		t.Error("another body must keep the scope and change the hash")
	}
	for _, other := range []runtime.Idempotency{
		remember(runtime.MustCaller("q", "ann", runtime.RoleUser), "POST", "/a", "k", "x"),
		remember(runtime.MustCaller("p", "bob", runtime.RoleUser), "POST", "/a", "k", "x"),
		remember(runtime.MustCaller("p\"", ",\"ann", runtime.RoleUser), "POST", "/a", "k", "x"),
		remember(ann, "PUT", "/a", "k", "x"),
		remember(ann, "POST", "/b", "k", "x"),
		remember(ann, "POST", "/a", "j", "x"),
	} {
		if other.Scope == first.Scope {
			t.Error("two scopes are one")
		}
	}
	if id, err := wire.Idempotency(ann, "POST", "/a", nil, ""); id != nil || err != nil {
		t.Errorf("no key gave %v, %v", id, err)
	}
}

func TestIdempotencyKeyIsVisible(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{""}, {"a b"}, {"ä"}, {"a\t"}, {"\x7f"}, {strings.Repeat("k", 256)}, {"a", "b"}} {
		var raw [][]byte
		for _, k := range keys {
			raw = append(raw, []byte(k))
		}
		_, err := wire.Idempotency(runtime.Caller{}, "POST", "/", raw, "")
		refused(t, err, "invalid_idempotency_key", "1 to 255 visible characters")
	}
	if _, err := wire.Idempotency(runtime.Caller{}, "POST", "/", [][]byte{[]byte(strings.Repeat("k", 255))}, ""); err != nil {
		t.Error(err)
	}
}

func TestEventsURL(t *testing.T) {
	t.Parallel()
	for thread, want := range map[string]string{
		"main":     "/api/v1/agent/runs/main/events?after_event_id=7",
		"a/b c%?#": "/api/v1/agent/runs/a%2Fb%20c%25%3F%23/events?after_event_id=7",
		"日本":       "/api/v1/agent/runs/%E6%97%A5%E6%9C%AC/events?after_event_id=7",
		"..":       "/api/v1/agent/runs/conv/events?after_event_id=7",
		".":        "/api/v1/agent/runs/conv/events?after_event_id=7",
	} {
		var started runtime.Started
		started.ThreadID, started.ConversationID, started.After = thread, "conv", 7
		got := wire.NewStarted(started)
		if got.EventsURL != want || got.ThreadID != thread {
			t.Errorf("%q: got %+v, want %s", thread, got, want)
		}
	}
}

func TestUnescapeDecodesOnce(t *testing.T) {
	t.Parallel()
	for param, want := range map[string]string{"a%2Fb": "a/b", "a%252Fb": "a%2Fb", "a+b": "a+b", "plain": "plain", "%zz": "", "%": ""} {
		if got := wire.Unescape(param); got != want {
			t.Errorf("%q: got %q, want %q", param, got, want)
		}
	}
}

// encoded compares the JSON of v with want, member by member and in order.
func encoded(t *testing.T, v any, want string) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestAnswersHaveAllMembers(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 1, 15, 11, 0, 5, 1_999_999, time.FixedZone("CET", 3600))
	later := at.Add(1250 * time.Millisecond)
	var run runtime.Run
	run.RunHead = runtime.RunHead{ID: "r", Project: "p", WorkflowID: "wf", Status: runtime.Queued, Generation: 1, CreatedAt: at}
	encoded(t, wire.NewRun(&run, nil, nil), `
{
  "id": "r",
  "projectId": "p",
  "workflowId": "wf",
  "status": "QUEUED",
  "inputQuery": "",
  "outputSummary": null,
  "startedAt": null,
  "finishedAt": null,
  "contextItemIds": [],
  "threadId": "",
  "threadTitle": null,
  "conversationId": "",
  "agent": null,
  "error": null,
  "generation": 1,
  "usage": [],
  "user": "",
  "attempts": 0,
  "inputTokens": 0,
  "outputTokens": 0,
  "cost": null,
  "createdAt": "2024-01-15T10:00:05.001Z",
  "parentRunId": null,
  "interrupts": []
}`)
	out := "Retrieved 5 documents"
	encoded(t, wire.NewStep("r", &runtime.Step{
		ID: "s", Number: 1, NodeID: "n", Item: &data.Item{Index: 3, Key: "k"}, Status: runtime.Completed, Input: "q", Output: &out, StartedAt: at, CompletedAt: &later,
	}), `
{
  "id": "s",
  "runId": "r",
  "stepNumber": 1,
  "nodeId": "n",
  "item": {
    "index": 3,
    "key": "k"
  },
  "status": "COMPLETED",
  "input": "q",
  "output": "Retrieved 5 documents",
  "error": null,
  "errorCode": null,
  "errorRetryable": null,
  "durationMs": 1250,
  "startedAt": "2024-01-15T10:00:05.001Z",
  "completedAt": "2024-01-15T10:00:06.251Z"
}`)
	encoded(t, wire.NewNode("r", &runtime.Node{
		NodeID: "n", Status: runtime.Failed, Progress: 0.5, Map: &data.MapProgress{Items: 4, Done: 1, Failed: 1}, Error: &agui.OutputError{Code: "x", Message: "boom"},
	}), `
{
  "runId": "r",
  "nodeId": "n",
  "status": "FAILED",
  "progress": 0.5,
  "messages": [],
  "map": {
    "items": 4,
    "done": 1,
    "failed": 1
  },
  "startedAt": null,
  "completedAt": null,
  "error": "boom",
  "errorCode": "x",
  "errorRetryable": false
}`)
	encoded(t, wire.NewMessage("r", &runtime.Message{CreatedAt: at, Message: agui.Message{ID: "m", Role: agui.RoleUser, Content: "hi"}}), `
{
  "id": "m",
  "runId": "r",
  "role": "user",
  "content": "hi",
  "contextItemIds": [],
  "createdAt": "2024-01-15T10:00:05.001Z"
}`)
	encoded(t, wire.NewPage[int, int](wire.List{}, runtime.Page[int]{Counted: true}, nil, nil), `
{
  "items": [],
  "nextCursor": null,
  "total": 0
}`)
}

// No cell of a CSV file is a formula.
func TestCSV_HasNoFormulas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"=HYPERLINK(0)": "'=HYPERLINK(0)", "+1": "'+1", "-1": "'-1", "@A1": "'@A1", "\tx": "'\tx", "\rx": "\"'\rx\"", "a=1": "a=1", "": "",
	} {
		key := data.UsageKey{User: text, Agent: text, Provider: text, Model: text}
		u := wire.NewUsage(&runtime.UsageFilter{}, []runtime.UsageSum{{UsageKey: key}}, text)
		var file strings.Builder
		if err := u.WriteCSV(&file); err != nil {
			t.Fatal(err)
		}
		money := "0"
		if text == "" {
			money = ""
		}
		if _, line, _ := strings.Cut(file.String(), "\n"); line != fmt.Sprintf(",%[1]s,%[1]s,%[1]s,%[1]s,0,0,0,0,0,0,%[2]s,%[1]s\n", want, money) {
			t.Errorf("%q: %q", text, line)
		}
	}
}
