package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// both runs a test over both ways to reach the tools.
func both(t *testing.T, test func(t *testing.T, s *server, c client)) {
	t.Run("over HTTP", func(t *testing.T) {
		s := serve(t)
		test(t, s, s.overHTTP())
	})
	t.Run("over streams", func(t *testing.T) {
		s := serve(t)
		test(t, s, s.overStreams(ann))
	})
}

func TestSchemasAreTheSeeds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, _ *server, c client) {
		list, err := c.ListTools(t.Context(), nil)
		must(t, err)
		shown := make(map[string]any)
		for _, tool := range list.Tools {
			shown[tool.Name+".input"] = tool.InputSchema
			shown[tool.Name+".output"] = tool.OutputSchema
		}
		seeds, err := filepath.Glob("testdata/*.schema.json")
		if err != nil || len(seeds) != 4 {
			t.Fatalf("%d seeds, %v", len(seeds), err)
		}
		for _, file := range seeds {
			raw, err := os.ReadFile(file)
			must(t, err)
			name := strings.TrimSuffix(filepath.Base(file), ".schema.json")
			if diff := cmp.Diff(decode[any](t, string(raw)), shown[name]); diff != "" {
				t.Errorf("%s (-seed +shown):\n%s", name, diff)
			}
		}
	})
}

func TestToolsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *server, c client) {
		list, err := c.ListTools(t.Context(), nil)
		must(t, err)
		var got []string
		for _, tool := range list.Tools {
			h := tool.Annotations
			hints := []string{}
			for name, hint := range map[string]bool{
				"reads": h.ReadOnlyHint, "destroys": *h.DestructiveHint, "idempotent": h.IdempotentHint, "open": *h.OpenWorldHint,
			} {
				if hint {
					hints = append(hints, name)
				}
			}
			slices.Sort(hints)
			got = append(got, tool.Name+": "+strings.Join(hints, " "))
			if tool.Description == "" || tool.Title == "" || s.schemas[tool.Name] == nil {
				t.Errorf("%s lacks a description, a title or a schema", tool.Name)
			}
			if input := tool.InputSchema.(map[string]any); input["additionalProperties"] != false {
				t.Errorf("%s takes unknown arguments", tool.Name)
			}
		}
		want := []string{
			"append_agent_message: open",
			"cancel_agent_run: destroys idempotent",
			"get_agent_run_events: idempotent reads",
			"get_agent_run_snapshot: idempotent reads",
			"list_agent_runs: idempotent reads",
			"list_agents: idempotent reads",
			"resume_agent_run: destroys idempotent open",
			"send_event: open",
			"start_agent_run: destroys open",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestARunIsStartedContinuedAndCancelled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *server, c client) {
		r := c.script(`{"ask": {"message": "Deploy?"}}, {"say": "done"}`, "thread_id", "mine", "run_id", "first", "context_item_ids", []string{"i"})
		if r.ThreadID != "mine" || r.RunID != "first" {
			t.Errorf("got %+v", r)
		}
		if again := c.script(`{"ask": {"message": "Deploy?"}}, {"say": "done"}`, "thread_id", "mine", "run_id", "first", "context_item_ids", []string{"i"}); again.RunID != r.RunID || again.ConversationID != r.ConversationID {
			t.Errorf("asked again, got %+v", again)
		}
		s.await(r, runtime.Waiting)
		waiting := decode[struct {
			Total int
			Items []struct {
				Interrupts []struct{ ID, Message string }
			}
		}](t, c.call("list_agent_runs", args{"status": "WAITING", "thread_id": r.ConversationID, "limit": 1, "count": true}))
		if waiting.Total != 1 || waiting.Items[0].Interrupts[0].Message != "Deploy?" {
			t.Fatalf("got %+v", waiting)
		}
		answer := args{"run_id": r.RunID, "resume": []args{{"interruptId": waiting.Items[0].Interrupts[0].ID, "status": "resolved", "payload": true}}}
		c.refused("resume_agent_run", args{"run_id": r.RunID, "resume": []args{{"interruptId": "x", "status": "resolved"}}}, "unknown_interrupt", "")
		c.call("resume_agent_run", answer)
		s.await(r, runtime.Completed)
		c.refused("resume_agent_run", answer, "already_answered", "")
		c.refused("cancel_agent_run", args{"run_id": r.RunID}, "invalid_state", "COMPLETED")

		c.call("append_agent_message", args{"run_id": r.RunID, "content": `{"do": [{"say": "two"}, {"tool": "sleep", "args": {"ms": 60000}}]}`})
		run := s.await(r, runtime.Running)
		if run.Generation != 2 {
			t.Errorf("generation %d", run.Generation)
		}
		if got := c.call("send_event", args{"run_id": r.RunID, "name": "paid", "payload": args{"n": 1}}); got != `{"delivered":false}` {
			t.Errorf("got %s", got)
		}
		c.refused("send_event", args{"run_id": r.RunID, "name": "a/b"}, "invalid_arguments", "")
		first := c.call("cancel_agent_run", args{"run_id": r.RunID})
		if again := c.call("cancel_agent_run", args{"run_id": r.RunID}); again != first || !strings.Contains(first, `"CANCELLED"`) {
			t.Errorf("got %s, then %s", first, again)
		}
		c.refused("append_agent_message", args{"run_id": r.RunID, "content": "x"}, "invalid_state", "CANCELLED")
		c.refused("start_agent_run", args{"agent": "nobody", "content": "x"}, "unknown_agent", `"nobody"`)
		c.refused("start_agent_run", args{"agent": "echo", "content": "x", "thread_id": "mine", "run_id": "first"}, "run_exists", "")
	})
}

// TestAgentsAreListedWithWorkflows expects REST's list without the fields that a model has no use for: origin and health.
func TestAgentsAreListedWithWorkflows(t *testing.T) {
	t.Parallel()
	type offers []map[string]any
	s := serve(t)
	got := decode[map[string]offers](t, s.overHTTP().call("list_agents", nil))
	for member, path := range map[string]string{"agents": "/api/v1/agents", "tools": "/api/v1/agents", "workflows": "/api/v1/workflows"} {
		_, body := s.get(path)
		want := decode[map[string]json.RawMessage](t, body)[member]
		listed := decode[offers](t, string(want))
		for _, offer := range listed {
			for _, unsaid := range []string{"origin", "health", "model", "tools"} {
				delete(offer, unsaid)
			}
		}
		if diff := cmp.Diff(listed, got[member]); diff != "" || len(listed) == 0 {
			t.Errorf("%s (-want +got):\n%s", member, diff)
		}
	}
}

// Models send null for what is optional, and numbers and lists as texts.
func TestArguments_AreMadeToFit(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *server, c client) {
		r := c.script(`{"say": "hello"}`)
		s.await(r, runtime.Completed)
		want := c.call("get_agent_run_events", r.is("limit", 2, "after_event_id", 1))
		if got := c.call("get_agent_run_events", r.is("limit", "2", "after_event_id", "1")); got != want {
			t.Errorf("texts: got %s, want %s", got, want)
		}
		want = c.call("get_agent_run_events", r.is())
		if got := c.call("get_agent_run_events", r.is("limit", nil, "after_event_id", nil)); got != want {
			t.Errorf("null: got %s, want %s", got, want)
		}
	})
}

func TestArgumentsThatDoNotFitAreRefusedWithASentence(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *server, c client) {
		r := c.script(`{"say": "hello"}`)
		s.await(r, runtime.Completed)
		for _, bad := range []struct {
			tool string
			args any
			says string
		}{
			{"get_agent_run_events", r.is("limit", 0), "/limit"},
			{"get_agent_run_events", r.is("limit", 501), "/limit"},
			{"get_agent_run_events", r.is("limit", "five"), "/limit"},
			{"get_agent_run_events", r.is("limit", "501"), "/limit"},
			{"get_agent_run_events", r.is("limit", 1.5), "/limit"},
			{"get_agent_run_events", args{"conversation_id": r.ConversationID, "run_id": nil}, "/run_id"},
			{"get_agent_run_events", r.is("after_event_id", -1), "/after_event_id"},
			{"get_agent_run_events", r.is("after_event_id", "one"), "/after_event_id"},
			{"get_agent_run_events", r.is("other", 1), "other"},
			{"get_agent_run_events", args{"run_id": r.RunID}, "conversation_id"},
			{"get_agent_run_events", nil, "conversation_id"},
			{"get_agent_run_events", []int{1}, ""},
			{"get_agent_run_snapshot", args{"conversation_id": "main", "run_id": r.RunID}, "/conversation_id"},
			{"get_agent_run_snapshot", args{"conversation_id": r.ConversationID, "run_id": ""}, "/run_id"},
			{"start_agent_run", args{"agent": 1}, "/agent"},
			{"start_agent_run", args{"threadId": "x"}, "threadId"},
			{"start_agent_run", args{"multitask": "shout"}, "/multitask"},
			{"list_agents", args{"x": 1}, "x"},
			{"list_agent_runs", args{"status": "DONE"}, "/status"},
			{"list_agent_runs", args{"since": "yesterday"}, "/since"},
			{"resume_agent_run", args{"run_id": r.RunID, "resume": []args{}}, "/resume"},
			{"cancel_agent_run", args{}, "run_id"},
		} {
			c.refused(bad.tool, bad.args, "invalid_arguments", bad.says)
		}
		c.refused("get_agent_run_events", r.is("after_event_id", 1_000_000), "invalid_cursor", "beyond the log's end")
		c.refused("get_agent_run_events", r.is("after_event_id", json.Number("1e30")), "invalid_cursor", "the id of an event")
		c.refused("list_agent_runs", args{"cursor": "x"}, "invalid_cursor", "")
		c.refused("start_agent_run", args{"agent": "echo", "content": " "}, "invalid_content", "")
		c.refused("start_agent_run", args{"agent": "echo", "content": "x", "messages": []args{}}, "invalid_request", "not both")
		if got := c.events(r.is("limit", json.Number("1e0"))); len(got.Data) != 1 {
			t.Errorf("a limit of 1e0 gave %d events", len(got.Data))
		}
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), `unknown tool "nothing"`) {
			t.Errorf("an unknown tool: %v", err)
		}
	})
}

// rude is an agent whose description fails after five calls.
type rude struct{ asked *int }

func (r rude) Info() plugins.Info {
	if *r.asked++; *r.asked > 5 {
		panic("secret")
	}
	return plugins.Info{Name: "rude", Description: "asked once too often"}
}

func (rude) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, nil
}

func TestWhatBreaksInsideShowsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, rude{new(int)})
	c := s.overHTTP()
	for range 6 {
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "list_agents"})
		must(t, err)
		text := res.Content[0].(*sdk.TextContent).Text
		if strings.Contains(text, "secret") {
			t.Fatalf("got %s", text)
		}
		if res.IsError {
			if p := decode[struct{ Detail, Code, RequestID string }](t, text); p.Detail != "internal error" || p.RequestID == "" {
				t.Errorf("got %s", text)
			}
			return
		}
	}
	t.Error("nothing broke")
}

func TestInputThatUsesAnIDTwiceEndsLikeAnyOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const call = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"list_agents"}}` + "\n"
	in := hello + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + strings.Repeat(call, 5)
	r, w := io.Pipe()
	served := make(chan error, 1)
	go func() { // ends with in
		served <- s.tools.Serve(context.WithoutCancel(t.Context()), ann, io.NopCloser(strings.NewReader(in)), w)
	}()
	out, err := io.ReadAll(r)
	if err = errors.Join(err, <-served); err != nil || !strings.Contains(string(out), `"id":5,"result"`) {
		t.Errorf("got %v, %s", err, out)
	}
}
