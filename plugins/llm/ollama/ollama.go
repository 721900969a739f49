// Package ollama provides models run by Ollama, locally or remotely, through its own protocol. Unlike OpenAI's protocol,
// which Ollama supports too, it has options for the context length and reasoning.
package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/runtime/agui"
)

// Config describes a model and how to reach it.
type Config = wire.Config

// Model is a model that Ollama runs. It is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint *wire.Endpoint
}

var _ llm.Streamer = (*Model)(nil)

// New returns the model described by cfg, without a request.
func New(cfg Config) (*Model, error) {
	var err error
	if cfg.BaseURL, err = address(cfg.BaseURL); err != nil {
		return nil, err
	}
	e, err := cfg.Endpoint("ollama", "")
	if err != nil {
		return nil, err
	}
	if cfg.APIKey != "" {
		e.Authorize("Authorization", "Bearer "+cfg.APIKey)
	}
	return &Model{cfg: cfg, endpoint: e}, nil
}

// address returns the URL of an OLLAMA_HOST. An unspecified address becomes the local one.
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
		return "", fmt.Errorf("ollama: base URL %q is not a URL", host)
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

// GenerateContent implements llms.Model. Text is passed to the StreamingFunc of options.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	return wire.Generate(ctx, m, messages, options...)
}

// Call sends a single prompt.
//
// Deprecated: use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// Stream implements llm.Streamer. Each tool call is one piece.
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
	lines := agui.NewReader(res.Body, wire.MaxEvent)
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

// explain adds instructions to the typical errors of a first use.
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

// place returns the server's URL without credentials.
func (m *Model) place() string {
	u, err := url.Parse(m.cfg.BaseURL)
	if err != nil {
		return "its address"
	}
	return u.Scheme + "://" + u.Host
}

// line is the part of a line that is used.
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
