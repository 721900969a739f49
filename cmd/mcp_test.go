package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/builtin"
)

// tools is a session of the official client with baton mcp.
type tools struct {
	*sdk.ClientSession
	t      *testing.T
	stderr *output
	code   chan int
}

// mcp runs the command in process and connects a client to its standard input and output.
func mcp(t *testing.T, args ...string) tools {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := tools{t: t, stderr: new(output), code: make(chan int, 1)}
	p := cmd.Program{
		Plugins: builtin.Plugins(), Args: append([]string{"mcp"}, args...), Stdin: inR, Stdout: outW, Stderr: c.stderr,
	}
	ctx := context.WithoutCancel(t.Context())
	go func() { // ends when the client closes
		code := p.Run(ctx)
		_, _ = inR.Close(), outW.Close()
		c.code <- code
	}()
	var err error
	c.ClientSession, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(ctx, &sdk.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, c.stderr)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// call returns a tool's answer, and whether that is an error.
func (c tools) call(name string, args map[string]any) (string, bool) {
	c.t.Helper()
	res, err := c.CallTool(c.t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", name, err, c.stderr)
	}
	return res.Content[0].(*sdk.TextContent).Text, res.IsError
}

// answer decodes a tool's answer, which must not be an error.
func answer[T any](c tools, name string, args map[string]any) (v T) {
	c.t.Helper()
	text, refused := c.call(name, args)
	if refused {
		c.t.Fatalf("%s: %s", name, text)
	}
	must(c.t, json.Unmarshal([]byte(text), &v))
	return v
}

type startedRun struct{ RunID, ConversationID, Status string }

func (c tools) start(script string) startedRun {
	c.t.Helper()
	return answer[startedRun](c, "start_agent_run", map[string]any{"agent": "scripted", "content": script})
}

// until waits until a page of the run's log contains text, and returns it.
func (c tools) until(r startedRun, text string) string {
	c.t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; <-time.After(5 * time.Millisecond) {
		page, _ := c.call("get_agent_run_events", map[string]any{"conversation_id": r.ConversationID, "run_id": r.RunID, "limit": 500})
		if strings.Contains(page, text) {
			return page
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no %q in %s", text, page)
		}
	}
}

// end closes the command's standard input and waits until the command has ended.
func (c tools) end() {
	c.t.Helper()
	_ = c.Close()
	if code := <-c.code; code != 0 {
		c.t.Errorf("exit code %d\n%s", code, c.stderr)
	}
}

func TestMCP_SameToolsInProcessAndAsClient(t *testing.T) {
	var listed [2]string
	for i, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			c := mcp(t, "--database", db)
			list, err := c.ListTools(t.Context(), nil)
			must(t, err)
			raw, err := json.MarshalIndent(list.Tools, "", "  ")
			if err != nil || len(list.Tools) != 9 {
				t.Fatalf("%d tools, %v", len(list.Tools), err)
			}
			listed[i] = string(raw)
			page := c.until(c.start(script), "RUN_FINISHED")
			golden(t, "mcp.json", plain(page)+"\n")
			text, refused := c.call("get_agent_run_events", map[string]any{"run_id": "x"})
			if !refused || !strings.Contains(text, "invalid_arguments") || !strings.Contains(text, "conversation_id") {
				t.Errorf("bad arguments: %s", text)
			}
			if text, refused = c.call("cancel_agent_run", map[string]any{"run_id": "x"}); !refused || text != `{"detail":"Agent run not found","code":"not_found"}` {
				t.Errorf("an unknown run: %s", text)
			}
			if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), `unknown tool "nothing"`) {
				t.Errorf("an unknown tool: %v", err)
			}
			if err := c.Ping(t.Context(), nil); err != nil && !strings.Contains(err.Error(), "not supported in the new protocol") {
				t.Error(err)
			}
			c.end()
			if c.stderr.String() != "" {
				t.Errorf("standard error: %s", c.stderr)
			}
		})
	}
	if diff := cmp.Diff(listed[0], listed[1]); diff != "" {
		t.Errorf("(-in process +as a client):\n%s", diff)
	}
}

func TestMCP_AnswersRequestsBeforeEOF(t *testing.T) {
	const asked = "\ufeff" + `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"ping"}
no JSON
{"jsonrpc":"2.0","id":2,"method":"tools/list"}

[{"jsonrpc":"2.0","id":8,"method":"ping"}]
{"jsonrpc":"2.0","id":9,"method":"ping"} {"jsonrpc":"2.0","id":10,"method":"ping"}
{"text":"no message"}
7
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"start_agent_run","arguments":{"agent":"echo","content":"hi"}}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"list_agents"}}
{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nothing"}}
`
	for _, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			var stdout, stderr bytes.Buffer
			p := cmd.Program{
				Plugins: builtin.Plugins(), Args: []string{"mcp", "--database", db},
				Stdin: strings.NewReader(asked), Stdout: &stdout, Stderr: &stderr,
			}
			if code := p.Run(t.Context()); code != 0 {
				t.Fatalf("exit code %d\n%s", code, &stderr)
			}
			got, codes := map[string]string{}, map[int]int{}
			for line := range strings.Lines(stdout.String()) {
				var msg struct {
					ID     any
					Result json.RawMessage
					Error  struct {
						Code    int
						Message string
					}
				}
				if err := json.Unmarshal([]byte(line), &msg); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				if msg.ID == nil {
					codes[msg.Error.Code]++
					continue
				}
				got[fmt.Sprint(msg.ID)] = string(msg.Result) + msg.Error.Message
			}
			if !maps.Equal(codes, map[int]int{-32700: 2, -32600: 3}) {
				t.Errorf("the bad lines are answered with %v:\n%s", codes, &stdout)
			}
			for id, says := range map[string]string{
				"a": "2025-06-18", "1": "{}", "2": "get_agent_run_snapshot", "3": "conversationId", "4": "workflows", "5": `unknown tool "nothing"`,
			} {
				if !strings.Contains(got[id], says) {
					t.Errorf("%s: no %q in %q", id, says, got[id])
				}
			}
			if len(got) != 6 {
				t.Errorf("%d answers:\n%s", len(got), &stdout)
			}
		})
	}
}

func TestMCP_RunsResumeAfterItEnded(t *testing.T) {
	db := database(t)
	c := mcp(t, "--database", db)
	r := c.start(`{"do": [{"say": "one"}, {"tokens": 20, "delayMs": 25}, {"say": "last"}]}`)
	c.until(r, "TEXT_MESSAGE_CONTENT")
	c.end()
	s := serve(t, db)
	c = mcp(t, "--server", s.URL())
	if page := c.until(r, `"RUN_FINISHED"`); !strings.Contains(page, `"delta":"last"`) {
		t.Errorf("got %s", page)
	}
	c.end()
}

func TestMCP_StopsAtSignal(t *testing.T) {
	for _, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			in, keep := io.Pipe()
			t.Cleanup(func() { _ = keep.Close() })
			var stdout, stderr output
			p := cmd.Program{Plugins: builtin.Plugins(), Args: []string{"mcp", "--database", db}, Stdin: in, Stdout: &stdout, Stderr: &stderr}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			code := make(chan int, 1)
			go func() { code <- p.Run(ctx) }()
			if _, err := io.WriteString(keep, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			stdout.until(t, `"id":1`)
			interrupt()
			if got := <-code; got != 0 || stderr.String() != "" {
				t.Errorf("exit code %d\n%s", got, &stderr)
			}
		})
	}
}

func TestBridge_SurvivesServerRestart(t *testing.T) {
	db, addr := database(t), cmdtest.Address()
	s := serve(t, db, addr)
	c := mcp(t, "--server", s.URL()+"/")
	r := c.start(`{"do": [{"say": "hello"}]}`)
	c.until(r, "RUN_FINISHED")
	stop(t, s)
	asked := make(chan string, 1)
	go func() { asked <- c.until(r, "RUN_FINISHED") }()
	serve(t, db, addr)
	<-asked
	c.end()
}

func TestBridge_ReportsErrors(t *testing.T) {
	db := database(t)
	s := serve(t, db)
	var stdout, stderr bytes.Buffer
	p := cmd.Program{
		Args:   []string{"mcp", "--server", s.URL()},
		Stdin:  strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"nothing"}` + "\n"),
		Stdout: &stdout, Stderr: &stderr,
	}
	if code := p.Run(t.Context()); code != 0 {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	if says := `{"jsonrpc":"2.0","id":7,"error":{"code":`; !strings.Contains(stdout.String(), says) {
		t.Errorf("no %s in %s", says, &stdout)
	}
	r := baton(t.Context(), "mcp", "--server", "http://"+cmdtest.Address()).want(t, 1)
	if r.stdout != "" || !strings.Contains(r.stderr, "connection refused") {
		t.Errorf("no server: %q %q", r.stdout, r.stderr)
	}
}
