package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// streamer returns m as a Streamer.
func streamer(m llms.Model) Streamer {
	if s, ok := m.(Streamer); ok {
		return s
	}
	return plainModel{m}
}

// plainModel adapts another llms.Model to Streamer. Only its text is streamed; its calls come with the complete answer.
type plainModel struct{ llms.Model }

func (m plainModel) Stream(ctx context.Context, req Request, show func(Piece) error) (Response, error) {
	req.Options.JSONMode = req.Options.JSONMode || req.Schema != nil
	req.Options.StreamingFunc = func(_ context.Context, chunk []byte) error {
		if len(chunk) == 0 || len(req.Options.Tools) > 0 && isCall(chunk) {
			return nil
		}
		return show(Piece{Text: string(chunk)})
	}
	resp, err := m.GenerateContent(ctx, plainMessages(req.Messages), func(o *llms.CallOptions) { *o = req.Options })
	if err != nil {
		return Response{}, plainError(err)
	}
	var all Response
	var texts []string
	for _, c := range resp.Choices {
		if c.Content != "" {
			texts = append(texts, c.Content)
		}
		all.Calls = append(all.Calls, c.ToolCalls...)
		all.Finish = cmp.Or(c.StopReason, all.Finish)
		all.Usage = plainUsage(c.GenerationInfo)
	}
	switch all.Finish { // Anthropic's words, which langchaingo passes on
	case "max_tokens":
		all.Finish = "length"
	case "end_turn", "stop_sequence":
		all.Finish = "stop"
	case "tool_use":
		all.Finish = "tool_calls"
	}
	all.Text = strings.Join(texts, "\n")
	all.Usage.Model = req.Options.Model
	if len(all.Calls) == 0 {
		all.Finish = cmp.Or(all.Finish, "stop")
	}
	return all, nil
}

// isCall reports whether a chunk of text is pieces of calls as JSON, which langchaingo's OpenAI streams as text.
func isCall(chunk []byte) bool {
	switch {
	case bytes.HasPrefix(chunk, []byte(`[{`)):
		var calls []struct{ Function json.RawMessage }
		if json.Unmarshal(chunk, &calls) != nil {
			return false
		}
		for _, c := range calls {
			if c.Function == nil {
				return false
			}
		}
		return true
	case bytes.HasPrefix(chunk, []byte(`{"name":`)):
		var c struct{ Name, Arguments *string }
		return json.Unmarshal(chunk, &c) == nil && c.Name != nil && c.Arguments != nil
	}
	return false
}

// plainMessages returns messages without other providers' Carried parts.
func plainMessages(messages []llms.MessageContent) []llms.MessageContent {
	list := make([]llms.MessageContent, 0, len(messages))
	for _, m := range messages {
		var parts []llms.ContentPart
		for _, p := range m.Parts {
			if _, ok := p.(Carried); !ok {
				parts = append(parts, p)
			}
		}
		list = append(list, llms.MessageContent{Role: m.Role, Parts: parts})
	}
	return list
}

// plainUsage reads the usage under the names used by langchaingo's providers.
func plainUsage(info map[string]any) agui.TokenUsage {
	first := func(names ...string) int64 {
		for _, name := range names {
			switch n := info[name].(type) {
			case int:
				return int64(n)
			case int32:
				return int64(n)
			case int64:
				return n
			}
		}
		return 0
	}
	return agui.TokenUsage{
		InputTokens:       first("PromptTokens", "InputTokens", "input_tokens"),
		OutputTokens:      first("CompletionTokens", "OutputTokens", "output_tokens"),
		TotalTokens:       first("TotalTokens", "total_tokens"),
		ReasoningTokens:   first("ReasoningTokens"),
		CachedInputTokens: first("PromptCachedTokens", "CacheReadInputTokens", "CachedTokens"),
	}
}

// plainError converts an error of langchaingo into an *Error if its kind is known.
func plainError(err error) error {
	if netErr, ok := errors.AsType[net.Error](err); errors.Is(err, io.ErrUnexpectedEOF) || ok && !netErr.Timeout() && !errors.Is(err, context.Canceled) {
		return &Error{Code: "connection_lost", Message: "the connection to the model was lost", Retryable: true}
	}
	known, ok := errors.AsType[*llms.Error](err)
	if !ok {
		return fmt.Errorf("ask the model: %w", err)
	}
	e := &Error{Code: "provider_error", Message: known.Message}
	switch known.Code {
	case llms.ErrCodeAuthentication:
		e.Code = "invalid_api_key"
	case llms.ErrCodeResourceNotFound:
		e.Code = "model_not_found"
	case llms.ErrCodeRateLimit:
		e.Code, e.Retryable = "rate_limited", true
	case llms.ErrCodeTimeout, llms.ErrCodeProviderUnavailable:
		e.Code, e.Retryable = "overloaded", true
	case llms.ErrCodeTokenLimit:
		e.Code = "context_too_long"
	case llms.ErrCodeInvalidRequest:
		e.Code = "bad_request"
	case llms.ErrCodeQuotaExceeded, llms.ErrCodeContentFilter:
		e.Code = string(known.Code)
	}
	return e
}
