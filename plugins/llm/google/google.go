// Package google provides Google's Gemini models through the Gemini API.
//
// It does not use Google's own module, which takes 26 µs per token, treats a comment in a stream as a failure, writes keys
// into errors and warnings to the process's log, and adds gRPC and 9 MB.
package google

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config describes a model and how to reach it.
type Config = wire.Config

// Model is a model of Google. It is safe for concurrent use.
type Model struct {
	wire.Plain

	cfg      Config
	endpoint *wire.Endpoint
}

var _ llm.Streamer = (*Model)(nil)

// New returns the model described by cfg, without a request.
func New(cfg Config) (*Model, error) {
	e, err := cfg.Endpoint("google", "https://generativelanguage.googleapis.com", caps)
	if err != nil {
		return nil, err
	}
	if cfg.APIKey == "" {
		return nil, errors.New("google: an API key is needed: set GOOGLE_API_KEY")
	}
	e.Authorize("X-Goog-Api-Key", cfg.APIKey)
	m := &Model{cfg: cfg, endpoint: e}
	m.Plain = wire.PlainOf(m, e)
	return m, nil
}

// Stream implements llm.Streamer. Each tool call is one piece.
func (m *Model) Stream(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	name := strings.TrimPrefix(e.Model, "models/")
	res, err := e.Exchange(ctx, m.cfg.BaseURL+"/v1beta/models/"+url.PathEscape(name)+":streamGenerateContent?alt=sse", req, m.shape)
	if err != nil {
		return llm.Response{}, err
	}
	a := &answer{e.Answer(req, show)}
	return a.Read(ctx, res, a.add)
}

// chunk is the part of a chunk that is used.
type chunk struct {
	Candidates     wire.List[candidate] `json:"candidates"`
	PromptFeedback struct {
		BlockReason        wire.Word `json:"blockReason"`
		BlockReasonMessage wire.Text `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	UsageMetadata *struct {
		PromptTokenCount        wire.Count `json:"promptTokenCount"`
		CachedContentTokenCount wire.Count `json:"cachedContentTokenCount"`
		CandidatesTokenCount    wire.Count `json:"candidatesTokenCount"`
		ThoughtsTokenCount      wire.Count `json:"thoughtsTokenCount"`
		ToolUsePromptTokenCount wire.Count `json:"toolUsePromptTokenCount"`
	} `json:"usageMetadata"`
}

type candidate struct {
	Content struct {
		Parts wire.List[piece] `json:"parts"`
	} `json:"content"`
	FinishReason  wire.Word `json:"finishReason"`
	FinishMessage wire.Text `json:"finishMessage"`
}

// piece is a part of the answer.
type piece struct {
	Text             wire.Text `json:"text"`
	Thought          wire.Word `json:"thought"`
	ThoughtSignature wire.Word `json:"thoughtSignature"`
	FunctionCall     *struct {
		ID   wire.Word `json:"id"`
		Name wire.Word `json:"name"`
		wire.Input
	} `json:"functionCall"`
}

// carried is the signature of the part before it.
type carried struct {
	Of        string `json:"of"` // call or text
	Signature string `json:"signature"`
}

type answer struct{ *wire.Answer }

func (a *answer) add(_ string, object []byte) (done bool, err error) {
	var c chunk
	if err := a.Decode(object, &c); err != nil {
		return false, err
	}
	a.count(&c)
	if err := a.Counted(); err != nil {
		return false, err
	}
	if reason := c.PromptFeedback.BlockReason; reason != "" {
		return false, &llm.Error{
			Code: "content_refused", Message: strings.TrimSpace("google: the prompt was refused: " + string(reason) + " " + c.PromptFeedback.BlockReasonMessage.String()),
		}
	}
	if err := a.Failed(object, c.Candidates != nil || c.UsageMetadata != nil); err != nil {
		return false, err
	}
	for _, candidate := range c.Candidates {
		if err := a.candidate(&candidate); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (a *answer) candidate(c *candidate) error {
	for _, p := range c.Content.Parts {
		if err := a.piece(&p); err != nil {
			return err
		}
	}
	if c.FinishReason != "" {
		a.Finish, a.Reason = string(c.FinishReason), c.FinishMessage.String()
	}
	return nil
}

func (a *answer) piece(p *piece) (err error) {
	signed := carried{"text", string(p.ThoughtSignature)}
	switch {
	case p.FunctionCall != nil:
		f := p.FunctionCall
		signed.Of = "call"
		_, err = a.Call(wire.CallPart{ID: string(f.ID), Name: string(f.Name), Args: f.Given(), Begins: true})
	case p.Thought != "" && p.Thought != "false":
		return a.Reasoning(string(p.Text))
	default:
		err = a.Text(string(p.Text))
	}
	if err != nil || signed.Signature == "" {
		return err
	}
	return a.Carry(signed)
}

// count updates the usage; each chunk has the totals so far.
func (a *answer) count(c *chunk) {
	u := c.UsageMetadata
	if u == nil || u.PromptTokenCount == 0 {
		return
	}
	a.Usage.InputTokens = int64(u.PromptTokenCount + u.ToolUsePromptTokenCount)
	a.Usage.CachedInputTokens = int64(u.CachedContentTokenCount)
	a.Usage.OutputTokens = int64(u.CandidatesTokenCount + u.ThoughtsTokenCount)
	a.Usage.ReasoningTokens = int64(u.ThoughtsTokenCount)
}
