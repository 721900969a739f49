package llm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(served); dir != "" {
		if err := serve(dir, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// model is a Streamer with scripted replies. A request determines its reply: the n-th one answers a request with n-1
// answers of the model after the last user message, so that the model answers the same after a crash.
type model struct {
	replies []reply
	next    func() reply      // the reply to the last request, instead of replies
	fail    func(n int) error // of the n-th call, nil for success

	mu    sync.Mutex
	asked []llm.Request
}

// reply is a streamed reply: its pieces and the final counts.
type reply struct {
	pieces []llm.Piece
	resp   llm.Response
	hold   func(ctx context.Context) error // called after the pieces
}

func (m *model) Stream(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	m.mu.Lock()
	m.asked = append(m.asked, req)
	n := len(m.asked)
	m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(n); err != nil {
			return llm.Response{}, err
		}
	}
	at := 0
	for _, c := range req.Messages {
		switch c.Role {
		case llms.ChatMessageTypeHuman:
			at = 0
		case llms.ChatMessageTypeAI:
			at++
		default:
		}
	}
	var r reply
	switch {
	case m.next != nil:
		r = m.next()
	case at >= len(m.replies):
		return llm.Response{}, &llm.Error{Code: "no_reply", Message: fmt.Sprintf("no scripted reply after %d answers", at)}
	default:
		r = m.replies[at]
	}
	for _, p := range r.pieces {
		if err := show(p); err != nil {
			return llm.Response{}, err
		}
	}
	if r.hold != nil {
		if err := r.hold(ctx); err != nil {
			return llm.Response{Usage: r.resp.Usage}, err
		}
	}
	return r.resp, nil
}

func (m *model) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return nil, errors.New("call Stream instead")
}

func (m *model) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("call Stream instead")
}

// calls returns the number of calls of the model.
func (m *model) calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

// request returns the n-th request, from 1, as text.
func (m *model) request(n int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return outline(m.asked[n-1].Messages)
}

// outline returns a short form of a prompt.
func outline(msgs []llms.MessageContent) string {
	var lines []string
	for _, m := range msgs {
		var words []string
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llms.TextContent:
				words = append(words, p.Text)
			case llms.ImageURLContent:
				words = append(words, "image "+p.URL)
			case llms.BinaryContent:
				words = append(words, fmt.Sprintf("%s %q", p.MIMEType, p.Data[:min(len(p.Data), 100)]))
			case llms.ToolCall:
				words = append(words, p.FunctionCall.Name+p.FunctionCall.Arguments)
			case llms.ToolCallResponse:
				words = append(words, p.Name+" gave "+p.Content)
			case llm.Carried:
				words = append(words, "carried "+string(p.Data))
			}
		}
		lines = append(lines, string(m.Role)+": "+strings.Join(words, " | "))
	}
	return strings.Join(lines, "\n")
}

var usage = agui.TokenUsage{Provider: "p", Model: "m", InputTokens: 10, OutputTokens: 5, TotalTokens: 15}

// says returns a reply of text, one piece per word.
func says(text string) reply {
	r := reply{resp: llm.Response{Text: text, Finish: "stop", Usage: usage}}
	for _, word := range strings.SplitAfter(text, " ") {
		r.pieces = append(r.pieces, llm.Piece{Text: word})
	}
	return r
}

// asks returns a reply that calls tools, each "name {arguments}", with interleaved arguments of one byte per piece.
func asks(text string, calls ...string) reply {
	r := says(text)
	if text == "" {
		r.pieces = nil
	}
	r.resp.Finish = "tool_calls"
	longest := 0
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		id := fmt.Sprintf("p%d", i)
		r.pieces = append(r.pieces, llm.Piece{Call: &llm.CallPiece{Index: i, ID: id, Name: name}})
		r.resp.Calls = append(r.resp.Calls, llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: args}})
		longest = max(longest, len(args))
	}
	for n := range longest {
		for i, c := range r.resp.Calls {
			if args := c.FunctionCall.Arguments; n < len(args) {
				r.pieces = append(r.pieces, llm.Piece{Call: &llm.CallPiece{Index: i, Arguments: args[n : n+1]}})
			}
		}
	}
	return r
}

// tool is a tool made of a function.
type tool struct {
	info plugins.Info
	call func(ctx context.Context, call *plugins.Call) (string, error)
}

func (t tool) Info() plugins.Info { return t.info }

func (t tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	summary, err := t.call(ctx, call)
	return agui.ToolOutput{ResultSummary: summary}, err
}

// echo returns a tool that returns its arguments.
func echo(name string) tool {
	return tool{plugins.Info{Name: name, Idempotent: true}, func(_ context.Context, call *plugins.Call) (string, error) {
		return string(call.Args), nil
	}}
}

func newAgent(tb testing.TB, cfg llm.Config) *llm.Agent {
	tb.Helper()
	if cfg.Name == "" {
		cfg.Name = "assistant"
	}
	a, err := llm.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// shown returns a short form of the log: texts in quotes, reasoning in parentheses, calls with their arguments and results.
func shown(events []agui.Event) string {
	var order []string
	text := make(map[string]string)
	begin := func(id, what string) {
		order = append(order, id)
		text[id] = what
	}
	for _, ev := range events {
		switch e := ev.(type) {
		case agui.TextMessageStart:
			begin(e.MessageID, string(e.Role)+" ")
		case agui.TextMessageContent:
			text[e.MessageID] += e.Delta
		case agui.TextMessageEnd:
			if e.Output.Status != agui.StatusSuccess {
				text[e.MessageID] += " (" + e.Output.Status + ")"
			}
		case agui.ReasoningMessageStart:
			begin(e.MessageID, "thinks ")
		case agui.ReasoningMessageContent:
			text[e.MessageID] += e.Delta
		case agui.ToolCallStart:
			begin(e.ToolCallID, "calls "+e.ToolCallName)
		case agui.ToolCallArgs:
			text[e.ToolCallID] += e.Delta
		case agui.ToolCallResult:
			what := e.Content
			if e.Output.Error != nil {
				what = e.Output.Error.Code
			}
			text[e.ToolCallID] += " = " + what
		case agui.Custom:
			if e.Name != agui.ModelCallEvent {
				begin(e.Name, e.Name+" "+string(e.Value))
			}
		}
	}
	lines := make([]string, len(order))
	for i, id := range order {
		lines[i] = text[id]
	}
	return strings.Join(lines, "\n")
}
