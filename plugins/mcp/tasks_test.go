package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/runtime/agui"
)

// taskServer speaks the protocol of tasks, which the SDK does not have. A task of the tool build ends with its second poll, one of
// job never, and one of ask or demand once a person has answered.
type taskServer struct {
	extension bool // the tasks of 2026-07-28, with the result in the task

	mu        sync.Mutex
	polls     map[string]int
	asked     []string // the requests about tasks
	cancelled chan string
}

func (s *taskServer) answer(method string, params json.RawMessage) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p struct {
		Name   string
		TaskID string

		InputResponses map[string]json.RawMessage
		Task           *struct{ TTL float64 }
	}
	_ = json.Unmarshal(params, &p)
	if strings.HasPrefix(method, "tasks/") {
		s.asked = append(s.asked, method)
	}
	if s.polls == nil {
		s.polls = map[string]int{}
	}
	polls, known := s.polls[p.TaskID]
	switch {
	case method == "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}}`
	case method == "tools/list":
		tool := `{"name":"%s","inputSchema":{"type":"object"},"annotations":{"idempotentHint":%t},"execution":{"taskSupport":"%s"}}`
		return `"result":{"tools":[` + fmt.Sprintf(tool, "build", false, "required") + "," + fmt.Sprintf(tool, "job", true, "optional") + "," + fmt.Sprintf(tool, "ask", true, "") + "," + fmt.Sprintf(tool, "demand", false, "") + `]}`
	case method == "tools/call" && !s.extension && (p.Task == nil || p.Task.TTL < 1000):
		return `"error":{"code":-32601,"message":"a task is required"}`
	case method == "tools/call":
		id := fmt.Sprint(p.Name, len(s.polls))
		s.polls[id] = 0
		if s.extension {
			return `"result":{"resultType":"task","taskId":"` + id + `","status":"working","ttlMs":null,"pollIntervalMs":5}`
		}
		return `"result":{"task":{"taskId":"` + id + `","status":"working","ttl":60000,"pollInterval":5}}`
	case !strings.HasPrefix(method, "tasks/"):
		return `"error":{"code":-32601,"message":"no"}`
	case !known:
		return `"error":{"code":-32602,"message":"Failed to retrieve task: not found"}`
	case method == "tasks/cancel":
		s.cancelled <- p.TaskID
		return `"result":{}`
	case method == "tasks/update":
		s.polls[p.TaskID] = 9
		s.asked = append(s.asked, string(p.InputResponses["q"]))
		return `"result":{}`
	case method == "tasks/get" && polls < 9 && (strings.HasPrefix(p.TaskID, "ask") || strings.HasPrefix(p.TaskID, "demand")):
		return `"result":{"taskId":"` + p.TaskID + `","status":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":` + seat + `}}}}`
	case method == "tasks/result":
		return `"result":` + hiResult
	}
	s.polls[p.TaskID]++
	task := `"taskId":"` + p.TaskID + `","pollInterval":5`
	switch {
	case polls == 0 || strings.HasPrefix(p.TaskID, "job"):
		return `"result":{` + task + `,"status":"working"}`
	case s.extension:
		return `"result":{` + task + `,"status":"completed","result":` + hiResult + `}`
	}
	return `"result":{` + task + `,"status":"completed"}`
}

// overHTTP serves s as an endpoint.
func (s *taskServer) overHTTP(t *testing.T) mcp.Config {
	return playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
		if id(r) == "" {
			normal(w, r)
			return
		}
		var m struct{ Params json.RawMessage }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id(r), s.answer(method, m.Params))
	})
}

// run serves s as a program.
func (s *taskServer) run() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(in.Bytes(), &m) == nil && m.ID != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, s.answer(m.Method, m.Params))
		}
	}
}

func newTaskServer() *taskServer { return &taskServer{cancelled: make(chan string, 9)} }

// A task is polled, and its result is that of the call.
func TestTask_IsPolled(t *testing.T) {
	t.Parallel()
	stdio := program(t)
	stdio.Env["MCP_SERVER"] = "tasks"
	newer := newTaskServer()
	newer.extension = true
	for name, cfg := range map[string]mcp.Config{"stdio": stdio, "http": newTaskServer().overHTTP(t), "extension": newer.overHTTP(t)} {
		t.Run(name, func(t *testing.T) {
			var kept []string
			idle := 0
			c := &plugins.Call{
				ID: "c", Args: json.RawMessage(`{}`),
				Keeps: func(value json.RawMessage) error { kept = append(kept, string(value)); return nil },
				Idles: func(_ context.Context, wait func() error) error { idle++; return wait() },
			}
			out, err := find(t, started(t, cfg), "it.build").Call(t.Context(), c)
			if err != nil || out.Status != agui.StatusSuccess || out.ResultSummary != "hi" {
				t.Errorf("got %+v, %v", out, err)
			}
			if fmt.Sprint(kept) != `[{"task":"build0"}]` || idle != 1 {
				t.Errorf("kept %v, idle %d times", kept, idle)
			}
		})
	}
}

// A call that has a task polls it, and is made again only if the task is lost and the tool idempotent.
func TestTask_Resumes(t *testing.T) {
	t.Parallel()
	server := newTaskServer()
	s := started(t, server.overHTTP(t))
	server.answer("tools/call", json.RawMessage(`{"name":"build","task":{"ttl":5000}}`))
	again := func(name, task string) (agui.ToolOutput, error) {
		c := &plugins.Call{ID: "c", Args: json.RawMessage(`{}`), Kept: json.RawMessage(`{"task":"` + task + `"}`)}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		c.Keeps = func(value json.RawMessage) error {
			if strings.Contains(string(value), "job") {
				cancel(plugins.ErrStopping)
			}
			return nil
		}
		return find(t, s, name).Call(ctx, c)
	}
	if out, err := again("it.build", "build0"); err != nil || out.ResultSummary != "hi" {
		t.Errorf("got %+v, %v", out, err)
	}
	_, err := again("it.build", "other")
	if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "interrupted" {
		t.Errorf("a lost task: %v", err)
	}
	if _, err := again("it.job", "other"); !errors.Is(err, plugins.ErrStopping) {
		t.Errorf("a lost task of an idempotent tool: %v", err)
	}
	if len(server.polls) != 2 {
		t.Errorf("%d tasks were begun", len(server.polls))
	}
	if len(server.cancelled) != 0 {
		t.Error("a stop has cancelled a task")
	}
}

// The end of a call cancels its task, unless the run goes on at the next start.
func TestTask_IsCancelled(t *testing.T) {
	t.Parallel()
	server := newTaskServer()
	s := started(t, server.overHTTP(t))
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(plugins.ErrCancelled) }
		},
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("timed out"))
			return ctx, func() { <-ctx.Done(); cancel() }
		},
	} {
		ctx, stop := end(t.Context())
		c := &plugins.Call{ID: "c", Args: json.RawMessage(`{}`), Keeps: func(json.RawMessage) error { go stop(); return nil }}
		_, err := find(t, s, "it.job").Call(ctx, c)
		if err == nil || !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("%s: %v", name, err)
		}
		if id := <-server.cancelled; !strings.HasPrefix(id, "job") {
			t.Errorf("%s: %q is cancelled", name, id)
		}
	}
}

// A task that asks a person is cancelled. The call is made again, and its next task gets the answer.
func TestTask_AsksAPerson(t *testing.T) {
	t.Parallel()
	server := newTaskServer()
	server.extension = true
	s := started(t, server.overHTTP(t))
	p := &person{answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: json.RawMessage(`{"seat":"4"}`)} }}
	out, calls, err := callAs(t, p, find(t, s, "it.ask"))
	if err != nil || out.ResultSummary != "hi" || calls != 2 || len(p.asked) != 1 {
		t.Errorf("got %+v, %v after %d calls and %d questions", out, err, calls, len(p.asked))
	}
	_, calls, err = callAs(t, p, find(t, s, "it.demand"))
	if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "input_declined" || calls != 1 {
		t.Errorf("%d calls: %v", calls, err)
	}
	if got := fmt.Sprint(<-server.cancelled, " ", <-server.cancelled); got != "ask0 demand2" {
		t.Errorf("cancelled: %s", got)
	}
	if !slices.Contains(server.asked, `{"action":"accept","content":{"seat":"4"}}`) {
		t.Errorf("the server got %q", server.asked)
	}
}

// playedTasks is an endpoint with tasks. answer returns the member result or error of the response to a request.
func playedTasks(t *testing.T, answer func(method string, params json.RawMessage) string) mcp.Config {
	t.Helper()
	tool := `{"name":"%s","inputSchema":{"type":"object"},"annotations":{"idempotentHint":%t},"execution":{"taskSupport":"%s"}}`
	tools := fmt.Sprintf(tool, "pay", false, "required") + "," + fmt.Sprintf(tool, "book", true, "")
	var mu sync.Mutex
	return playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
		switch {
		case id(r) == "":
			normal(w, r)
			return
		case method == "initialize":
			reply(w, r, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}}`)
			return
		case method == "tools/list":
			reply(w, r, `{"tools":[`+tools+`]}`)
			return
		}
		var m struct{ Params json.RawMessage }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		said := answer(method, m.Params)
		mu.Unlock()
		if said == "503" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id(r), said)
	})
}

const (
	payTask  = `"result":{"task":{"taskId":"T","status":"working","pollInterval":5}}`
	bookTask = `"result":{"resultType":"task","taskId":"T","status":"working","pollIntervalMs":5}`
	doneTask = `"result":{"taskId":"T","status":"completed","result":` + hiResult + `}`
)

// ask is the member of a result that asks a person.
func ask(text string) string {
	return `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"` + text + `"}}}`
}

// A recorded answer is not that of an equal question which a task asks after a crash.
func TestTask_KnowsItsQuestionsAfterCrash(t *testing.T) {
	t.Parallel()
	s := started(t, playedTasks(t, func(method string, params json.RawMessage) string {
		switch {
		case method == "tools/call" && strings.Contains(string(params), "inputResponses"):
			return bookTask
		case method == "tools/call":
			return `"result":{` + ask("Sure?") + `}`
		}
		return `"result":{"taskId":"T","status":"input_required",` + ask("Sure?") + `}`
	}))
	p := &person{answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: json.RawMessage(`{}`)} }}
	var kept json.RawMessage
	for i, want := range []error{plugins.ErrWaiting, plugins.ErrStopping, plugins.ErrWaiting} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &plugins.Call{ID: "c", Args: json.RawMessage(`{}`), Asks: p.ask, Kept: kept, Keeps: func(value json.RawMessage) error {
			if kept = value; value != nil && i == 1 {
				cancel(plugins.ErrStopping)
			}
			return nil
		}}
		if _, err := find(t, s, "it.book").Call(ctx, c); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
		cancel(nil)
	}
	if len(p.asked) != 2 {
		t.Errorf("the person was asked %d times", len(p.asked))
	}
}

// A task can ask under a name that was used before, by the call or by itself.
func TestTask_AsksUnderTheSameName(t *testing.T) {
	t.Parallel()
	for _, byCall := range []bool{true, false} {
		updates := 0
		s := started(t, playedTasks(t, func(method string, params json.RawMessage) string {
			switch {
			case method == "tools/call" && byCall && !strings.Contains(string(params), "inputResponses"):
				return `"result":{` + ask("Which seat?") + `}`
			case method == "tools/call":
				updates = 0
				return bookTask
			case method == "tasks/update":
				updates++
			case method == "tasks/get" && updates == 2:
				return doneTask
			case method == "tasks/get":
				return `"result":{"taskId":"T","status":"input_required",` + ask(fmt.Sprint("Question ", updates)) + `}`
			}
			return `"result":{}`
		}))
		p := &person{answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: json.RawMessage(`{}`)} }}
		if out, _, err := callAs(t, p, find(t, s, "it.book")); err != nil || out.ResultSummary != "hi" {
			t.Errorf("asked by the call: %t: %+v, %v", byCall, out, err)
		}
	}
}

// An answer that was lost on its way is sent again, and the person is not asked again.
func TestTask_SendsAnswerAgain(t *testing.T) {
	t.Parallel()
	updates, cancels := 0, 0
	s := started(t, playedTasks(t, func(method string, _ json.RawMessage) string {
		switch {
		case method == "tools/call":
			return bookTask
		case method == "tasks/cancel":
			cancels++
		case method == "tasks/update":
			if updates++; updates == 1 {
				return "503"
			}
		case updates == 2:
			return doneTask
		case method == "tasks/get":
			return `"result":{"taskId":"T","status":"input_required",` + ask("Sure?") + `}`
		}
		return `"result":{}`
	}))
	p := &person{answer: func(agui.Interrupt) plugins.Answer { return plugins.Answer{Payload: json.RawMessage(`{}`)} }}
	out, calls, err := callAs(t, p, find(t, s, "it.book"))
	if err != nil || out.ResultSummary != "hi" || len(p.asked) != 1 || calls != 2 || cancels != 1 {
		t.Errorf("%d questions, %d calls, %d tasks cancelled: %+v, %v", len(p.asked), calls, cancels, out, err)
	}
}

// One answer without a task's status does not end its call.
func TestTask_OutlivesErrors(t *testing.T) {
	for name, once := range map[string][2]string{
		"get":    {"tasks/get", `"error":{"code":-32603,"message":"the database is locked"}`},
		"http":   {"tasks/get", "503"},
		"result": {"tasks/result", "503"},
		"status": {"tasks/get", `"result":{"taskId":"T","status":"submitted","result":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := false
			s := started(t, playedTasks(t, func(method string, _ json.RawMessage) string {
				switch {
				case method == once[0] && !failed:
					failed = true
					return once[1]
				case method == "tools/call":
					return payTask
				case method == "tasks/get":
					return `"result":{"taskId":"T","status":"completed"}`
				}
				return `"result":` + hiResult
			}))
			if out, err := call(t, s, "it.pay", `{}`); err != nil || out.ResultSummary != "hi" || !failed {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
}

// A task that failed or was cancelled is a failure with its sentence, whatever its result says.
func TestTask_Fails(t *testing.T) {
	for name, c := range map[string][2]string{
		"result":       {`"status":"failed","statusMessage":"no money","result":` + hiResult, `"error":{"code":-32603,"message":"no"}`},
		"case":         {`"status":"FAILED","statusMessage":"no money","result":{}`, `"error":{"code":-32603,"message":"no"}`},
		"later result": {`"status":"failed","statusMessage":"no money"`, `"result":` + hiResult},
		"later error":  {`"status":"failed","statusMessage":"no money"`, `"error":{"code":-32601,"message":"Method not found"}`},
		"error":        {`"status":"failed","error":{"code":-32000,"message":"no money"}`, `"result":{}`},
		"cancelled":    {`"status":"Canceled","statusMessage":"no money","result":` + hiResult, `"result":` + hiResult},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := started(t, playedTasks(t, func(method string, _ json.RawMessage) string {
				switch method {
				case "tools/call":
					return payTask
				case "tasks/get":
					return `"result":{"taskId":"T",` + c[0] + `}`
				}
				return c[1]
			}))
			out, err := call(t, s, "it.pay", `{}`)
			if out.Error != nil && out.Status == agui.StatusFailure {
				err = &plugins.Error{Code: out.Error.Code, Message: out.Error.Message}
			}
			if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "tool_failed" || !strings.HasSuffix(e.Message, "no money") {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
}

// A task of which nothing is heard is given up in the server's words, and cancelled. Its call must not be made again.
func TestTask_IsGivenUp(t *testing.T) {
	for said, want := range map[string]plugins.Error{
		`"error":{"code":-32603,"message":"the database is locked"}`: {Code: "tool_failed", Message: "the database is locked"},
		"503": {Code: "tool_unavailable", Message: "The tool server it answered 503 Service Unavailable"},
	} {
		t.Run(want.Code, func(t *testing.T) {
			t.Parallel()
			cancels := 0
			s := started(t, playedTasks(t, func(method string, _ json.RawMessage) string {
				switch method {
				case "tools/call":
					return payTask
				case "tasks/cancel":
					cancels++
				}
				return said
			}))
			_, err := call(t, s, "it.pay", `{}`)
			if e, ok := errors.AsType[*plugins.Error](err); !ok || *e != want || cancels != 1 {
				t.Errorf("%d cancels: %v", cancels, err)
			}
		})
	}
}

// A call that is cancelled before it has kept its task cancels it.
func TestTask_IsCancelledAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancels := 0
	s := started(t, playedTasks(t, func(method string, _ json.RawMessage) string {
		if method == "tasks/cancel" {
			cancels++
		}
		return payTask
	}))
	c := &plugins.Call{ID: "c", Args: json.RawMessage(`{}`), Keeps: func(json.RawMessage) error {
		cancel(plugins.ErrCancelled)
		return errors.New("the run is over")
	}}
	if _, err := find(t, s, "it.pay").Call(ctx, c); err == nil || cancels != 1 {
		t.Errorf("%d cancels: %v", cancels, err)
	}
}

// A result with a member task is a result, unless a task was asked for and there is nothing else.
func TestTask_IsNoResult(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]string{
		"it.book": `{"task":{"taskId":"7","title":"Buy milk"}}`,
		"it.pay":  `{"task":{"taskId":"7"},"content":[{"type":"text","text":"7 Buy milk"}]}`,
	} {
		s := started(t, playedTasks(t, func(method string, _ json.RawMessage) string {
			if method != "tools/call" {
				return `"error":{"code":-32602,"message":"Task not found"}`
			}
			return `"result":` + result
		}))
		if out, err := call(t, s, name, `{}`); err != nil || !strings.Contains(out.ResultSummary, "Buy milk") {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}
