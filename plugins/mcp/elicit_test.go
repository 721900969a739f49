package mcp_test

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
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/runtime/agui"
)

// asksByRequest is a server of the protocols until 2025-11-25 whose tools ask a person.
func asksByRequest() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "asks", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	for name, idempotent := range map[string]bool{"book": true, "deploy": false} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{IdempotentHint: idempotent}},
			func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				var said strings.Builder
				said.WriteString(name)
				for _, ask := range []string{"Which seat?", "Which seat?", "Paid?"} {
					res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: ask, RequestedSchema: json.RawMessage(seat)})
					if err != nil {
						return nil, err
					}
					fmt.Fprintf(&said, " %s %v", res.Action, res.Content)
					if res.Action == "decline" {
						break
					}
				}
				return resultOf(said.String()), nil
			})
	}
	idempotent := &sdk.ToolAnnotations{IdempotentHint: true}
	began, asked := make(chan struct{}), make(chan struct{})
	s.AddTool(&sdk.Tool{Name: "listen", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: idempotent},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			close(began)
			<-asked
			return resultOf("heard"), nil
		})
	s.AddTool(&sdk.Tool{Name: "interrupt", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: idempotent},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			<-began
			res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Which of us?", RequestedSchema: json.RawMessage(seat)})
			close(asked)
			if err != nil {
				return nil, err
			}
			return resultOf(res.Action), nil
		})
	s.AddTool(&sdk.Tool{Name: "sign", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: idempotent},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Sign in", Mode: "url", URL: "https://example.com/sign", ElicitationID: "1"})
			if err != nil {
				return nil, err
			}
			return resultOf(res.Action), nil
		})
	locked := 2
	s.AddTool(&sdk.Tool{Name: "unlock", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: idempotent},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if locked--; locked < 0 {
				return resultOf("unlocked"), nil
			}
			return nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{{Mode: "url", Message: "Sign in", URL: "https://example.com/" + strconv.Itoa(locked), ElicitationID: "1"}})
		})
	return s
}

// resultOf is a result with one text.
func resultOf(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

const seat = `{"type":"object","properties":{"seat":{"type":"string"}},"required":["seat"]}`

// asksByResult is the same server with the protocol of 2026-07-28.
func asksByResult() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "asks", Version: "1"}, nil)
	for name, idempotent := range map[string]bool{"book": true, "deploy": false} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{IdempotentHint: idempotent}},
			func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				said := req.Params.RequestState
				if said == "" {
					said = name
				}
				if res, ok := req.Params.InputResponses["it"].(*sdk.ElicitResult); ok {
					said += fmt.Sprintf(" %s %v", res.Action, res.Content)
					if res.Action == "decline" {
						return resultOf(said), nil
					}
				}
				if n := strings.Count(said, "accept"); n < 3 {
					ask := []string{"Which seat?", "Which seat?", "Paid?"}[n]
					return &sdk.CallToolResult{
						InputRequests: sdk.InputRequestMap{"it": &sdk.ElicitParams{Message: ask, RequestedSchema: json.RawMessage(seat)}},
						RequestState:  said,
					}, nil
				}
				return resultOf(said), nil
			})
	}
	return s
}

// stateless is endpoint with the protocol of 2026-07-28.
func stateless(t *testing.T, s *sdk.Server) mcp.Config {
	t.Helper()
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(srv.Close)
	return mcp.Config{URL: srv.URL}
}

// person records the answers to questions, as a run does.
type person struct {
	mu      sync.Mutex
	answers map[string]plugins.Answer
	asked   []agui.Interrupt
	answer  func(q agui.Interrupt) plugins.Answer
}

func (p *person) ask(key string, q agui.Interrupt) (plugins.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.answers[key]; ok {
		return a, nil
	}
	if p.answers == nil {
		p.answers = map[string]plugins.Answer{}
	}
	p.asked, p.answers[key] = append(p.asked, q), p.answer(q)
	return plugins.Answer{}, plugins.ErrWaiting
}

// callAs makes a call again until it does not wait for the person.
func callAs(t *testing.T, p *person, tool plugins.Tool) (out agui.ToolOutput, calls int, err error) {
	t.Helper()
	for calls = 1; ; calls++ {
		c := &plugins.Call{ID: "c", Args: json.RawMessage(`{}`)}
		if c.Asks = p.ask; !tool.Info().Idempotent {
			c.Asks = nil
		}
		if out, err = tool.Call(t.Context(), c); !errors.Is(err, plugins.ErrWaiting) {
			return out, calls, err
		}
	}
}

func TestElicit_AsksAPerson(t *testing.T) {
	t.Parallel()
	asks, results := program(t), program(t)
	asks.Env["MCP_SERVER"], results.Env["MCP_SERVER"] = "asks", "results"
	for name, cfg := range map[string]mcp.Config{
		"stdio": asks, "stdio, results": results, "http": endpoint(t, asksByRequest()), "http, results": stateless(t, asksByResult()),
	} {
		t.Run(name, func(t *testing.T) {
			s := started(t, cfg)
			p := &person{answer: func(q agui.Interrupt) plugins.Answer {
				return plugins.Answer{Payload: fmt.Appendf(nil, `{"seat":"%s %d"}`, q.Message[:1], len(q.Message))}
			}}
			out, calls, err := callAs(t, p, find(t, s, "it.book"))
			if err != nil || out.ResultSummary != "book accept map[seat:W 11] accept map[seat:W 11] accept map[seat:P 5]" || calls != 4 {
				t.Errorf("got %+v, %v after %d calls", out, err, calls)
			}
			if len(p.asked) != 3 || p.asked[0].Message != "Which seat?" || !equalJSON(p.asked[0].ResponseSchema, seat) {
				t.Errorf("asked %+v", p.asked)
			}
			p = &person{answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Cancelled: true} }}
			out, calls, err = callAs(t, p, find(t, s, "it.book"))
			if err != nil || out.ResultSummary != "book decline map[]" || calls != 2 {
				t.Errorf("refused: %+v, %v after %d calls", out, err, calls)
			}
		})
	}
}

func equalJSON(got json.RawMessage, want string) bool {
	var a, b any
	_, _ = json.Unmarshal(got, &a), json.Unmarshal([]byte(want), &b)
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// A tool that is not idempotent is called once, and the model learns why no person was asked.
func TestElicit_NotIdempotent(t *testing.T) {
	t.Parallel()
	out, calls, err := callAs(t, new(person), find(t, started(t, endpoint(t, asksByRequest())), "it.deploy"))
	if err != nil || calls != 1 || out.Status != agui.StatusPartial || out.Error == nil || out.Error.Code != "input_declined" ||
		!strings.HasPrefix(out.ResultSummary, "deploy decline map[]\nThe tool asked a person \"Which seat?\" and was declined. ") {
		t.Errorf("%d calls: %+v, %v", calls, out, err)
	}
	out, calls, err = callAs(t, new(person), find(t, started(t, stateless(t, asksByResult())), "it.deploy"))
	if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "input_declined" || calls != 1 || !strings.Contains(e.Message, "Which seat?") {
		t.Errorf("%d calls: %+v, %v", calls, out, err)
	}
}

// A page to open is shown as a link, whether it comes as a question or as an error.
func TestElicit_ShowsPages(t *testing.T) {
	t.Parallel()
	s := started(t, endpoint(t, asksByRequest()))
	for name, want := range map[string]string{"it.sign": "accept", "it.unlock": "unlocked"} {
		p := &person{answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: json.RawMessage(`{}`)} }}
		out, calls, err := callAs(t, p, find(t, s, name))
		if err != nil || out.ResultSummary != want || calls != 2 {
			t.Errorf("%s: %+v, %v after %d calls", name, out, err, calls)
		}
		if len(p.asked) != 1 || !strings.HasPrefix(p.asked[0].Message, "Sign in\nhttps://example.com/") || !strings.Contains(string(p.asked[0].Metadata), `"url":"https://example.com/`) {
			t.Errorf("%s: asked %+v", name, p.asked)
		}
	}
}

// A program's question while several calls are in flight is declined, because any of them may ask it.
func TestElicit_UnknownCall(t *testing.T) {
	t.Parallel()
	cfg := program(t)
	cfg.Env["MCP_SERVER"] = "asks"
	s := started(t, cfg)
	heard := make(chan agui.ToolOutput)
	go func() { // ends with its call
		out, _, _ := callAs(t, new(person), find(t, s, "it.listen"))
		heard <- out
	}()
	out, calls, err := callAs(t, new(person), find(t, s, "it.interrupt"))
	if err != nil || calls != 1 || out.Status != agui.StatusSuccess || !strings.HasPrefix(out.ResultSummary, "decline\nThe tool asked a person \"Which of us?\" and was declined. Several calls") {
		t.Errorf("%d calls: %+v, %v", calls, out, err)
	}
	if out := <-heard; out.Status != agui.StatusSuccess || !strings.HasPrefix(out.ResultSummary, "heard") {
		t.Errorf("the other call: %+v", out)
	}
}

// A question belongs to the task that it names, even in the stream of another call. A task without a waiting call asks no person.
func TestElicit_RelatedTask(t *testing.T) {
	t.Parallel()
	for _, task := range []string{"T", "other"} {
		t.Run(task, func(t *testing.T) { testRelatedTask(t, task) })
	}
}

func testRelatedTask(t *testing.T, task string) {
	t.Helper()
	polled, answered := make(chan struct{}), make(chan string, 1)
	once := sync.OnceFunc(func() { close(polled) })
	var done atomic.Bool
	s := started(t, playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case method == "initialize":
			reply(w, r, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case method == "tools/list":
			reply(w, r, `{"tools":[{"name":"job","execution":{"taskSupport":"required"}},{"name":"book"}]}`)
		case strings.Contains(string(body), `"name":"job"`):
			reply(w, r, `{"task":{"taskId":"T","status":"working","pollInterval":5}}`)
		case method == "tasks/get" && done.Load():
			reply(w, r, `{"taskId":"T","status":"completed","result":`+hiResult+`}`)
		case method == "tasks/get":
			once()
			reply(w, r, `{"taskId":"T","status":"working"}`)
		case method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Secret?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}}`+"\n\n", task)
			w.(http.Flusher).Flush()
			fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n\n", id(r), <-answered)
			done.Store(true)
		case id(r) == `"q"`:
			answered <- string(body)
			w.WriteHeader(http.StatusAccepted)
		default:
			normal(w, r)
		}
	}))
	ended, asked := make(chan error), 0
	go func() { // ends with its call
		_, err := find(t, s, "it.job").Call(t.Context(), &plugins.Call{ID: "a", Args: json.RawMessage(`{}`), Asks: func(string, agui.Interrupt) (plugins.Answer, error) {
			asked++
			return plugins.Answer{Payload: json.RawMessage(`{}`)}, nil
		}})
		ended <- err
	}()
	<-polled
	out, err := find(t, s, "it.book").Call(t.Context(), &plugins.Call{ID: "b", Args: json.RawMessage(`{}`), Asks: func(string, agui.Interrupt) (plugins.Answer, error) {
		t.Error("the other call's person is asked")
		return plugins.Answer{Payload: json.RawMessage(`{}`)}, nil
	}})
	if err != nil || out.Status != agui.StatusSuccess {
		t.Errorf("the other call: %+v, %v", out, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := task == "T"; (asked == 1) != want || strings.Contains(out.ResultSummary, "accept") != want {
		t.Errorf("asked %d times, the server got %s", asked, out.ResultSummary)
	}
}

// The model learns of a few declined questions, and not of the same twice.
func TestElicit_TellsFewDeclinedQuestions(t *testing.T) {
	t.Parallel()
	for name, method := range map[string]string{"same": `"sampling/createMessage"`, "many": `"wants %d ` + strings.Repeat("x", 2000) + `"`} {
		s := started(t, playedTasks(t, func(string, json.RawMessage) string {
			var requests []string
			for i := range 500 {
				ask := method
				if name == "many" {
					ask = fmt.Sprintf(method, i)
				}
				requests = append(requests, fmt.Sprintf(`"q%d":{"method":%s,"params":{"message":"Well?"}}`, i, ask))
			}
			return `"result":{"inputRequests":{` + strings.Join(requests, ",") + `}}`
		}))
		_, err := call(t, s, "it.book", `{}`)
		most := map[string]int{"same": 1, "many": 5}[name]
		if err == nil || strings.Count(err.Error(), "Well?") != most || len(err.Error()) > most*600 {
			t.Errorf("%s: %.500s", name, fmt.Sprint(err))
		}
	}
}

// A question shows none of our secrets: not in its link, its schema or the name of its method.
func TestElicit_HidesSecrets(t *testing.T) {
	t.Parallel()
	const secret = `head secret\u002dkey`
	question := `{"mode":"url","message":"` + secret + `","url":"https://example.com/?a=head+secret-key&b=head%20secret-key&c=` + secret + `","requestedSchema":{"title":"` + secret + `","properties":{"b":{},"a":{}}}}`
	method := "elicitation/create"
	cfg := playedTasks(t, func(string, json.RawMessage) string {
		return `"result":{"inputRequests":{"q":{"method":"` + method + `","params":` + question + `}}}`
	})
	cfg.Headers = map[string]string{"Authorization": "Bearer head secret-key", "Key": "head secret-key"}
	tool := find(t, started(t, cfg), "it.book")
	asked := agui.Interrupt{}
	_, err := tool.Call(t.Context(), &plugins.Call{ID: "c", Args: json.RawMessage(`{}`), Asks: func(_ string, q agui.Interrupt) (plugins.Answer, error) {
		asked = q
		return plugins.Answer{}, plugins.ErrWaiting
	}})
	shown := fmt.Sprintf("%s %s %s", asked.Message, asked.Metadata, asked.ResponseSchema)
	if !errors.Is(err, plugins.ErrWaiting) || strings.Contains(shown, "secret") || string(asked.ResponseSchema) != `{"title":"***","properties":{"b":{},"a":{}}}` {
		t.Errorf("%v: the person is shown %s", err, shown)
	}
	method = secret
	_, err = tool.Call(t.Context(), &plugins.Call{ID: "c", Args: json.RawMessage(`{}`)})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the model is told %v", err)
	}
}

// No message of a server repeats our credentials: not its results, and not the descriptions of its tools.
func TestResult_HidesCredentials(t *testing.T) {
	t.Parallel()
	const token = "bearer-token-1"
	cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
		switch method {
		case "initialize":
			reply(w, r, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`)
		case "tools/list":
			reply(w, r, `{"tools":[{"name":"book","description":"for `+token+`","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			reply(w, r, `{"content":[{"type":"text","text":"as `+token+`"},{"type":"resource_link","uri":"http://x/`+token+`","name":"n"}],"structuredContent":{"by":"`+token+`"}}`)
		default:
			normal(w, r)
		}
	})
	cfg.Headers = map[string]string{"Authorization": "Bearer " + token}
	tool := find(t, started(t, cfg), "it.book")
	out, err := tool.Call(t.Context(), &plugins.Call{ID: "c", Args: json.RawMessage(`{}`)})
	if shown := fmt.Sprintf("%s %s %s %s", tool.Info().Description, out.ResultSummary, out.Parts, out.UIHints); err != nil || strings.Contains(shown, token) || strings.Count(shown, "***") < 5 {
		t.Error(shown, err)
	}
}
