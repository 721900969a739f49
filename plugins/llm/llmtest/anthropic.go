package llmtest

import (
	"net/http"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime/agui"
)

// messages speaks Anthropic's protocol.
func messages(s *stream, r *Request, script Script) {
	usage := script.Usage
	if usage == nil {
		usage = &agui.TokenUsage{}
	}
	s.send("message_start", object{"type": "message_start", "message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": modelOf(r), "content": []object{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens":                usage.InputTokens - usage.CachedInputTokens - usage.CacheWriteInputTokens,
			"cache_read_input_tokens":     usage.CachedInputTokens,
			"cache_creation_input_tokens": usage.CacheWriteInputTokens,
			"output_tokens":               min(usage.OutputTokens, 1), "service_tier": "standard",
		},
	}})
	s.send("ping", object{"type": "ping"})
	b := &blocks{stream: s, model: modelOf(r), n: -1}
	s.play(script, oneByOne(script.Steps), b.step)
	b.close()
	stop := map[string]string{
		"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal",
	}[script.finish()]
	end := object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}}
	end["usage"] = object{"output_tokens": usage.OutputTokens}
	s.send("message_delta", end)
	s.send("message_stop", object{"type": "message_stop"})
}

// blocks are the parts of a message, one open at a time.
type blocks struct {
	*stream
	model string
	n     int      // of the last block
	kind  string   // of the open block, "" for none
	said  []string // the types and texts of the blocks, the open one last
}

func (b *blocks) step(step Step) {
	switch {
	case step.KeepAlive:
		b.send("ping", object{"type": "ping"})
	case step.Fail != nil:
		b.send("error", anthropicFault(step.Fail))
		b.end()
	case step.Call != nil:
		if step.Call.Name != "" {
			b.close()
			b.open("tool_use", object{"type": "tool_use", "id": step.Call.ID, "name": step.Call.Name, "input": object{}})
			b.said[b.n] += step.Call.Name
			b.delta(object{"type": "input_json_delta", "partial_json": ""})
		}
		if step.Call.Arguments != "" {
			b.delta(object{"type": "input_json_delta", "partial_json": step.Call.Arguments})
		}
	case step.Reasoning != "":
		b.open("thinking", object{"type": "thinking", "thinking": "", "signature": ""})
		b.said[b.n] += step.Reasoning
		b.delta(object{"type": "thinking_delta", "thinking": step.Reasoning})
	default: // a refusal is text with a special stop reason
		b.open("text", object{"type": "text", "text": ""})
		b.said[b.n] += step.Text + step.Refusal
		b.delta(object{"type": "text_delta", "text": step.Text + step.Refusal})
	}
}

func (b *blocks) delta(d object) {
	b.send("content_block_delta", object{"type": "content_block_delta", "index": b.n, "delta": d})
}

// open starts a block unless one of its kind is open.
func (b *blocks) open(kind string, block object) {
	if b.kind == kind {
		return
	}
	b.close()
	b.n++
	b.kind = kind
	b.said = append(b.said, kind+": ")
	b.send("content_block_start", object{"type": "content_block_start", "index": b.n, "content_block": block})
}

func (b *blocks) close() {
	switch b.kind {
	case "":
		return
	case "thinking":
		b.delta(object{"type": "signature_delta", "signature": signature(b.model, b.said...)})
	}
	b.kind = ""
	b.send("content_block_stop", object{"type": "content_block_stop", "index": b.n})
}

func anthropicFault(e *llm.Error) any {
	kind := map[int]string{
		http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error", 529: "overloaded_error",
	}[e.Status]
	return object{"type": "error", "error": object{"type": or(or(e.Code, kind), "api_error"), "message": or(e.Message, "Internal server error")}}
}
