package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a remote that answers the nth request with the nth answer, and later ones with the last.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []agui.RunAgentInput
	bodies  []string
	headers []http.Header
	log     strings.Builder
}

// stream is an answer of events, one line of JSON each; each becomes a frame.
func stream(events string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for line := range strings.Lines(strings.TrimSpace(events)) {
			fmt.Fprintf(w, "data: %s\n\n", strings.TrimSpace(line))
		}
	}
}

const (
	started  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n"
	finished = "\n" + `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
	hello    = `{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
		{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"hello "}
		{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"world"}
		{"type":"TEXT_MESSAGE_END","messageId":"m1"}`
)

func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var in agui.RunAgentInput
		if err := json.Unmarshal(body, &in); err != nil {
			t.Errorf("request: %v", err)
		}
		s.mu.Lock()
		n := min(len(s.asked), len(answers)-1)
		s.asked, s.bodies, s.headers = append(s.asked, in), append(s.bodies, string(body)), append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		answers[n](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) agent(t *testing.T, change ...func(*remote.Config)) *remote.Agent {
	t.Helper()
	cfg := remote.Config{Name: "writer", URL: s.URL + "/agui", Log: slog.New(slog.NewTextHandler(locked{s}, nil))}
	for _, f := range change {
		f(&cfg)
	}
	a, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

type locked struct{ s *server }

func (l locked) Write(p []byte) (int, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.log.Write(p)
}

func (s *server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// brief is the log of a run without varying parts.
func brief(events []agui.Event) string {
	var b strings.Builder
	for _, ev := range events {
		switch e := ev.(type) {
		case agui.RunStarted, agui.RunFinished, agui.RunError:
			continue
		case agui.TextMessageStart:
			fmt.Fprintf(&b, "text %s", e.Role)
		case agui.TextMessageContent:
			fmt.Fprintf(&b, "+ %s", e.Delta)
		case agui.TextMessageEnd:
			fmt.Fprintf(&b, "end %s %s", e.Output.Status, e.Output.Answer)
		case agui.ToolCallStart:
			fmt.Fprintf(&b, "call %s", e.ToolCallName)
		case agui.ToolCallArgs:
			fmt.Fprintf(&b, "args %s", e.Delta)
		case agui.ToolCallResult:
			fmt.Fprintf(&b, "result %s %s", e.Output.Status, e.Content)
		case agui.StateDelta:
			fmt.Fprintf(&b, "delta %s", e.Delta)
		case agui.StateSnapshot:
			fmt.Fprintf(&b, "state %s", e.Snapshot)
		case agui.StepStarted:
			fmt.Fprintf(&b, "step %s", e.StepName)
		case agui.StepFinished:
			fmt.Fprintf(&b, "done %s", e.StepName)
		case agui.ReasoningMessageContent:
			fmt.Fprintf(&b, "thinks %s", e.Delta)
		case agui.Custom:
			fmt.Fprintf(&b, "custom %s %s", e.Name, e.Value)
		case agui.SubagentStarted:
			fmt.Fprintf(&b, "agent %s", e.Name)
		default:
			b.WriteString(string(ev.Type()))
		}
		if ev.Common().SubagentRunID != "" {
			b.WriteString(" (sub)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func trim(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\t", "") + "\n" }

func TestRelay_ConvertsEvents(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"text": {hello, `
			text assistant
			+ hello 
			+ world
			end success hello world`},
		"a text that nobody ends or begins": {`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"hi"}`, `
			text assistant
			+ hi
			end success hi`},
		"characters that are cut in two": {`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"one \ud83d"}
			{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"x\":\"\uD83D"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ude00\ud83d"}
			{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\uDE01\"}"}
			{"type":"TOOL_CALL_END","toolCallId":"c"}
			{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"ok"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"\ude02 two \\ud83d"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":" \ude00"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}`, `
			text assistant
			+ one 
			call f
			args {"x":"
			+ 😀
			args 😁"}
			TOOL_CALL_END
			result success ok
			+ 😂 two \ud83d
			+  �
			end success one 😀😂 two \ud83d �`},
		"characters that are cut in two between shorthands": {`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"\ud83d"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"\ude00 a \ud83d"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"\ude01"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":" b\ud83d"}
			{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"look","parentMessageId":"m","delta":"\"\ud83d"}
			{"type":"TOOL_CALL_CHUNK","delta":"\ude02\""}
			{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":"ok"}`, `
			text assistant
			+ 😀 a 
			+ 😁
			+  b
			call look
			args "
			args 😂"
			TOOL_CALL_END
			result success ok
			end success 😀 a 😁 b`},
		"two texts at once": {`{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}
			{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"1"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"2"}
			{"type":"TEXT_MESSAGE_END","messageId":"a"}
			{"type":"TEXT_MESSAGE_END","messageId":"b"}`, `
			text assistant
			end success 
			text assistant
			end success 
			text assistant
			+ 1
			end success 1
			text assistant
			+ 2
			end success 2`},
		"shorthands": {`{"type":"REASONING_MESSAGE_CHUNK","messageId":"r","delta":"hm"}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"assistant","delta":"a"}
			{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}
			{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"look","parentMessageId":"m","delta":"{\"x\":"}
			{"type":"TOOL_CALL_CHUNK","delta":"1}"}
			{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"seen"}`, `
			REASONING_START
			REASONING_MESSAGE_START
			thinks hm
			text assistant
			+ a
			+ b
			call look
			args {"x":
			args 1}
			TOOL_CALL_END
			result success seen
			end success ab
			REASONING_MESSAGE_END
			REASONING_END`},
		"names of before": {`{"type":"THINKING_START"}
			{"type":"THINKING_TEXT_MESSAGE_START"}
			{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"hm"}
			{"type":"THINKING_TEXT_MESSAGE_END"}
			{"type":"THINKING_END"}`, `
			REASONING_START
			REASONING_MESSAGE_START
			thinks hm
			REASONING_MESSAGE_END
			REASONING_END`},
		"an error behind the end": {hello + finished + `
			{"type":"RUN_ERROR","message":"not saved","code":"rate_limited"}`, `
			text assistant
			+ hello 
			+ world
			end success hello world`},
		"an attribution that was not announced": {`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","subagentRunId":"s"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi","subagentRunId":"s"}`, `
			text assistant
			+ hi
			end success hi`},
		"a sub-agent that leaves things open": {`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"critic"}
			{"type":"STEP_STARTED","stepName":"read","subagentRunId":"s"}
			{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant","subagentRunId":"s"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hi"}
			{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`, `
			agent critic (sub)
			step worker/read (sub)
			text assistant (sub)
			+ hi
			end success hi (sub)
			done worker/read (sub)
			SUBAGENT_FINISHED (sub)`},
		"a call of its own without a result": {`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"look"}
			{"type":"TOOL_CALL_END","toolCallId":"c"}`, `
			call look
			TOOL_CALL_END
			result partial The remote agent has not shown the result`},
		"patches of a state that was not sent": {`{"type":"STATE_DELTA","delta":[{"op":"test","path":"/x","value":1},{"op":"replace","path":"/n","value":12345678901234567890}]}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":1},{"op":"add","path":"/a~1b/c","value":{}}]}
			{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/gone"},{"op":"remove","path":"/a~1b/c"}]}
			{"type":"STATE_DELTA","delta":[{"op":"move","from":"/gone","path":"/m"}]}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n/o","value":2}]}
			{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/gone","value":2}]}`, `
			delta [{"op":"add","path":"/n","value":12345678901234567890}]
			delta [{"op":"add","path":"/a~1b","value":{"c":{}}},{"op":"add","path":"/list","value":[1]}]
			delta [{"op":"remove","path":"/a~1b/c"}]
			delta [{"op":"add","path":"/list/-","value":2}]
			delta [{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/list"},{"op":"replace","path":"/n","value":1}]`},
		"results of calls that were not announced": {`{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"x","toolCallName":"look"}
			{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"again"}
			{"type":"TOOL_CALL_RESULT","messageId":"s","toolCallId":"","content":"of no call"}
			{"type":"MESSAGES_SNAPSHOT","messages":[
			{"id":"q","role":"tool","toolCallId":"c","content":"x"},
			{"id":"t","role":"tool","toolCallId":"d","content":"y"}]}`, `
			call look
			TOOL_CALL_END
			result success x
			call unknown
			TOOL_CALL_END
			result success y`},
		"steps": {`{"type":"STEP_STARTED","stepName":"plan"}
			{"type":"STEP_STARTED","stepName":"plan"}
			{"type":"STEP_FINISHED","stepName":"plan"}
			{"type":"STEP_FINISHED","stepName":"plan"}
			{"type":"STEP_STARTED","stepName":"write"}`, `
			step worker/plan
			done worker/plan
			step worker/write
			done worker/write`},
		"state": {`{"type":"STATE_SNAPSHOT","snapshot":{"n":1,"list":[1],"gone":null}}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/nowhere","value":1},{"op":"replace","path":"/n","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"replace","path":"","value":{"n":1,"list":[1,2,3]}}]}
			{"type":"STATE_SNAPSHOT","snapshot":7}`, `
			delta [{"op":"add","path":"/gone","value":null},{"op":"add","path":"/list","value":[1]},{"op":"add","path":"/n","value":1}]
			delta [{"op":"add","path":"/list/-","value":2}]
			delta [{"op":"remove","path":"/gone"},{"op":"add","path":"/list/-","value":3}]`},
		"members of other types": {`{"type":"TEXT_MESSAGE_START","messageId":7,"role":"assistant","timestamp":"now"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":7,"delta":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}
			{"type":"TEXT_MESSAGE_END","messageId":7}
			{"type":"TOOL_CALL_START","toolCallId":1,"toolCallName":"look","parentMessageId":7}
			{"type":"TOOL_CALL_ARGS","toolCallId":1,"delta":{"x":1}}
			{"type":"TOOL_CALL_END","toolCallId":1}
			{"type":"TOOL_CALL_RESULT","messageId":2,"toolCallId":1,"content":{"n": [1915883588174806058]}}
			{"type":"TOOL_CALL_START","toolCallId":"n","toolCallName":"look"}
			{"type":"TOOL_CALL_END","toolCallId":"n"}
			{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"n","content":7,"role":null}
			{"type":"MESSAGES_SNAPSHOT","messages":[7,{"id":"odd"},
			{"id":"m2","role":"assistant","content":null,"toolCalls":[{"id":"c","function":{"name":"look","arguments":{"y":1}}}]},
			{"id":"q","role":"tool","toolCallId":"c","content":{"seen":true}}]}
			{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":"success","usage":7}`, `
			text assistant
			+ ab
			end success ab
			call look
			args {"x":1}
			TOOL_CALL_END
			result success {"n": [1915883588174806058]}
			call look
			TOOL_CALL_END
			result success 7
			call look
			args {"y":1}
			TOOL_CALL_END
			result success {"seen":true}`},
		"what nobody knows": {`{"type":"FUTURE","x":1}
			{"type":"lower case"}
			{"type":"CUSTOM","name":"chart","value":[1]}
			{"type":"CUSTOM","name":"none"}
			{"type":"RAW","event":{"a":1}}
			[DONE]
			{}
			null
			{"type":"TEXT_MESSAGE_END","messageId":"nobody"}`, `
			FUTURE
			custom chart [1]`},
		"a snapshot": {hello + `
			{"type":"MESSAGES_SNAPSHOT","messages":[
			{"id":"u","role":"user","content":"whatever"},
			{"id":"other","role":"assistant","content":"hello world"},
			{"id":"m2","role":"assistant","content":"more","toolCalls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{}"}}]},
			{"id":"q","role":"tool","toolCallId":"c","content":"seen"}]}`, `
			text assistant
			+ hello 
			+ world
			end success hello world
			text assistant
			+ more
			end success more
			call look
			args {}
			TOOL_CALL_END
			result success seen`},
	} {
		t.Run(name, func(t *testing.T) {
			in := strings.ReplaceAll(strings.ReplaceAll(tt.in, "[\n", "["), ",\n", ",")
			s := serve(t, stream(started+in+finished))
			res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go", Node: "worker"}})
			if res.Err != nil {
				t.Error(res.Err)
			}
			if diff := cmp.Diff(trim(tt.want), brief(res.Events)); diff != "" {
				t.Errorf("(-want +got):\n%s\nlog: %s", diff, s.logged())
			}
		})
	}
}

func TestRequest_FollowsAGUI(t *testing.T) {
	s := serve(t, stream(started+hello+finished))
	in := plugins.Input{
		Messages: []agui.Message{
			{ID: "u1", Role: agui.RoleUser, Content: "one"},
			{ID: "x", Role: agui.RoleReasoning, Content: "hm"},
			{ID: "ours", Role: agui.RoleAssistant, Content: "first", Metadata: json.RawMessage(`{"remoteId":"theirs","agent":"writer"}`)},
			{ID: "u2", Role: agui.RoleUser, Content: "two"},
		},
		Query: "two", State: json.RawMessage(`{"n":1}`),
		Tools:          []agui.Tool{{Name: "pick", Description: "Pick"}},
		ForwardedProps: json.RawMessage(`{"background":true,"theme":"dark"}`),
		ThreadID:       "main", User: "ann", Project: "p",
	}
	for _, protocol := range []string{"1.0", "0.0"} {
		plugintest.Run(t, s.agent(t, func(c *remote.Config) {
			c.Protocol, c.Headers = protocol, map[string]string{"Authorization": "Bearer abcdef"}
		}), plugintest.Config{Input: in})
	}
	if got := s.headers[0].Get("Authorization"); got != "Bearer abcdef" {
		t.Errorf("Authorization: %q", got)
	}
	got, old := s.asked[0], s.asked[1]
	if got.ProtocolVersion != "1.0" || old.ProtocolVersion != "" || strings.Contains(s.bodies[1], "metadata") {
		t.Errorf("protocols: %s\n%s", s.bodies[0], s.bodies[1])
	}
	var ids []string
	for _, m := range got.Messages {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"u1", "theirs", "u2"}, ids); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if string(got.ForwardedProps) != `{"theme":"dark"}` || string(got.State) != `{"n":1}` || len(got.Tools) != 1 || got.Tools[0].Parameters == nil {
		t.Errorf("asked with %s", s.bodies[0])
	}
	if got.ThreadID == "main" || got.ThreadID != old.ThreadID || got.RunID == old.RunID {
		t.Errorf("threads %q and %q, runs %q and %q", got.ThreadID, old.ThreadID, got.RunID, old.RunID)
	}
	in.User = "bob"
	plugintest.Run(t, s.agent(t), plugintest.Config{Input: in})
	if s.asked[2].ThreadID == got.ThreadID {
		t.Error("two users share a thread")
	}
}

func TestRun_ClientToolIsAnswered(t *testing.T) {
	s := serve(t, stream(started+`{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
		{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"pick one"}
		{"type":"TEXT_MESSAGE_END","messageId":"m1"}
		{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"pick","parentMessageId":"m1"}
		{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"of\":2}"}
		{"type":"TOOL_CALL_END","toolCallId":"c1"}`+finished),
		stream(started+`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"red it is"}`+finished))
	cfg := plugintest.Config{
		Input:   plugins.Input{Query: "go", Tools: []agui.Tool{{Name: "pick"}}},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`"red"`)}},
	}
	res := plugintest.Run(t, s.agent(t), cfg)
	if res.Err != nil || res.Output.Answer != "red it is" {
		t.Fatalf("%+v, %v", res.Output, res.Err)
	}
	if len(s.asked) != 2 {
		t.Fatalf("asked %d times", len(s.asked))
	}
	list := s.asked[1].Messages
	last, before := list[len(list)-1], list[len(list)-2]
	if last.Role != agui.RoleTool || last.ToolCallID != "c1" || last.Text() != "red" || before.ID != "m1" ||
		len(before.ToolCalls) != 1 || before.ToolCalls[0].ID != "c1" || before.ToolCalls[0].Arguments != `{"of":2}` {
		t.Errorf("asked again with %s", s.bodies[1])
	}
	// The next turn of the thread sends the same messages under the same ids.
	plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "and now", Messages: append(res.Messages(),
		agui.Message{ID: "u2", Role: agui.RoleUser, Content: "and now"})}})
	var ids []string
	for _, m := range s.asked[2].Messages {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{list[0].ID, "m1", last.ID, "m2", "u2"}, ids); diff != "" {
		t.Errorf("the next turn (-want +got):\n%s", diff)
	}
	// A result that the thread has is no new one.
	again := serve(t, stream(started+`{"type":"TOOL_CALL_RESULT","messageId":"late","toolCallId":"call-1","content":"blue"}
		{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m1","role":"assistant","toolCalls":[{"id":"c1","function":{"name":"pick","arguments":"{}"}}]},`+
		`{"id":"q","role":"tool","toolCallId":"c1","content":"blue"}]}`+finished))
	log := plugintest.Run(t, again.agent(t), plugintest.Config{Input: plugins.Input{Query: "and now", Messages: res.Messages()}})
	if strings.Contains(log.Log(), "blue") {
		t.Errorf("a second result is shown: %s", log.Log())
	}
	plugintest.Replay(t, serveReplay(t), cfg)
}

// serveReplay is a remote that calls the client's tool until its result is among the messages.
func serveReplay(t *testing.T) plugins.Agent {
	t.Helper()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in agui.RunAgentInput
		_ = json.Unmarshal(body, &in)
		if in.Messages[len(in.Messages)-1].Role == agui.RoleTool {
			stream(started+`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n","value":1}]}
				{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"red it is"}`+finished)(w, r)
			return
		}
		stream(started+`{"type":"TOOL_CALL_CHUNK","toolCallId":"c1","toolCallName":"pick","delta":"{}"}`+finished)(w, r)
	})
	return s.agent(t)
}

func TestRun_InterruptsAreAsked(t *testing.T) {
	interrupt := "\n" + `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[` +
		`{"id":"i1","reason":"tool_call","message":"Send?","toolCallId":"c"},{"id":"i2","reason":"input_required","message":"To whom?","responseSchema":{"type":"string"}}]}}`
	s := serve(t, stream(started+`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"send","delta":"{\"a\":1}"}`+interrupt),
		stream(started+`{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"sent"}
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"done"}`+finished))
	res := plugintest.Run(t, s.agent(t), plugintest.Config{
		Input:   plugins.Input{Query: "go"},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`{"approved":true}`)}, {Cancelled: true}},
	})
	if res.Err != nil || res.Output.Answer != "done" || !strings.Contains(brief(res.Events), "result success sent") {
		t.Fatalf("%+v, %v\n%s", res.Output, res.Err, res.Log())
	}
	want := []agui.ResumeEntry{
		{InterruptID: "i1", Status: "resolved", Payload: json.RawMessage(`{"approved":true}`)},
		{InterruptID: "i2", Status: "cancelled"},
	}
	if diff := cmp.Diff(want, s.asked[1].Resume); diff != "" {
		t.Errorf("resume (-want +got):\n%s", diff)
	}
	if len(res.Questions) != 2 || res.Questions[0].Message != "Send?" || string(res.Questions[1].ResponseSchema) != `{"type":"string"}` {
		t.Errorf("asked %+v", res.Questions)
	}
	if s.asked[0].ThreadID != s.asked[1].ThreadID || s.asked[0].RunID == s.asked[1].RunID {
		t.Error("the answer must be another run of the same thread")
	}
}

// interrupted is the end of a run that asks about calls.
func interrupted(calls ...string) string {
	var list []string
	for _, c := range calls {
		list = append(list, `{"id":"i-`+c+`","reason":"tool_call","message":"`+c+`?","toolCallId":"`+c+`"}`)
	}
	return "\n" + `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[` + strings.Join(list, ",") + `]}}`
}

// send is an event that makes a call of the remote's tool send, or of the client's tool pick.
func send(id string) string {
	tool := map[bool]string{true: "pick", false: "send"}[strings.HasPrefix(id, "p")]
	return "\n" + `{"type":"TOOL_CALL_CHUNK","toolCallId":"` + id + `","toolCallName":"` + tool + `","parentMessageId":"m","delta":"{\"n\":1}"}`
}

func TestRun_CallStaysOpenWhileAsked(t *testing.T) {
	said := `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Let me"}`
	for name, tt := range map[string]struct {
		runs    []string
		answers []plugins.Answer
		want    string
		roles   []string // in the last request
	}{
		"the answer is the result": {
			[]string{said + send("c") + interrupted("c"), hello + finished}, []plugins.Answer{{Payload: json.RawMessage(`"to ann"`)}}, `
			text assistant
			+ Let me
			call send
			args {"n":1}
			end success Let me
			TOOL_CALL_END
			text assistant
			+ hello 
			+ world
			end success hello world
			result success to ann`, []string{"user", "assistant c"},
		},
		"the remote shows a result": {
			[]string{
				send("c") + interrupted("c"), `{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"sent"}
				{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"again"}` + finished,
			}, []plugins.Answer{{Payload: json.RawMessage(`{"approved":true}`)}}, `
			call send
			args {"n":1}
			TOOL_CALL_END
			result success sent`, []string{"user", "assistant c"},
		},
		"nobody answers": {
			[]string{send("c") + interrupted("c"), finished}, []plugins.Answer{{Cancelled: true}}, `
			call send
			args {"n":1}
			TOOL_CALL_END
			result failure The question was not answered`, []string{"user", "assistant c"},
		},
		"one call after the other": {
			[]string{send("c") + send("d") + interrupted("c"), interrupted("d"), hello + finished}, []plugins.Answer{
				{Payload: json.RawMessage(`1`)},
				{Payload: json.RawMessage(`{"a":2}`)},
			}, `
			call send
			args {"n":1}
			call send
			args {"n":1}
			TOOL_CALL_END
			TOOL_CALL_END
			text assistant
			+ hello 
			+ world
			end success hello world
			result success 1
			result success {"a":2}`, []string{"user", "assistant c d"},
		},
		"an answer before a call of the client's": {
			[]string{send("c") + interrupted("c"), hello + send("p") + finished, finished}, []plugins.Answer{
				{Payload: json.RawMessage(`1`)},
				{Payload: json.RawMessage(`"red"`)},
			}, `
			call send
			args {"n":1}
			TOOL_CALL_END
			text assistant
			+ hello 
			+ world
			end success hello world
			result success 1
			text assistant
			end success 
			call pick
			args {"n":1}
			TOOL_CALL_END
			result success red`, []string{"user", "assistant c", "tool c", "assistant", "assistant p", "tool p"},
		},
		"a call of the client's tool": {
			[]string{send("p") + interrupted("p"), hello + finished}, []plugins.Answer{{Payload: json.RawMessage(`"red"`)}}, `
			call pick
			args {"n":1}
			TOOL_CALL_END
			text assistant
			+ hello 
			+ world
			end success hello world
			result success red`, []string{"user", "assistant p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var answers []http.HandlerFunc
			for _, run := range tt.runs {
				answers = append(answers, stream(started+run))
			}
			s := serve(t, answers...)
			res := plugintest.Run(t, s.agent(t), plugintest.Config{
				Input: plugins.Input{Query: "go", Tools: []agui.Tool{{Name: "pick"}}}, Answers: tt.answers,
			})
			if res.Err != nil {
				t.Fatal(res.Err)
			}
			if diff := cmp.Diff(trim(tt.want), brief(res.Events)); diff != "" {
				t.Errorf("(-want +got):\n%s\nlog: %s", diff, s.logged())
			}
			var roles []string
			for _, m := range s.asked[len(s.asked)-1].Messages {
				var role strings.Builder
				role.WriteString(string(m.Role))
				for _, c := range m.ToolCalls {
					role.WriteString(" " + c.ID)
				}
				roles = append(roles, strings.TrimSpace(role.String()+" "+m.ToolCallID))
			}
			if diff := cmp.Diff(tt.roles, roles); diff != "" {
				t.Errorf("the last request (-want +got):\n%s\n%s", diff, s.bodies[len(s.bodies)-1])
			}
		})
	}
	plugintest.Replay(t, asksAboutCall(t), plugintest.Config{
		Input: plugins.Input{Query: "go"}, Answers: []plugins.Answer{{Payload: json.RawMessage(`"yes"`)}},
	})
}

// asksAboutCall is a remote that asks about a call until it gets an answer.
func asksAboutCall(t *testing.T) plugins.Agent {
	t.Helper()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in agui.RunAgentInput
		_ = json.NewDecoder(r.Body).Decode(&in)
		if len(in.Resume) > 0 {
			stream(started+hello+finished)(w, r)
			return
		}
		stream(started+send("c")+interrupted("c"))(w, r)
	})
	return s.agent(t)
}

func TestRun_OnInterruptGetsCommand(t *testing.T) {
	for value, message := range map[string]string{
		`"Deploy?"`:                             "Deploy?",
		`"{\"message\":\"Deploy?\",\"n\":1}"`:   "Deploy?",
		`{"question":"Deploy?","by":"someone"}`: "Deploy?",
	} {
		s := serve(t, stream(started+`{"type":"CUSTOM","name":"on_interrupt","value":`+value+`}`+finished), stream(started+hello+finished))
		res := plugintest.Run(t, s.agent(t), plugintest.Config{
			Input: plugins.Input{Query: "go"}, Answers: []plugins.Answer{{Payload: json.RawMessage(`"yes"`)}},
		})
		if res.Err != nil || res.Output.Answer != "hello world" || len(res.Questions) != 1 || res.Questions[0].Message != message {
			t.Fatalf("%s: %+v, %v, %+v", value, res.Output, res.Err, res.Questions)
		}
		var props struct {
			Command struct {
				Resume         string
				InterruptEvent string
			}
		}
		if err := json.Unmarshal(s.asked[1].ForwardedProps, &props); err != nil || props.Command.Resume != "yes" || props.Command.InterruptEvent == "" {
			t.Errorf("%s: forwarded %s", value, s.asked[1].ForwardedProps)
		}
	}
}

func TestFailure_Codes(t *testing.T) {
	elsewhere := serve(t, stream(started+hello+finished))
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, tt := range map[string]struct {
		answer    http.HandlerFunc
		code      string
		message   string
		retryable bool
	}{
		"run error":       {stream(started + `{"type":"RUN_ERROR","message":"no luck","code":"unlucky"}`), "unlucky", "no luck", false},
		"cancelled there": {stream(started + `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`), "remote_cancelled", "", false},
		"cut":             {stream(started + hello), "connection_lost", "", true},
		"nothing":         {stream(""), "empty_answer", "no event", true},
		"no JSON":         {stream(": ping"), "not_agui", "", false},
		"another stream":  {stream(`{"choices":[]}` + "\n[DONE]"), "not_agui", "no event of AG-UI", false},
		"an error that is no event": {
			stream(started + hello + "\n" + `{"error":{"message":"top-secret is worn"}}`), "remote_failed",
			"an error: *** is worn", true,
		},
		"an error of another form": {stream(started + `{"type":"ERROR","message":"worn"}`), "remote_failed", "an error: worn", true},
		"a run error of objects":   {stream(started + `{"type":"RUN_ERROR","message":{"why":"worn"},"code":7}`), "7", `{"why":"worn"}`, false},
		"no stream":                {status(200, `{}`), "not_agui", "", false},
		"an error in a 200":        {status(200, `{"error":{"message":"no such agent"}}`), "not_agui", "event stream: no such agent", false},
		"a web page":               {status(200, `<html><title>Sign in</title></html>`), "not_agui", "event stream: Sign in", false},
		"accepted":                 {status(202, ``), "not_agui", "", false},
		"unauthorized":             {status(401, `{"detail":"bad token top-secret"}`), "unauthorized", "status 401: bad token ***", false},
		"forbidden":                {status(403, `{"error":"forbidden","error_description":"not for you"}`), "unauthorized", "status 403: not for you", false},
		"a list of errors": {
			status(422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`), "refused",
			"status 422: body.messages: field required", false,
		},
		"a secret at the limit": {status(400, strings.Repeat("x", 990)+"Bearer top-secret"), "refused", "xxx", false},
		"invalid":               {status(422, `{"detail":"messages.0: no top-secret here"}`), "refused", "status 422: messages.0: no *** here", false},
		"server error":          {status(500, `oops`), "remote_failed", "status 500: oops", true},
		"too many":              {status(429, `{}`), "rate_limited", "", true},
		"redirect":              {http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, "redirected", "", false},
		"a secret it tells":     {stream(started + `{"type":"RUN_ERROR","message":"Bearer top-secret is no good","code":"x"}`), "x", "*** is no good", false},
		"too large":             {stream(started + `{"type":"CUSTOM","name":"x","value":"` + strings.Repeat("x", 70_000) + `"}`), "answer_too_large", "", false},
		"an endless line": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": "+strings.Repeat("x", 1<<20))
		}, "answer_too_large", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tt.answer)
			res := plugintest.Run(t, s.agent(t, func(c *remote.Config) {
				c.Headers, c.MaxEvent = map[string]string{"Authorization": "Bearer top-secret"}, 64<<10
			}), plugintest.Config{Input: plugins.Input{Query: "go"}})
			got, ok := errors.AsType[*plugins.Error](res.Err)
			if !ok || got.Code != tt.code || got.Retryable != tt.retryable || !strings.Contains(got.Message, tt.message) {
				t.Fatalf("got %#v, want %s", res.Err, tt.code)
			}
			if strings.Contains(res.Err.Error()+s.logged()+res.Log(), "top-secret") {
				t.Errorf("a secret is told: %v\n%s", res.Err, s.logged())
			}
		})
	}
	if len(elsewhere.asked) != 0 {
		t.Error("a redirect to another host was followed")
	}
	gone := serve(t, stream(""))
	agent := gone.agent(t)
	gone.Close()
	res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}})
	if got, ok := errors.AsType[*plugins.Error](res.Err); !ok || got.Code != "unreachable" || !got.Retryable {
		t.Errorf("got %#v", res.Err)
	}
}

func TestRelay_UsageAndResult(t *testing.T) {
	s := serve(t, stream(started+`{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":"42","usage":[{"provider":"p","model":"m","inputTokens":3,"outputTokens":4}]}`))
	res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
	want := []agui.TokenUsage{{Provider: "p", Model: "m", InputTokens: 3, OutputTokens: 4, TotalTokens: 7}}
	if diff := cmp.Diff(want, res.Usage); diff != "" || res.Output.Answer != "42" {
		t.Errorf("answer %q, usage %s", res.Output.Answer, diff)
	}
}

func TestNew_RefusesInvalidConfig(t *testing.T) {
	for _, cfg := range []remote.Config{
		{},
		{URL: "ftp://host/x"},
		{URL: "http://"},
		{URL: "http://host", Protocol: "2"},
		{URL: "http://host", Stop: "http://host/stop"},
		{URL: "http://host", Stop: "/stop/{threadId}"},
		{URL: "http://host", Idle: -1},
		{URL: "http://host", Headers: map[string]string{"X": "a\r\nY: b"}},
		{URL: "http://host", Headers: map[string]string{"a b": "x"}},
	} {
		if _, err := remote.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
