package llmtest

import "github.com/batonrun/baton/plugins/llm"

// ollama speaks Ollama's protocol: a line of JSON per piece, complete calls, no keep-alives and no refusals.
func ollama(s *stream, r *Request, script Script) {
	model := modelOf(r)
	line := func(message object, done bool) object {
		message["role"] = "assistant"
		if message["content"] == nil {
			message["content"] = ""
		}
		return object{"model": model, "created_at": "2026-11-01T12:00:00.123456789Z", "message": message, "done": done}
	}
	s.play(script, whole(script.Steps), func(step Step) {
		switch {
		case step.KeepAlive:
		case step.Fail != nil:
			s.send("", ollamaFault(step.Fail))
			s.end()
		case step.Reasoning != "":
			s.send("", line(object{"thinking": step.Reasoning}, false))
		case step.Call != nil:
			call := object{"function": object{"index": step.Call.Index, "name": step.Call.Name, "arguments": whatever(step.Call.Arguments)}}
			s.send("", line(object{"tool_calls": []object{call}}, false))
		default:
			s.send("", line(object{"content": step.Text + step.Refusal}, false))
		}
	})
	end := line(object{}, true)
	end["done_reason"] = "stop"
	if script.Finish == "length" {
		end["done_reason"] = "length"
	}
	end["total_duration"], end["load_duration"] = 5_000_000, 1_000_000
	if u := script.Usage; u != nil {
		end["prompt_eval_count"], end["prompt_eval_duration"] = u.InputTokens, 2_000_000
		end["eval_count"], end["eval_duration"] = u.OutputTokens, 2_000_000
	}
	s.send("", end)
}

func ollamaFault(e *llm.Error) any { return object{"error": or(e.Message, "internal server error")} }
