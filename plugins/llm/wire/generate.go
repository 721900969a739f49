package wire

import (
	"context"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// Generate implements llms.Model's GenerateContent for a Streamer.
func Generate(ctx context.Context, s llm.Streamer, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	req := llm.Request{Messages: messages}
	for _, option := range options {
		option(&req.Options)
	}
	show := req.Options.StreamingFunc
	think := req.Options.StreamingReasoningFunc
	res, err := s.Stream(ctx, req, func(p llm.Piece) error {
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
