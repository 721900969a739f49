package remote_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestRun_ClientToolIsAnswered(t *testing.T) {
	t.Parallel()
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
	plugintest.Run(t, s.agent(t), plugintest.Config{Messages: append(res.Messages(), agui.Message{ID: "u2", Role: agui.RoleUser, Content: "and now"})})
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
	log := plugintest.Run(t, again.agent(t), plugintest.Config{Input: plugins.Input{Query: "and now"}, Messages: res.Messages()})
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
	t.Parallel()
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
	t.Parallel()
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

// A question about a call that the remote has not announced, as of a suspended tool of Mastra's, shows that call with its tool and arguments
// as far as the question has them.
func TestRun_QuestionShowsItsCall(t *testing.T) {
	t.Parallel()
	said := `"toolName":"book","args":{"n":1}`
	custom := func(value string) string {
		return `{"type":"CUSTOM","name":"on_interrupt","value":` + value + `}`
	}
	outcome := func(members string) string {
		return strings.ReplaceAll(interrupted("c"), `"toolCallId":"c"`, members)
	}
	const shown = "call book\nargs {\"n\":1}\n"
	for name, tt := range map[string]struct{ asks, want string }{
		"an event":               {custom(`{"type":"mastra_suspend","toolCallId":"c",`+said+`}`) + finished, shown},
		"an event with text":     {custom(string(must(json.Marshal(`{"toolCallId":"c",`+said+`}`)))) + finished, shown},
		"an outcome":             {outcome(`"toolCallId":"c","metadata":{"mastra":{` + said + `}}`), shown},
		"an outcome, directly":   {outcome(`"toolCallId":"c","metadata":{"toolName":"book","arguments":"{\"n\":1}"}`), shown},
		"both":                   {custom(`{"toolCallId":"c",`+said+`}`) + outcome(`"toolCallId":"c","metadata":{"mastra":{`+said+`}}`), shown},
		"a call that was shown":  {strings.ReplaceAll(send("c"), `"send"`, `"book"`) + outcome(`"toolCallId":"c","metadata":{"toolName":"other"}`), shown},
		"a call without a name":  {outcome(`"toolCallId":"c","metadata":{"args":{"n":1}}`), "call tool\nargs {}\n"},
		"a name without a call":  {outcome(`"metadata":{"toolName":"other"}`), "call tool\nargs {}\n"},
		"members of other types": {outcome(`"toolCallId":"c","metadata":{"mastra":[],"toolName":{},"args":7}`), "call tool\nargs {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, stream(started+tt.asks), stream(started+`{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"booked"}`+finished))
			res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}, Answers: []plugins.Answer{{Payload: json.RawMessage(`true`)}}})
			want := tt.want + "TOOL_CALL_END\nresult success booked\n"
			if diff := cmp.Diff(want, brief(res.Events)); res.Err != nil || diff != "" {
				t.Fatalf("%v (-want +got):\n%s", res.Err, diff)
			}
			announced := strings.Contains(tt.asks, "TOOL_CALL")
			if sent := strings.Contains(s.bodies[1], `"book"`) && strings.Contains(s.bodies[1], `"toolCalls"`); sent != announced {
				t.Errorf("the remote gets back %s", s.bodies[1])
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRun_OnInterruptGetsCommand(t *testing.T) {
	t.Parallel()
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
