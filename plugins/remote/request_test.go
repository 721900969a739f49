package remote_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

// calls returns the calls and results in a request, after checking that all arguments are objects.
func (s *server) calls(t *testing.T, n int) (list []string) {
	t.Helper()
	for _, m := range s.asked[n].Messages {
		for _, c := range m.ToolCalls {
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(c.Arguments), &object); err != nil || object == nil {
				t.Errorf("the call %s has the arguments %q", c.ID, c.Arguments)
			}
			list = append(list, c.ID+" "+c.Arguments)
		}
		if m.Role == agui.RoleTool {
			list = append(list, "result of "+m.ToolCallID)
		}
	}
	return list
}

// A remote gets objects as arguments of calls, also of those that it made with others, in the same step and in later turns.
func TestRequest_ArgumentsAreObjects(t *testing.T) {
	t.Parallel()
	begin := func(id, tool string) string {
		return `{"type":"TOOL_CALL_START","toolCallId":"` + id + `","toolCallName":"` + tool + `"}` + "\n"
	}
	args := func(id, delta string) string {
		return string(agui.ToolCallArgs{ToolCallID: id, Delta: delta}.AppendJSON(nil, agui.AGUI1)) + "\n"
	}
	end := func(id string) string { return `{"type":"TOOL_CALL_END","toolCallId":"` + id + `"}` + "\n" }
	result := func(id string) string {
		return `{"type":"TOOL_CALL_RESULT","messageId":"of ` + id + `","toolCallId":"` + id + `","content":"seen"}` + "\n"
	}
	for name, tt := range map[string]struct {
		own   string // events of a call of its own, named c
		want  string // its arguments
		later string // in later turns, empty if the thread's prompts leave the call out
	}{
		"none":            {begin("c", "look") + end("c") + result("c"), "{}", "{}"},
		"none and no end": {begin("c", "look") + result("c"), "{}", "{}"},
		"no result":       {begin("c", "look"), "{}", "{}"},
		"empty":           {begin("c", "look") + args("c", "") + end("c") + result("c"), "{}", "{}"},
		"null":            {begin("c", "look") + args("c", "null") + end("c") + result("c"), "{}", "{}"},
		"an object":       {begin("c", "look") + args("c", `{"x":`) + args("c", `"<1>"}`) + end("c") + result("c"), `{"x":"<1>"}`, `{"x":"<1>"}`},
		"a text":          {begin("c", "look") + args("c", "red") + end("c") + result("c"), `{"input":"red"}`, ""},
		"a list":          {begin("c", "look") + args("c", "[1]") + end("c") + result("c"), `{"input":"[1]"}`, `{"input":"[1]"}`},
		"cut":             {begin("c", "look") + args("c", `{"x":`) + result("c"), `{"input":"{\"x\":"}`, ""},
		"in a snapshot": {`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","function":{"name":"look","arguments":""}}]},` +
			`{"id":"of c","role":"tool","toolCallId":"c","content":"seen"}]}` + "\n", "{}", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, stream(started+tt.own+begin("p", "pick")+finished), stream(started+hello+finished))
			res := plugintest.Run(t, s.agent(t), plugintest.Config{
				Input: plugins.Input{Query: "go", Tools: []agui.Tool{{Name: "pick"}}}, Answers: []plugins.Answer{{Payload: json.RawMessage(`"red"`)}},
			})
			if res.Err != nil || len(s.asked) != 2 {
				t.Fatal(res.Err, len(s.asked))
			}
			want := []string{"c " + tt.want, "result of c", "p {}", "result of p"}
			if diff := cmp.Diff(want, s.calls(t, 1)); diff != "" {
				t.Errorf("in the same step (-want +got):\n%s", diff)
			}
			plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "and now"}, Messages: res.Messages()})
			if got := s.calls(t, 2); tt.later != "" && (len(got) != 4 || got[0] != "c "+tt.later) {
				t.Errorf("the next turn has %q", got)
			}
		})
	}
}

// A call that was invented for the result of a call that the remote has not announced is shown, and not sent to that remote. A later
// snapshot of the result is not shown again.
func TestRequest_HasNoInventedCalls(t *testing.T) {
	t.Parallel()
	const (
		asks     = `{"type":"CUSTOM","name":"on_interrupt","value":{"type":"mastra_suspend","toolCallId":"c","toolName":"book","args":{"n":1},"runId":"r"}}`
		snapshot = `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"q","role":"tool","toolCallId":"c","content":"booked"}]}` + "\n"
		result   = `{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"booked"}` + "\n"
		pick     = `{"type":"TOOL_CALL_CHUNK","toolCallId":"p","toolCallName":"pick"}`
	)
	for name, shows := range map[string]string{"a result": result, "a snapshot": snapshot, "both": result + snapshot} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, stream(started+asks+finished), stream(started+shows+pick+finished), stream(started+hello+finished), stream(started+snapshot+hello+finished))
			res := plugintest.Run(t, s.agent(t), plugintest.Config{
				Input:   plugins.Input{Query: "go", Tools: []agui.Tool{{Name: "pick"}}},
				Answers: []plugins.Answer{{Payload: json.RawMessage(`true`)}, {Payload: json.RawMessage(`"red"`)}},
			})
			if res.Err != nil || len(s.asked) != 3 || strings.Count(brief(res.Events), "result success booked") != 1 {
				t.Fatalf("%v, asked %d times\n%s", res.Err, len(s.asked), res.Log())
			}
			want := []string{"p {}", "result of p"}
			if diff := cmp.Diff(want, s.calls(t, 2)); diff != "" {
				t.Errorf("in the same step (-want +got):\n%s", diff)
			}
			next := plugintest.Config{Input: plugins.Input{Query: "and now"}, Messages: res.Messages()}
			if got := brief(plugintest.Run(t, s.agent(t), next).Events); strings.Contains(got, "booked") {
				t.Errorf("shown again: %s", got)
			}
			if got := s.calls(t, 3); len(got) != 2 || strings.Contains(s.bodies[3], "booked") {
				t.Errorf("in the next turn: %s", s.bodies[3])
			}
			for _, m := range s.asked[3].Messages {
				if m.Role == agui.RoleAssistant && m.Content == "" && len(m.ToolCalls) == 0 {
					t.Errorf("an empty message is sent: %s", s.bodies[3])
				}
			}
			// Another remote knows it no more and no less than the other calls.
			other := serve(t, stream(started+hello+finished))
			plugintest.Run(t, other.agent(t, func(c *remote.Config) { c.Name = "other" }), next)
			if got := other.calls(t, 0); len(got) != 4 || got[0] != `c {"n":1}` || got[1] != "result of c" {
				t.Errorf("another remote gets %q", got)
			}
		})
	}
}

// An answer names the run that it is for: by the remote's own id if it has given one.
func TestRequest_ResumeHasParent(t *testing.T) {
	t.Parallel()
	ask := func(id string) string {
		return strings.ReplaceAll(interrupted("c"), `"runId":"r"`, id)
	}
	s := serve(t, stream(started+send("c")+ask(`"runId":"first"`)), stream(started+ask(`"runId":""`)), stream(started+send("p")+finished), stream(started+hello+finished))
	res := plugintest.Run(t, s.agent(t), plugintest.Config{
		Input:   plugins.Input{Query: "go", Tools: []agui.Tool{{Name: "pick"}}},
		Answers: []plugins.Answer{{Payload: json.RawMessage(`1`)}, {Payload: json.RawMessage(`2`)}, {Payload: json.RawMessage(`3`)}},
	})
	if res.Err != nil || len(s.asked) != 4 {
		t.Fatal(res.Err, len(s.asked))
	}
	want := []string{"", "first", s.asked[1].RunID, ""}
	for i, in := range s.asked {
		if in.ParentRunID != want[i] {
			t.Errorf("request %d has the parent %q, want %q", i, in.ParentRunID, want[i])
		}
	}
}

// A snapshot is never silently empty.
func TestSnapshot_LossIsLogged(t *testing.T) {
	t.Parallel()
	for messages, want := range map[string]string{
		`{"a":1}`: "0 of 0 messages are readable",
		`[7]`:     "0 of 1 messages are readable",
		`[{"id":"m","role":"assistant","content":"hi"},{"role":[]},7]`: "1 of 3 messages are readable",
		`[{"role":"assistant","content":"hi"}]`:                        "a message has no id",
	} {
		s := serve(t, stream(started+`{"type":"MESSAGES_SNAPSHOT","messages":`+messages+`}`+finished))
		res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
		if res.Err != nil || !strings.Contains(s.logged(), want) {
			t.Errorf("%s: %v, log %s", messages, res.Err, s.logged())
		}
	}
}
