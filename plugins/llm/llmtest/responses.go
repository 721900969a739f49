package llmtest

import "github.com/batonrun/baton/plugins/llm"

// responses speaks OpenAI's responses.
func responses(s *stream, r *Request, script Script) {
	t := &turn{stream: s, model: modelOf(r), calls: map[int]*item{}}
	t.event("response.created", object{"response": t.response("in_progress", nil)})
	t.event("response.in_progress", object{"response": t.response("in_progress", nil)})
	s.play(script, script.Steps, t.step)
	for _, it := range t.items {
		t.close(it)
	}
	status, event, details := "completed", "response.completed", any(nil)
	switch script.Finish {
	case "length":
		status, event, details = "incomplete", "response.incomplete", object{"reason": "max_output_tokens"}
	case "content_filter":
		status, event, details = "incomplete", "response.incomplete", object{"reason": "content_filter"}
	}
	end := t.response(status, details)
	if u := script.Usage; u != nil {
		end["usage"] = object{
			"input_tokens": u.InputTokens, "input_tokens_details": object{"cached_tokens": u.CachedInputTokens},
			"output_tokens": u.OutputTokens, "output_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
			"total_tokens": u.InputTokens + u.OutputTokens,
		}
	}
	t.event(event, object{"response": end})
}

// turn is one answer: a list of items. A message or reasoning is closed when another item starts; calls are closed at the
// end, because they can overlap.
type turn struct {
	*stream
	model string
	n     int // of events
	items []*item
	calls map[int]*item // by the script's index
}

// item is a part of a turn.
type item struct {
	at     int
	model  string
	kind   string // reasoning, output_text, refusal or function_call
	id     string
	name   string // of a call
	callID string
	text   string // so far: its arguments, for a call
	closed bool
}

func (t *turn) event(kind string, v object) {
	v["type"], v["sequence_number"] = kind, t.n
	t.n++
	t.send(kind, v)
}

func (t *turn) response(status string, details any) object {
	output := []object{}
	if status != "in_progress" {
		for _, it := range t.items {
			output = append(output, it.object())
		}
	}
	return object{
		"id": itemID("resp", 0), "object": "response", "created_at": 1_790_000_000, "status": status, "model": t.model,
		"error": nil, "incomplete_details": details, "output": output, "parallel_tool_calls": true, "store": false, "usage": nil,
	}
}

func (t *turn) step(step Step) {
	switch {
	case step.KeepAlive:
		t.write(": keep-alive\n\n")
	case step.Fail != nil:
		t.event("error", object{"code": or(step.Fail.Code, "server_error"), "message": step.Fail.Message, "param": nil})
		t.end()
	case step.Call != nil:
		t.call(step.Call)
	case step.Reasoning != "":
		t.say("reasoning", "response.reasoning_summary_text.delta", "summary_index", step.Reasoning)
	case step.Refusal != "":
		t.say("refusal", "response.refusal.delta", "content_index", step.Refusal)
	default:
		t.say("output_text", "response.output_text.delta", "content_index", step.Text)
	}
}

// say adds text to the open item of a kind, starting one if needed.
func (t *turn) say(kind, event, index, text string) {
	it := t.last()
	if it == nil || it.kind != kind || it.closed {
		it = t.open(&item{kind: kind})
		if kind == "reasoning" {
			t.event("response.reasoning_summary_part.added", it.place(object{index: 0, "part": object{"type": "summary_text", "text": ""}}))
		} else {
			t.event("response.content_part.added", it.place(object{index: 0, "part": it.part()}))
		}
	}
	it.text += text
	t.event(event, it.place(object{index: 0, "delta": text, "obfuscation": "x7Kq"}))
}

func (t *turn) call(c *llm.CallPiece) {
	if c.Name != "" {
		t.calls[c.Index] = t.open(&item{kind: "function_call", name: c.Name, callID: c.ID})
	}
	it := t.calls[c.Index]
	if it == nil || c.Arguments == "" {
		return
	}
	it.text += c.Arguments
	t.event("response.function_call_arguments.delta", it.place(object{"delta": c.Arguments, "obfuscation": "x7Kq"}))
}

func (t *turn) last() *item {
	if len(t.items) == 0 {
		return nil
	}
	return t.items[len(t.items)-1]
}

func (t *turn) open(it *item) *item {
	if last := t.last(); last != nil && last.kind != "function_call" {
		t.close(last)
	}
	it.at, it.model = len(t.items), t.model
	it.id = itemID(map[string]string{"reasoning": "rs", "function_call": "fc", "refusal": "msg", "output_text": "msg"}[it.kind], it.at)
	t.items = append(t.items, it)
	t.event("response.output_item.added", object{"output_index": it.at, "item": it.object()})
	return it
}

func (t *turn) close(it *item) {
	if it.closed {
		return
	}
	it.closed = true
	switch it.kind {
	case "reasoning":
		t.event("response.reasoning_summary_text.done", it.place(object{"summary_index": 0, "text": it.text}))
		t.event("response.reasoning_summary_part.done", it.place(object{"summary_index": 0, "part": object{"type": "summary_text", "text": it.text}}))
	case "function_call":
		t.event("response.function_call_arguments.done", it.place(object{"name": it.name, "arguments": it.text}))
	case "refusal":
		t.event("response.refusal.done", it.place(object{"content_index": 0, "refusal": it.text}))
		t.event("response.content_part.done", it.place(object{"content_index": 0, "part": it.part()}))
	default:
		t.event("response.output_text.done", it.place(object{"content_index": 0, "text": it.text, "logprobs": []object{}}))
		t.event("response.content_part.done", it.place(object{"content_index": 0, "part": it.part()}))
	}
	t.event("response.output_item.done", object{"output_index": it.at, "item": it.object()})
}

// place adds the item's position to v.
func (it *item) place(v object) object {
	v["output_index"], v["item_id"] = it.at, it.id
	return v
}

// part is the content of a message.
func (it *item) part() object {
	if it.kind == "refusal" {
		return object{"type": "refusal", "refusal": it.text}
	}
	return object{"type": "output_text", "text": it.text, "annotations": []object{}, "logprobs": []object{}}
}

// object returns the current state of the item.
func (it *item) object() object {
	status := "in_progress"
	if it.closed {
		status = "completed"
	}
	switch it.kind {
	case "reasoning":
		summary := []object{}
		if it.closed {
			summary = append(summary, object{"type": "summary_text", "text": it.text})
		}
		return object{"id": it.id, "type": "reasoning", "summary": summary, "encrypted_content": signature(it.model, it.id, it.text)}
	case "function_call":
		return object{"id": it.id, "type": "function_call", "status": status, "call_id": it.callID, "name": it.name, "arguments": it.text}
	}
	content := []object{}
	if it.closed {
		content = append(content, it.part())
	}
	return object{"id": it.id, "type": "message", "status": status, "role": "assistant", "content": content}
}
