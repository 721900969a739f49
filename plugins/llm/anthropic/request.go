package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/batonrun/baton/plugins/llm/wire"
)

type request struct {
	Model         string    `json:"model"`
	MaxTokens     int       `json:"max_tokens"`
	System        []object  `json:"system,omitempty"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	Tools         []object  `json:"tools,omitempty"`
	ToolChoice    object    `json:"tool_choice,omitempty"`
	Thinking      object    `json:"thinking,omitempty"`
	OutputConfig  object    `json:"output_config,omitempty"`
	StopSequences []string  `json:"stop_sequences,omitempty"`
	Temperature   *float64  `json:"temperature,omitempty"`
	TopP          *float64  `json:"top_p,omitempty"`
	TopK          *int      `json:"top_k,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // objects, and thoughts as received
}

// thought is a block of reasoning, which can be readable or not.
type thought struct {
	Type      string  `json:"type"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`
}

// thoughtOf decodes carried data; ok is false if it is not a thought.
func thoughtOf(carried json.RawMessage) (t thought, ok bool) {
	err := json.Unmarshal(carried, &t)
	return t, err == nil && (t.Type == "thinking" && t.Thinking != nil && t.Signature != "" || t.Type == "redacted_thinking" && t.Data != "")
}

type object = map[string]any

// shape returns a request that marks the stable parts for caching: the tools, the system's text, and the conversation so far.
func (m *Model) shape(c *wire.Conversation, _ wire.Caps) any {
	o := c.Options
	r := &request{
		Model: c.Model, MaxTokens: m.cfg.MaxTokens, Stream: true, StopSequences: o.StopWords, OutputConfig: object{},
		Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP), TopK: wire.Number(o.TopK),
	}
	if o.MaxTokens > 0 {
		r.MaxTokens = o.MaxTokens
	}
	m.think(c, r)
	tools(c, r)
	var schema any
	in := json.NewDecoder(bytes.NewReader(c.Schema))
	in.UseNumber() // large integers keep their digits
	if in.Decode(&schema) == nil {
		closeObjects(schema)
		r.OutputConfig["format"] = object{"type": "json_schema", "schema": schema}
	}
	for _, text := range c.System {
		r.System = append(r.System, object{"type": "text", "text": text})
	}
	for _, msg := range c.Messages {
		r.add(msg)
	}
	if n := len(r.System); n > 0 {
		r.System[n-1]["cache_control"] = object{"type": "ephemeral"}
	}
	cacheLast(r.Messages[len(r.Messages)-1].Content)
	return r
}

func (m *Model) think(c *wire.Conversation, r *request) {
	tokens, err := strconv.Atoi(m.cfg.Reasoning)
	if m.cfg.Reasoning == "" || err == nil && unthinking(c) {
		return
	}
	r.Temperature, r.TopK = nil, nil // not allowed together with reasoning
	if err != nil {
		r.Thinking = object{"type": "adaptive", "display": "summarized"}
		r.OutputConfig["effort"] = m.cfg.Reasoning
		return
	}
	r.Thinking = object{"type": "enabled", "budget_tokens": tokens}
	if r.MaxTokens <= tokens {
		r.MaxTokens += tokens // reasoning counts as answer
	}
}

// unthinking reports whether the current turn began with a call without a thought, as that of another model does. Anthropic
// refuses a budget for reasoning in the rest of such a turn.
func unthinking(c *wire.Conversation) bool {
	for _, m := range c.Turn() {
		if m.Role == wire.Assistant {
			_, ok := thoughtOf(m.Parts[0].Carried)
			return !ok && slices.ContainsFunc(m.Parts, func(p wire.Part) bool { return p.Call != nil })
		}
	}
	return false
}

func tools(c *wire.Conversation, r *request) {
	for _, t := range c.Tools {
		tool := object{"name": t.Name, "input_schema": t.Parameters}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		if t.Strict {
			tool["strict"] = true
		}
		r.Tools = append(r.Tools, tool)
	}
	if len(r.Tools) == 0 {
		return
	}
	r.Tools[len(r.Tools)-1]["cache_control"] = object{"type": "ephemeral"}
	switch mode, name := wire.Choice(c.Options); {
	case name != "":
		r.ToolChoice = object{"type": "tool", "name": name}
	case mode == "required":
		r.ToolChoice = object{"type": "any"}
	case mode == "none":
		r.ToolChoice = object{"type": "none"}
	}
}

// add adds a message. Results are the beginning of the user's message that follows them.
func (r *request) add(m wire.Message) {
	role := wire.User
	if m.Role == wire.Assistant {
		role = wire.Assistant
	}
	if n := len(r.Messages); n == 0 || r.Messages[n-1].Role != role {
		r.Messages = append(r.Messages, message{Role: role})
	}
	last := &r.Messages[len(r.Messages)-1]
	for _, p := range m.Parts {
		if p.Carried == nil {
			last.Content = append(last.Content, blockOf(p))
		} else if t, ok := thoughtOf(p.Carried); ok {
			last.Content = append(last.Content, t)
		}
	}
}

// blockOf returns a part of a message.
func blockOf(p wire.Part) object {
	switch {
	case p.Call != nil:
		return object{"type": "tool_use", "id": p.Call.ID, "name": p.Call.Name, "input": p.Call.Arguments}
	case p.Result != nil && p.Result.Text == "":
		return object{"type": "tool_result", "tool_use_id": p.Result.ID}
	case p.Result != nil:
		return object{"type": "tool_result", "tool_use_id": p.Result.ID, "content": []object{{"type": "text", "text": p.Result.Text}}}
	case p.Media == nil:
		return object{"type": "text", "text": p.Text}
	case p.Media.URL != "":
		return object{"type": "image", "source": object{"type": "url", "url": p.Media.URL}}
	}
	kind := "document"
	if p.Media.Image() {
		kind = "image"
	}
	return object{"type": kind, "source": object{"type": "base64", "media_type": p.Media.Type, "data": p.Media.Base64()}}
}

// cacheLast marks the last block that can be marked; reasoning cannot.
func cacheLast(blocks []any) {
	for _, b := range slices.Backward(blocks) {
		if block, ok := b.(object); ok {
			block["cache_control"] = object{"type": "ephemeral"}
			return
		}
	}
}

// closeObjects forbids additional properties in all objects of a schema, as Anthropic requires.
func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			closeObjects(w)
		}
	case object:
		if _, ok := v["properties"]; ok {
			if _, said := v["additionalProperties"]; !said {
				v["additionalProperties"] = false
			}
		}
		for _, w := range v {
			closeObjects(w)
		}
	}
}
