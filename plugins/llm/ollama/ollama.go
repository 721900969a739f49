// Package ollama is the models that Ollama runs, on this machine or another, through its own protocol: beside OpenAI's,
// which it speaks too, that has the length of the context and whether to think.
package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config says which model is asked, and where.
type Config struct {
	Model   string // needed
	BaseURL string // as in OLLAMA_HOST: http://127.0.0.1:11434 when empty, and the parts that are left out from it
	APIKey  string // of ollama.com, or of what stands before the server

	// ContextTokens is how long a conversation the model sees. When 0 it is the server's default, often 4 096, beyond
	// which it forgets the beginning without a word.
	ContextTokens int
	Reasoning     string            // whether it thinks: true, false, or low, medium and high for some; its default when empty
	MaxTokens     int               // of an answer, where the request does not say; the model's when 0
	KeepAlive     string            // how long the model stays in memory, such as 10m; the server's default when empty
	Headers       map[string]string // sent with every request
	HTTPClient    *http.Client      // one of its own when nil; its time limit is not used
}

// Model is a model that Ollama runs. It is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint wire.Endpoint
}

var _ llm.Streamer = (*Model)(nil)

// New returns the model that cfg names. It asks nobody.
func New(cfg Config) (*Model, error) {
	if cfg.Model == "" {
		return nil, errors.New("ollama: no model is named")
	}
	base, err := address(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	cfg.BaseURL = base
	m := &Model{cfg: cfg, endpoint: wire.Endpoint{
		Provider: "ollama", Model: cfg.Model, Secret: cfg.APIKey, Client: wire.Client(cfg.HTTPClient), Header: http.Header{},
	}}
	if cfg.APIKey != "" {
		m.endpoint.Header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	for name, value := range cfg.Headers {
		m.endpoint.Header.Set(name, value)
	}
	return m, nil
}

// address returns host as a URL. What a server listens on everywhere is asked here.
func address(host string) (string, error) {
	host = strings.TrimRight(strings.TrimSpace(host), "/")
	if host == "" {
		host = "127.0.0.1"
	}
	bare := !strings.Contains(host, "://")
	if bare {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("ollama: base URL %q is no URL", host)
	}
	name, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
		name = "127.0.0.1"
	}
	if port == "" && bare {
		port = "11434"
	}
	if port != "" {
		u.Host = net.JoinHostPort(name, port)
	}
	return u.String(), nil
}

// GenerateContent asks the model as llms.Model says. The text is shown to the StreamingFunc of options.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	return wire.Generate(ctx, m, messages, options...)
}

// Call asks the model a single question.
//
// Deprecated: use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// Stream asks the model as llm.Streamer says. Its calls of tools come whole.
func (m *Model) Stream(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	body, err := m.request(e, req)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := e.Post(ctx, m.cfg.BaseURL+"/api/chat", body)
	if err != nil {
		return llm.Response{}, m.explain(e, err)
	}
	defer res.Body.Close()

	a := e.Answer(show)
	lines := wire.NewEvents(res.Body)
	for {
		data, err := lines.Line()
		if err != nil {
			return a.Response(), e.Lost(ctx, err)
		}
		if len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return a.Response(), e.Garbled(err)
		}
		if l.Error != "" {
			return a.Response(), e.Fault(0, data)
		}
		if err := add(a, &l); err != nil {
			return a.Response(), err
		}
		if l.Done {
			return a.Response(), nil
		}
	}
}

// explain says what to do where a newcomer is stuck.
func (m *Model) explain(e *wire.Endpoint, err error) error {
	var failure *llm.Error
	if !errors.As(err, &failure) {
		return err
	}
	switch {
	case failure.Code == "model_not_found":
		failure.Message = fmt.Sprintf("ollama: there is no model %s: get it with: ollama pull %s", e.Model, e.Model)
	case failure.Code == "connection_lost" && failure.Status == 0:
		failure.Message += ": is Ollama running at " + m.place() + "?"
	}
	return failure
}

// place is where the server is, without what stands in its URL for who we are.
func (m *Model) place() string {
	u, err := url.Parse(m.cfg.BaseURL)
	if err != nil {
		return "its address"
	}
	return u.Scheme + "://" + u.Host
}

// line is what we read of a piece of an answer.
type line struct {
	Message struct {
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []toolCall `json:"tool_calls"`
	} `json:"message"`
	Done            bool   `json:"done"`
	DoneReason      string `json:"done_reason"`
	PromptEvalCount int64  `json:"prompt_eval_count"`
	EvalCount       int64  `json:"eval_count"`
	Error           string `json:"error"`
}

func add(a *wire.Answer, l *line) error {
	if err := a.Reasoning(l.Message.Thinking); err != nil {
		return err
	}
	if err := a.Text(l.Message.Content); err != nil {
		return err
	}
	for _, call := range l.Message.ToolCalls {
		i, err := a.Call(call.ID, call.Function.Name)
		if err != nil {
			return err
		}
		if err := a.Arguments(i, string(call.Function.Arguments)); err != nil {
			return err
		}
	}
	if l.Done {
		a.Usage.InputTokens, a.Usage.OutputTokens = l.PromptEvalCount, l.EvalCount
		if a.Finish = l.DoneReason; a.Finish == "" {
			a.Finish = "stop"
		}
	}
	return nil
}
