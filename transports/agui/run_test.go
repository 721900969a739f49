package agui_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
)

// mirror is an agent that answers with its input.
type mirror struct{}

func (mirror) Info() plugins.Info { return plugins.Info{Name: "mirror"} }

func (mirror) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	thread, _, err := run.Messages(ctx, 0)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	all, err := json.Marshal(thread)
	return agui.WorkerOutput{Answer: string(all)}, err
}

// answer is the text of a run's stream.
func answer(t *testing.T, stream string) string {
	t.Helper()
	var text strings.Builder
	for _, ev := range events(t, stream) {
		if c, ok := ev.(agui.TextMessageContent); ok {
			text.WriteString(c.Delta)
		}
	}
	return text.String()
}

func TestWorkflowsAndAgentsShareThePath(t *testing.T) {
	t.Parallel()
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "only", Agent: "echo"}}}
	s := serve(t, transports.StreamConfig{}, flow)
	got := s.run("flow", "main", "a", "through the node", modern).All()
	if answer(t, got) != "through the node" || !strings.Contains(got, `"stepName":"only"`) {
		t.Error(got)
	}
	named := s.Do("POST", "/api/v1/agui/echo", `{"agent": "echo", "content": "the same name"}`).All()
	if answer(t, named) != "the same name" {
		t.Error(named)
	}
	if run, err := s.Runtime.Runs.Get(t.Context(), local, "a"); err != nil || run.WorkflowID != "flow" || run.Agent != "" {
		t.Errorf("got %+v, %v", run, err)
	}
}

func TestWholeHistoryWithEveryTurnIsTakenOnce(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{modern, ""} {
		s := serve(t, transports.StreamConfig{}, mirror{})
		first := answer(t, s.run("mirror", "main", "a", "one", dialect).All())
		snapshot := func() agui.MessagesSnapshot {
			for _, ev := range events(t, s.connect(dialect).All()) {
				if m, ok := ev.(agui.MessagesSnapshot); ok {
					return m
				}
			}
			t.Fatal("no snapshot")
			return agui.MessagesSnapshot{}
		}
		held := snapshot()
		var history []string
		for _, m := range held.Messages {
			if m.Role == agui.RoleAssistant {
				m.Content = "rewritten by the client"
			}
			history = append(history, string(m.AppendJSON(nil, agui.AGUI0)))
		}
		history = append(history, `{"id": "second", "role": "user", "content": "two"}`)
		got := answer(t, s.Do("POST", "/api/v1/agui/mirror", turn("main", "b", strings.Join(history, ","), dialect)).All())
		var seen []agui.Message
		if err := json.Unmarshal([]byte(got), &seen); err != nil || len(seen) != 3 || seen[1].Content != first || seen[2].Content != "two" {
			t.Errorf("the worker was given %s", got)
		}
		if n := len(snapshot().Messages); n != 4 {
			t.Errorf("the thread has %d messages", n)
		}
	}
}

func TestPartsOfMessagesReachTheWorker(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{}, mirror{})
	for dialect, part := range map[string]string{
		modern: `{"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}`,
		"":     `{"type": "binary", "mimeType": "image/png", "data": "aGk="}`,
	} {
		body := turn("t"+dialect[:min(len(dialect), 1)], "", `{"id": "m", "role": "user", "content": [{"type": "text", "text": "look"}, `+part+`]}`, dialect)
		got := answer(t, s.Do("POST", "/api/v1/agui/mirror", strings.Replace(body, `"runId": "", `, "", 1)).All())
		var seen []agui.Message
		if err := json.Unmarshal([]byte(got), &seen); err != nil || len(seen) != 1 {
			t.Fatalf("%v in %s", err, got)
		}
		if parts := string(seen[0].Parts); !strings.Contains(parts, "aGk=") || !strings.Contains(parts, `"type":"image"`) {
			t.Errorf("the worker was given %s", parts)
		}
	}
}

func TestWrongMembersAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.run("echo", "main", "a", "hello", "").All()
	for body, code := range map[string]string{
		turn("main", "b", "", `, "tools": [{"name": "calculator", "description": "", "parameters": {}}]`):             "invalid_tool",
		strings.Replace(turn("main", "b", "", ""), `"state": {}`, `"state": 1`, 1):                                    "invalid_request",
		turn("main", "b", `{"id": "x", "role": "user", "content": "hello"}`, `, "resume": [{"interruptId": "none"}]`): "",
	} {
		r := s.Do("POST", "/api/v1/agui/echo", body)
		var p transports.Problem
		text := r.All()
		if err := json.Unmarshal([]byte(text), &p); err != nil || r.StatusCode != http.StatusBadRequest || code != "" && p.Code != code {
			t.Errorf("%s: got %d %s, want %s", body, r.StatusCode, text, code)
		}
	}
	if runs := s.connect("").All(); !strings.Contains(runs, `"runId":"a"`) {
		t.Errorf("a refused request has left something: %s", runs)
	}
}

var calls = regexp.MustCompile(`"toolCallId":"([^"]+)"`)

func TestFrontendToolGoesOnWithItsRun(t *testing.T) {
	t.Parallel()
	const pick = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	for _, dialect := range []string{modern, ""} {
		s := serve(t, transports.StreamConfig{})
		first := s.run("scripted", "main", "a", script(`{"tool": "pick", "args": {}}, {"say": "picked"}`), pick+dialect).All()
		id := calls.FindStringSubmatch(first)[1]
		if pending := strings.Contains(first, `"outcome":{"type":"success","pendingToolCallIds":["`+id+`"]}`); pending != (dialect == modern) {
			t.Errorf("the span ended with %s", brief(first))
		}
		s.Await("a", "WAITING")
		second := s.Do("POST", "/api/v1/agui/scripted", turn("main", "b",
			`{"id": "r", "role": "tool", "toolCallId": "`+id+`", "content": "red"}`, pick+dialect)).All()
		if answer(t, second) != "picked" || strings.Contains(second, "TOOL_CALL_START") || strings.Contains(second, "TOOL_CALL_RESULT") ||
			!strings.Contains(second, `"runId":"b"`) || !strings.Contains(second, `"parentRunId":"a"`) {
			t.Errorf("the run went on with %s", second)
		}
		s.Await("b", "COMPLETED")
		if diff := len(events(t, s.connect(dialect).All())); diff != 4 {
			t.Errorf("a finished thread's prelude has %d events", diff)
		}
		if log := s.Do("GET", "/api/v1/agent/runs/main/events", "").All(); !strings.Contains(log, `"messageId":"r","toolCallId":`) {
			t.Errorf("the log has the result under another id: %s", log)
		}
		folded(t, first+second)
	}
}

// CopilotKit's hooks answer under the runId that asked.
func TestInterruptIsAnsweredUnderTheRunIDThatAsked(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{modern, ""} {
		s := serve(t, transports.StreamConfig{})
		first := s.run("scripted", "main", "a", script(`{"ask": {"message": "Deploy?"}}, {"say": "deployed"}`), dialect).All()
		resume := `, "resume": [{"interruptId": "` + interrupts.FindStringSubmatch(first)[1] + `", "status": "resolved", "payload": 1}]` + dialect
		body := turn("main", "a", `{"id": "of-a", "role": "user", "content": "deploy it"}`, resume)
		second := s.Do("POST", "/api/v1/agui/scripted", body).All()
		if !strings.HasSuffix(answer(t, second), "deployed") || !strings.Contains(second, `"runId":"a"`) || strings.Contains(second, "parentRunId") {
			t.Errorf("the run went on with %s", second)
		}
		s.Await("a", "COMPLETED")
	}
}

func TestPagesOfAdmittedOriginsMayRun(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, path := range []string{"/api/v1/agui/echo", "/api/v1/agui/echo/connect", "/api/copilotkit/agent/echo/run", "/api/copilotkit"} {
		r := s.Do("OPTIONS", path, "", "Origin", page, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "content-type,x-run-id")
		if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != page ||
			r.Header.Get("Access-Control-Allow-Headers") != "content-type,x-run-id" {
			t.Errorf("%s: got %d %v", path, r.StatusCode, r.Header)
		}
	}
	r := s.run("echo", "main", "a", "hello", "", "Origin", page)
	if r.Header.Get("Access-Control-Allow-Origin") != page || answer(t, r.All()) != "hello" {
		t.Errorf("got %v", r.Header)
	}
	s.run("echo", "main", "b", "hello", "", "Origin", "https://elsewhere.example").Refused(http.StatusForbidden, "forbidden")
}
