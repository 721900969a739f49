package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// limited is an agent or a tool that is offered only in p1.
type limited struct{ name string }

func (l limited) Info() plugins.Info {
	return plugins.Info{Name: l.name, Description: "of p1", Projects: []string{"p1"}}
}

type limitedAgent struct{ limited }

func (limitedAgent) Run(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	_, err := run.Text().Write([]byte("done"))
	return agui.WorkerOutput{}, err
}

type limitedTool struct{ limited }

func (limitedTool) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: "done"}, nil
}

// boss returns an agent that calls the requested agent and tool, and answers with the results and the plugins that it may call.
func boss() plugins.Agent {
	return plugins.AgentFunc("boss", func(ctx context.Context, run *plugins.Run) error {
		agent, tool, _ := strings.Cut(run.Input.Query, " ")
		_, err := run.CallAgent(ctx, agent, "x")
		said := []string{fmt.Sprintf("as agent: %v", err)}
		for _, name := range []string{tool, agent} {
			out, err := run.CallTool(ctx, name, map[string]string{"query": "x"})
			said = append(said, fmt.Sprintf("as tool: %s %q %v", out.Status, out.ResultSummary, err))
		}
		for _, info := range run.Tools("*") {
			said = append(said, info.Name)
		}
		_, err = run.Text().Write([]byte(strings.Join(said, "; ")))
		return err
	})
}

// At every door, plugins of another project get the same answer as plugins that do not exist.
func TestPlugins_AreOfferedInTheirProjects(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Accounts: baton.AuthenticatorFunc(byHeader), Plugins: []plugins.Plugin{
		limitedAgent{limited{"their-agent"}},
		limitedTool{limited{"their-tool"}},
		boss(),
		plugins.Workflow{Name: "their-flow", Projects: []string{"p1"}, Nodes: []plugins.Node{{ID: "a", Agent: "boss"}}},
		plugins.Workflow{Name: "using-their-agent", Nodes: []plugins.Node{{ID: "a", Agent: "boss"}, {ID: "b", Agent: "their-agent"}}},
		plugins.Workflow{Name: "using-their-tool", Nodes: []plugins.Node{{ID: "a", Tool: "their-tool"}}},
	}})
	at := site{T: t, url: s.URL()}
	const mcp = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":%s}}`
	stream := []string{"Accept", "text/event-stream"}
	asks := []ask{
		{method: "GET", path: "/api/v1/agents"},
		{method: "GET", path: "/api/v1/workflows"},
		{method: "GET", path: "/api/copilotkit/info"},
		{method: "POST", path: "/mcp", body: fmt.Sprintf(mcp, "list_agents", "{}"), header: []string{"Accept", "application/json, text/event-stream"}},
		{method: "GET", path: "/api/v1/agui/boss/capabilities"},
		{method: "GET", path: "/api/v1/agui/{agent}/capabilities"},
		{method: "GET", path: "/api/v1/agui/{flow}/capabilities"},
		{method: "GET", path: "/api/v1/agents/stream?agent={agent}"},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"agent":"{agent}","content":"x"}`},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"workflowId":"{flow}","content":"x"}`},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"workflowId":"{using}","content":"x"}`},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"workflowId":"{calling}","content":"x"}`},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"agent":"boss","content":"x","tools":[{"name":"{tool}","description":"","parameters":{}}]}`},
		{method: "POST", path: "/api/projects/{project}/agent-runs", body: `{"agent":"{agent}","content":"x"}`},
		{method: "POST", path: "/api/v1/agui/{agent}", body: `{"messages":[{"id":"1","role":"user","content":"x"}]}`},
		{method: "POST", path: "/api/v1/agui/{flow}/connect", body: `{"threadId":"t"}`},
		{method: "POST", path: "/api/copilotkit/agent/{agent}/run", body: `{"messages":[{"id":"1","role":"user","content":"x"}]}`},
		{method: "POST", path: "/api/copilotkit/agent/{agent}/connect", body: `{"threadId":"t"}`},
		{method: "POST", path: "/api/copilotkit/agent/{agent}/stop/t"},
		{method: "POST", path: "/api/copilotkit", body: `{"method":"agent/run","params":{"agentId":"{agent}"},"body":{}}`},
		{method: "POST", path: "/mcp", body: fmt.Sprintf(mcp, "start_agent_run", `{"agent":"{agent}","content":"x"}`), header: []string{"Accept", "application/json, text/event-stream"}},
		{path: "/api/v1/agui/{agent}/ws", frames: []string{`{"messages":[{"id":"1","role":"user","content":"x"}]}`}},
		{path: "/api/v1/ws", frames: []string{`{"op":"run","ref":1,"agent":"{agent}","content":"x"}`, `{"op":"run","ref":2,"workflowId":"{flow}","content":"x"}`}},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"agent":"boss","content":"{agent} {tool}"}`, header: stream},
	}
	theirs := things{"project": "p2", "agent": "their-agent", "tool": "their-tool", "flow": "their-flow", "using": "using-their-agent", "calling": "using-their-tool"}
	none := things{"project": "p2", "agent": "no-agent", "tool": "no-tool", "flow": "no-flow", "using": "no-using", "calling": "no-calling"}
	for i := range asks {
		a := &asks[i]
		got, want := at.answered("p2/bob/admin", a, theirs, ""), at.answered("p2/bob/admin", a, none, "")
		got.body, want.body = unnamed(got.body, theirs), unnamed(want.body, none)
		if got != want {
			t.Errorf("%s %s\n  theirs: %d %s\n  absent: %d %s", a.path, a.body, got.status, got.body, want.status, want.body)
		}
		for name, value := range theirs {
			if name != "project" && strings.Contains(at.answered("p2/bob/admin", a, none, "").body, value) {
				t.Errorf("%s reveals %s", a.path, value)
			}
		}
	}
	for _, a := range []ask{
		{method: "POST", path: "/api/v1/agent/runs", body: `{"agent":"{agent}","content":"x"}`, header: stream},
		{method: "POST", path: "/api/v1/agent/runs", body: `{"workflowId":"{using}","content":"{agent} {tool}"}`, header: stream},
	} {
		if got := at.answered("p1/ann/user", &a, theirs, ""); got.status != 200 || !strings.Contains(got.body, `"type":"RUN_FINISHED"`) || strings.Contains(got.body, "There is no") {
			t.Errorf("in its own project: %d %s", got.status, got.body)
		}
	}
	for user, want := range map[string]string{"p1/ann/user": "boss their-agent", "p2/bob/user": "boss"} {
		if got := strings.Join(at.watched(user), " "); got != want {
			t.Errorf("%s watches the agents %s, want %s", user, got, want)
		}
	}
}

// watched returns the agents whose states a monitor shows.
func (s site) watched(user string) (names []string) {
	s.Helper()
	res := send(s, "GET", s.url+"/api/v1/agui/events", "", "User", user)
	dec := make([]byte, 0, 4096)
	for buf := make([]byte, 1024); !strings.Contains(string(dec), "\n\n"); {
		n, err := res.Body.Read(buf)
		if dec = append(dec, buf[:n]...); err != nil {
			s.Fatal(err)
		}
	}
	_ = res.Body.Close()
	_, data, _ := strings.Cut(string(dec), "data: ")
	var snapshot struct{ Agents []struct{ Name string } }
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&snapshot); err != nil {
		s.Fatalf("%v: %s", err, dec)
	}
	for _, a := range snapshot.Agents {
		names = append(names, a.Name)
	}
	return names
}
