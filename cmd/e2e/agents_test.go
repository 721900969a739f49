package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// notes is the variable that makes this program an MCP server. It names the file that the tools append to.
const notes = "BATON_E2E_NOTES"

// serveTools runs the MCP server. The tool note appends its n to the file and takes some time. The tool hang does so, too, ignores
// cancellation, and ends when the server has ended. The tool book asks a person for a seat.
func serveTools(file string) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	add := func(name string, after func()) {
		t := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}
		s.AddTool(t, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args struct{ N int }
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			if _, err := fmt.Fprintln(f, args.N); err != nil {
				return nil, err
			}
			if err := f.Close(); err != nil {
				return nil, err
			}
			after()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("noted %d", args.N)}}}, nil
		})
	}
	add("note", func() { pause(20 * time.Millisecond) })
	parent := os.Getppid()
	add("hang", func() {
		for os.Getppid() == parent {
			pause(50 * time.Millisecond)
		}
		os.Exit(0)
	})
	book := &mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}
	s.AddTool(book, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		seat := json.RawMessage(`{"type":"object","properties":{"seat":{"type":"integer"}},"required":["seat"]}`)
		res, ok := req.Params.InputResponses["seat"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"seat": &mcp.ElicitParams{Message: "Which seat?", RequestedSchema: seat}}}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(res.Action, res.Content)}}}, nil
	})
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// world is a server with declared agents, and the provider and tools that they use.
type world struct {
	*server
	provider *llmtest.Server
	file     string // baton.yaml
	text     string // its content
	notes    string // file with the notes of the tools
}

// declare starts a server with a baton.yaml. In file, $PROVIDER is a provider that answers with answer, $TOOLS an MCP server with the
// tools note and hang, and replace has more pairs of a word and its replacement.
func declare(t *testing.T, db database, file string, answer func(prompt) llmtest.Script, replace ...string) *world {
	t.Helper()
	provider := llmtest.New(func(r *llmtest.Request) llmtest.Script { return answer(asked(r)) })
	t.Cleanup(provider.Close)
	dir := t.TempDir()
	w := &world{provider: provider, file: filepath.Join(dir, "baton.yaml"), notes: filepath.Join(dir, "notes")}
	self, err := os.Executable()
	must(t, err)
	w.text = strings.NewReplacer(append(replace,
		"$PROVIDER", "provider: openai, base_url: "+provider.URL+"/v1, api_key: key",
		"$TOOLS", fmt.Sprintf("command: [%s], env: {%s: %s}, required: true", self, notes, w.notes))...).Replace(file)
	w.write(t, w.text)
	w.server = start(t, db, "BATON_CONFIG="+w.file)
	return w
}

func (w *world) write(t *testing.T, file string) {
	t.Helper()
	must(t, os.WriteFile(w.file, []byte(file), 0o600))
}

// noted returns the notes of the tools so far.
func (w *world) noted() []string {
	text, _ := os.ReadFile(w.notes) // the first note creates it
	return strings.Fields(string(text))
}

// ask starts a run of an agent and returns its id.
func (w *world) ask(agent, thread, content string) string {
	w.t.Helper()
	status, out := w.call("POST", "/api/v1/agent/runs", map[string]any{"agent": agent, "threadId": thread, "content": content})
	if status != http.StatusAccepted {
		w.t.Fatalf("start: %d %v", status, out)
	}
	return out["runId"].(string)
}

// waits waits until a run is WAITING and returns its questions.
func (s *server) waits(run string) []map[string]any {
	s.t.Helper()
	s.until("waiting: run "+run, func() bool {
		row := s.get(run)
		if final(row["status"]) {
			s.t.Fatalf("the run is %v: %v", row["status"], row["error"])
		}
		return row["status"] == "WAITING"
	})
	var list []map[string]any
	raw, _ := json.Marshal(s.get(run)["interrupts"])
	_ = json.Unmarshal(raw, &list)
	return list
}

// prompt is a request of OpenAI's chat completions.
type prompt struct {
	Model    string
	Messages []struct {
		Role      string
		Content   any
		ToolCalls []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
		ToolCallID string `json:"tool_call_id"`
	}
}

func asked(r *llmtest.Request) prompt {
	var p prompt
	_ = json.Unmarshal(r.Body, &p) // empty if the body is no JSON
	return p
}

// turn returns the number of the model's answers since the last user message.
func (p prompt) turn() (n int) {
	for _, m := range p.Messages {
		switch m.Role {
		case "user":
			n = 0
		case "assistant":
			n++
		}
	}
	return n
}

// said counts the messages of a role that contain text.
func (p prompt) said(role, text string) (n int) {
	for _, m := range p.Messages {
		if m.Role == role && strings.Contains(fmt.Sprint(m.Content), text) {
			n++
		}
	}
	return n
}

// err returns the reason for providers to refuse the prompt: each call needs its result.
func (p prompt) err() error {
	var owed []string
	for i, m := range p.Messages {
		if m.Role != "tool" && len(owed) > 0 {
			return fmt.Errorf("message %d, of %s, comes before the results of %q", i, m.Role, owed)
		}
		for _, c := range m.ToolCalls {
			owed = append(owed, c.ID)
			if !json.Valid([]byte(c.Function.Arguments)) {
				return fmt.Errorf("call %s has the arguments %q", c.ID, c.Function.Arguments)
			}
		}
		if m.Role == "tool" {
			at := slices.Index(owed, m.ToolCallID)
			if at < 0 {
				return fmt.Errorf("message %d is the result of %q, which has no call", i, m.ToolCallID)
			}
			owed = slices.Delete(owed, at, at+1)
		}
	}
	if len(owed) > 0 {
		return fmt.Errorf("%q have no results", owed)
	}
	return nil
}

// note returns a call of a tool of the MCP server, with its arguments in two pieces.
func note(index int, tool string, n int) []llmtest.Step {
	return []llmtest.Step{
		llmtest.Call(index, fmt.Sprintf("call_%d", n), "tools_"+tool),
		llmtest.Arguments(index, `{"n":`), llmtest.Arguments(index, fmt.Sprintf(`%d}`, n)),
	}
}
