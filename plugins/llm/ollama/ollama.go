// Package ollama provides models run by Ollama, locally or remotely, through its own protocol. Unlike OpenAI's protocol,
// which Ollama supports too, it has options for the context length and reasoning.
package ollama

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config describes a model and how to reach it.
type Config = wire.Config

// Model is a model that Ollama runs. It is safe for concurrent use.
type Model struct {
	wire.Plain

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
	e, err := cfg.Endpoint("ollama", "", caps)
	if err != nil {
		return nil, err
	}
	if cfg.APIKey != "" {
		e.Authorize("Authorization", "Bearer "+cfg.APIKey)
	}
	m := &Model{cfg: cfg, endpoint: e}
	m.Plain = wire.PlainOf(m, e)
	return m, nil
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

// Stream implements llm.Streamer. Each tool call is one piece.
func (m *Model) Stream(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	res, err := e.Exchange(ctx, m.cfg.BaseURL+"/api/chat", req, m.shape)
	if err != nil {
		return llm.Response{}, m.explain(e, err)
	}
	a := &answer{e.Answer(req, show)}
	reply, err := a.Read(ctx, res, a.add)
	if err != nil || len(reply.Calls) == 0 || reply.Reasoning == "" {
		return reply, err
	}
	err = a.Carry(carried{reply.Reasoning})
	return a.Response(), err
}

// carried is the reasoning of an answer with calls.
type carried struct {
	Thinking string `json:"thinking"`
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
	Message         wire.List[reply] `json:"message"`
	Done            wire.Word        `json:"done"`
	DoneReason      wire.Word        `json:"done_reason"`
	PromptEvalCount wire.Count       `json:"prompt_eval_count"`
	EvalCount       wire.Count       `json:"eval_count"`
}

type reply struct {
	Content          wire.Content    `json:"content"`
	Thinking         wire.Text       `json:"thinking"`
	ReasoningContent wire.Text       `json:"reasoning_content"` // of gateways
	ToolCalls        wire.List[made] `json:"tool_calls"`
}

// made is a call that the model makes.
type made struct {
	ID       wire.Word `json:"id"`
	Function struct {
		Name wire.Word `json:"name"`
		wire.Input
	} `json:"function"`
}

type answer struct{ *wire.Answer }

func (a *answer) add(_ string, object []byte) (done bool, err error) {
	var l line
	if err := a.Decode(object, &l); err != nil {
		return false, err
	}
	if err := a.Failed(object, l.Message != nil || l.Done != ""); err != nil {
		return false, err
	}
	for _, m := range l.Message {
		if err := a.say(&m); err != nil {
			return false, err
		}
	}
	if l.Done != "true" {
		return false, nil
	}
	a.Usage.InputTokens, a.Usage.OutputTokens = int64(l.PromptEvalCount), int64(l.EvalCount)
	a.Finish = string(cmp.Or(l.DoneReason, "stop"))
	return true, nil
}

func (a *answer) say(m *reply) error {
	if err := a.Reasoning(string(cmp.Or(m.Thinking, m.ReasoningContent)) + m.Content.Reasoning); err != nil {
		return err
	}
	if err := a.Text(m.Content.Text); err != nil {
		return err
	}
	for _, c := range m.ToolCalls {
		if _, err := a.Call(wire.CallPart{ID: string(c.ID), Name: string(c.Function.Name), Args: c.Function.Given(), Begins: true}); err != nil {
			return err
		}
	}
	return nil
}
