package llmtest

import (
	"encoding/json"
	"net/http"

	"github.com/batonrun/baton/plugins/llm"
)

// chat speaks OpenAI's chat completions, with the reasoning_content of compatible servers.
func chat(s *stream, r *Request, script Script) {
	var asked struct {
		Model         string
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(r.Body, &asked)
	chunk := func(choices []object, usage any) {
		s.send("", object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": asked.Model,
			"service_tier": "default", "system_fingerprint": "fp_1", "choices": choices, "usage": usage,
		})
	}
	delta := func(d object, finish any) {
		chunk([]object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}, nil)
	}
	steps := script.Steps
	if script.Loose {
		steps = whole(steps)
	}
	delta(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	s.play(script, steps, func(step Step) {
		switch {
		case step.KeepAlive:
			s.write(": keep-alive\n\n")
		case step.Fail != nil:
			s.send("", openaiFault(step.Fail))
			s.end()
		case step.Refusal != "":
			delta(object{"refusal": step.Refusal}, nil)
		case step.Reasoning != "":
			delta(object{"reasoning_content": step.Reasoning}, nil)
		case step.Call != nil:
			delta(object{"tool_calls": []object{chatCall(step.Call, script.Loose)}}, nil)
		default:
			delta(object{"content": step.Text}, nil)
		}
	})
	finish := script.finish()
	if finish == "content_filter" && script.Finish == "" {
		finish = "stop" // a refusal is a complete answer
	}
	delta(object{}, finish)
	if u := script.Usage; u != nil && asked.StreamOptions.IncludeUsage {
		chunk([]object{}, object{
			"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
			"prompt_tokens_details":     object{"cached_tokens": u.CachedInputTokens, "audio_tokens": 0},
			"completion_tokens_details": object{"reasoning_tokens": u.ReasoningTokens, "audio_tokens": 0},
		})
	}
	if !script.Loose {
		s.write("data: [DONE]\n\n")
	}
}

func chatCall(c *llm.CallPiece, loose bool) object {
	function := object{"arguments": c.Arguments}
	call := object{"index": c.Index, "function": function}
	if c.Name != "" {
		function["name"] = c.Name
		call["type"] = "function"
		call["id"] = c.ID
	}
	if loose {
		delete(call, "index")
		delete(call, "id")
	}
	return call
}

func openaiFault(e *llm.Error) any {
	kind, code := "server_error", any(nil)
	switch e.Status {
	case http.StatusTooManyRequests:
		kind, code = "tokens", "rate_limit_exceeded"
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		kind = "invalid_request_error"
	}
	if e.Code != "" {
		code = e.Code
	}
	return object{"error": object{"message": or(e.Message, "The server had an error."), "type": kind, "param": nil, "code": code}}
}
