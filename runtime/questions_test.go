package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A viewer of open questions sees the tool and the arguments of each call, both for an approval and for a call that a
// client answers.
func TestQuestionsTellOfTheCall(t *testing.T) {
	t.Parallel()
	wipe := tool{plugins.Info{Name: "wipe", Approval: true}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, nil }}
	calls := func(name string) agent {
		return agent{name + "s", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, err := run.CallTool(ctx, name, json.RawMessage(`{"disk":"sda"}`))
			return agui.WorkerOutput{}, err
		}}
	}
	b := open(t, runtime.Config{}, wipe, calls("wipe"), calls("pick"))
	for _, c := range []struct{ agent, tool string }{{"wipes", "wipe"}, {"picks", "pick"}} {
		s := b.request(runtime.StartRequest{
			Agent: c.agent, ThreadID: c.agent, Messages: user("go"), Tools: []agui.Tool{{Name: "pick", Parameters: []byte(`{}`)}},
		})
		b.wait(s.RunID, runtime.Waiting)
	}
	check := func(when string) {
		t.Helper()
		asked, err := b.Runs.Questions(t.Context(), local, runtime.QuestionFilter{})
		if err != nil || len(asked.Rows) != 2 {
			t.Fatalf("%s there are the questions %+v, %v", when, asked.Rows, err)
		}
		kinds := []string{"approval", ""}
		for i, name := range []string{"wipe", "pick"} {
			var call struct {
				Kind, ToolName string
				Input          struct{ Disk string }
			}
			q := &asked.Rows[i]
			if err := json.Unmarshal(q.Interrupt.Metadata, &call); err != nil || call.Kind != kinds[i] || call.ToolName != name || call.Input.Disk != "sda" || q.Interrupt.ToolCallID == "" {
				t.Errorf("%s the call of %s is shown as %+v, %v", when, name, q.Interrupt, err)
			}
			own, err := b.Runs.Interrupts(t.Context(), local, q.RunID)
			if err != nil || len(own) != 1 || string(own[0].Metadata) != string(q.Interrupt.Metadata) {
				t.Errorf("%s the run itself asks %+v, %v", when, own, err)
			}
		}
	}
	check("at first")
	b.restart()
	check("after a restart")
}

// A client can make a form of a question's schema, and a reader of the log can read it. A question with an invalid
// schema fails its worker at any depth.
func TestQuestions_HaveSchemasThatAreOnes(t *testing.T) {
	t.Parallel()
	fetched := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fetched <- r.URL.Path
			return
		}
		var in agui.RunAgentInput
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, json.Unmarshal(body, &in)); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\ndata: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\","+
			"\"outcome\":{\"type\":\"interrupt\",\"interrupts\":[{\"id\":\"i\",\"reason\":\"input_required\",\"responseSchema\":%s}]}}\n\n", in.Messages[0].Content)
	}))
	defer elsewhere.Close()
	far, err := remote.New(remote.Config{Name: "far", URL: elsewhere.URL})
	must(t, err)
	defer far.Close(context.Background())
	asking := func(name string, question func(schema string) agui.Interrupt) agent {
		return agent{name, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, err := run.Ask(ctx, question(run.Input.Query))
			return agui.WorkerOutput{}, err
		}}
	}
	near := asking("near", func(schema string) agui.Interrupt { return agui.Interrupt{ResponseSchema: json.RawMessage(schema)} })
	meta := asking("meta", func(metadata string) agui.Interrupt { return agui.Interrupt{Metadata: json.RawMessage(metadata)} })
	b := open(t, runtime.Config{}, far, near, meta)
	for i, c := range []struct{ schema, want string }{
		{`{"properties":{"a":null}}`, "at '/properties/a': got null, want boolean or object"},
		{`{"required":5}`, "at '/required': got number, want array"},
		{`{"title":{}}`, "at '/title': got object, want string"},
		{`{"$ref":"#"}`, "refers to itself"},
		{`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`, "refers to itself"},
		{`{"$ref":"` + elsewhere.URL + `/schema"}`, "nothing outside of it"},
		{`{"type":"object","properties":{"a":{"$ref":"#"}}}`, ""},
		{` {"type":"string","pattern":"^(?!x)"}`, ""},
		{`null`, ""},
	} {
		for _, name := range []string{"near", "far"} {
			s := b.start(fmt.Sprint(name, i), name, c.schema)
			if c.want == "" {
				b.wait(s.RunID, runtime.Waiting)
				continue
			}
			run := b.wait(s.RunID, runtime.Failed)
			if run.Error == nil || run.Error.Code != "bad_interrupt" || !strings.Contains(run.Error.Message, c.want) {
				t.Errorf("%s asks with %s: %+v, want %q", name, c.schema, run.Error, c.want)
			}
		}
	}
	for i, raw := range []string{`true`, `[]`} {
		for _, name := range []string{"near", "meta"} {
			run := b.wait(b.start(fmt.Sprint(name, "no object", i), name, raw).RunID, runtime.Failed)
			if run.Error == nil || run.Error.Code != "bad_interrupt" || !strings.Contains(run.Error.Message, "must be an object") {
				t.Errorf("%s asks with %s: %+v", name, raw, run.Error)
			}
		}
	}
	for i, raw := range []string{
		`{"by":"Operator"}`, `{"by":["operator"]}`, `{"not":"Requester"}`, `{"by":"operator","not":["requester"]}`, `{"by":"operator","edit":"false"}`,
	} { // everybody could answer a question of which this was dropped
		run := b.wait(b.start(fmt.Sprint("answerers", i), "meta", raw).RunID, runtime.Failed)
		if run.Error == nil || run.Error.Code != "bad_interrupt" || !strings.Contains(run.Error.Message, "metadata.") {
			t.Errorf("meta asks with %s: %+v", raw, run.Error)
		}
	}
	select {
	case path := <-fetched:
		t.Errorf("%s was fetched", path)
	default:
	}
}

// A run keeps the workflow that it was started with, even if the workflow is replaced or removed.
func TestRunKeepsItsWorkflow(t *testing.T) {
	t.Parallel()
	flow := func(second string) plugins.Workflow {
		return plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "start", Agent: "echo"}, {ID: second, Agent: "echo", Needs: []string{"start"}}}}
	}
	echo := answering("echo", func(q string) string { return q })
	b := open(t, runtime.Config{}, echo, flow("old"))
	s := b.startWorkflow("main", "flow", "x")
	b.wait(s.RunID, runtime.Completed)
	alone := b.start("other", "echo", "x")
	must(t, b.Replace(t.Context(), registry(t, echo, flow("new"))))
	w, err := b.Runs.Workflow(t.Context(), local, s.RunID)
	if err != nil || w.Name != "flow" || len(w.Nodes) != 2 || w.Nodes[1].ID != "old" || w.Nodes[1].Needs[0] != "start" {
		t.Errorf("the run had %+v, %v", w, err)
	}
	w, err = b.Runs.Workflow(t.Context(), local, alone.RunID)
	if err != nil || len(w.Nodes) != 1 || w.Nodes[0].Agent != "echo" {
		t.Errorf("the agent's run had %+v, %v", w, err)
	}
}

// A call can ask 20 questions, however long their keys are.
func TestQuestions_OfACallAreLimited(t *testing.T) {
	t.Parallel()
	declined := 0
	job := tool{plugins.Info{Name: "job", Idempotent: true}, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		for i := range 25 {
			if _, err := call.Ask(strings.Repeat("x", 300)+strconv.Itoa(i), agui.Interrupt{Message: "?"}); !errors.Is(err, plugins.ErrWaiting) {
				declined++
			}
		}
		return agui.ToolOutput{}, plugins.ErrWaiting
	}}
	b := open(t, runtime.Config{}, job, asksFor("clerk", "job", `{}`))
	run := b.start("a", "clerk", "go").RunID
	b.wait(run, runtime.Waiting)
	if declined != 5 {
		t.Errorf("%d questions were declined, want 5", declined)
	}
}
