package wire

import (
	"context"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/pace"
)

// Plain has the methods of a model besides Stream.
type Plain struct {
	stream   func(context.Context, llm.Request, func(llm.Piece) error) (llm.Response, error)
	endpoint *Endpoint
}

// PlainOf returns the Plain of a model at e.
func PlainOf(s llm.Streamer, e *Endpoint) Plain { return Plain{s.Stream, e} }

// Takes implements llm.Taker.
func (p Plain) Takes(mediaType string, url bool) bool {
	return p.endpoint.known.of(p.endpoint.Model).caps.Takes(mediaType, url)
}

// Provider returns the name of the model's provider.
func (p Plain) Provider() string { return p.endpoint.Provider }

// Pacer implements llm.Paced.
func (p Plain) Pacer() (pacer *pace.Pacer, model string) { return p.endpoint.pace, p.endpoint.Model }

// Origin implements llm.Carrier.
func (p Plain) Origin(model string) string {
	return p.endpoint.For(llms.CallOptions{Model: model}).origin()
}

// MaxTools returns the number of tools that the model takes, 0 for any.
func (p Plain) MaxTools() int { return p.endpoint.known.of(p.endpoint.Model).caps.Tools }

// Learned returns the rules learned from the provider's refusals, for operators.
func (p Plain) Learned() (list []string) {
	for _, l := range p.endpoint.known.of(p.endpoint.Model).learned {
		list = append(list, l.what)
	}
	return list
}

// Call sends a single prompt.
//
// Deprecated: use GenerateContent.
func (p Plain) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	res, err := p.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, prompt)}, options...)
	if err != nil {
		return "", err
	}
	return res.Choices[0].Content, nil
}

// GenerateContent implements llms.Model. Text is passed to the StreamingFunc of options.
func (p Plain) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	req := llm.Request{Messages: messages}
	for _, option := range options {
		option(&req.Options)
	}
	show := req.Options.StreamingFunc
	think := req.Options.StreamingReasoningFunc
	res, err := p.stream(ctx, req, func(p llm.Piece) error {
		if p.Text != "" && show != nil {
			if err := show(ctx, []byte(p.Text)); err != nil {
				return err
			}
		}
		if think != nil && p.Text+p.Reasoning != "" {
			return think(ctx, []byte(p.Reasoning), []byte(p.Text))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	choice := &llms.ContentChoice{
		Content: res.Text, ReasoningContent: res.Reasoning, StopReason: res.Finish, ToolCalls: res.Calls,
		GenerationInfo: map[string]any{
			"PromptTokens": int(res.Usage.InputTokens), "CompletionTokens": int(res.Usage.OutputTokens),
			"TotalTokens":     int(res.Usage.InputTokens + res.Usage.OutputTokens),
			"ReasoningTokens": int(res.Usage.ReasoningTokens), "PromptCachedTokens": int(res.Usage.CachedInputTokens),
		},
	}
	if len(res.Calls) > 0 {
		choice.FuncCall = res.Calls[0].FunctionCall
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}
