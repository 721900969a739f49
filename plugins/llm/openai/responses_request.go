package openai

import (
	"encoding/json"

	"github.com/batonrun/baton/plugins/llm/wire"
)

type responsesRequest struct {
	Model           string   `json:"model"`
	Input           []any    `json:"input"`
	Stream          bool     `json:"stream"`
	Store           bool     `json:"store"`
	MaxOutputTokens *int     `json:"max_output_tokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"top_p,omitempty"`
	Reasoning       object   `json:"reasoning,omitempty"`
	Include         []string `json:"include,omitempty"`
	Text            object   `json:"text,omitempty"`
	Tools           []object `json:"tools,omitempty"`
	ToolChoice      any      `json:"tool_choice,omitempty"`
}

// responsesShape returns a request for an answer that OpenAI does not store: each request has the whole conversation with its
// encrypted reasoning.
func (m *Model) responsesShape(c *wire.Conversation, _ wire.Caps) any {
	o := c.Options
	r := &responsesRequest{
		Model: c.Model, Stream: true, MaxOutputTokens: wire.Number(o.MaxTokens),
		Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP),
	}
	if m.cfg.Reasoning != "" {
		r.Reasoning = object{"effort": m.cfg.Reasoning, "summary": "auto"}
	}
	if own := m.endpoint.Server == "openai" || m.endpoint.Server == "azure"; own || m.cfg.Reasoning != "" {
		r.Include = []string{"reasoning.encrypted_content"}
	}
	for _, t := range c.Tools {
		tool := object{"type": "function", "name": t.Name, "parameters": t.Parameters, "strict": t.Strict}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		r.Tools = append(r.Tools, tool)
	}
	if mode, name := wire.Choice(o); len(r.Tools) > 0 && name != "" {
		r.ToolChoice = object{"type": "function", "name": name}
	} else if len(r.Tools) > 0 && mode != "" {
		r.ToolChoice = mode
	}
	switch {
	case len(c.Schema) > 0:
		r.Text = object{"format": object{"type": "json_schema", "name": "answer", "schema": c.Schema, "strict": strict(c.Schema)}}
	case o.JSONMode:
		r.Text = object{"format": object{"type": "json_object"}}
	}
	if len(c.System) > 0 {
		r.Input = append(r.Input, object{"role": "system", "content": texts(c.System)})
	}
	for _, msg := range c.Messages {
		r.Input = append(r.Input, responsesItems(msg)...)
	}
	return r
}

func texts(list []string) (parts []object) {
	for _, text := range list {
		parts = append(parts, object{"type": "input_text", "text": text})
	}
	return parts
}

// responsesItems converts a message into items: reasoning, texts, calls and results are one each. Reasoning without the item
// that followed it is left out, as it would be refused.
func responsesItems(m wire.Message) (items []any) {
	var content []object
	whole := 0
	for _, p := range m.Parts {
		if p.Carried == nil {
			whole = len(items) + 1
		}
		switch {
		case p.Carried != nil:
			var thought responsesThought
			if json.Unmarshal(p.Carried, &thought) == nil && thought.Type == "reasoning" && thought.EncryptedContent != "" {
				items = append(items, thought)
			}
		case p.Call != nil:
			items = append(items, object{"type": "function_call", "call_id": p.Call.ID, "name": p.Call.Name, "arguments": string(p.Call.Arguments)})
		case p.Result != nil:
			items = append(items, object{"type": "function_call_output", "call_id": p.Result.ID, "output": p.Result.Text})
		case p.Media != nil:
			content = append(content, responsesMedia(p.Media))
		case m.Role == wire.Assistant:
			items = append(items, object{"role": m.Role, "content": p.Text})
		default:
			content = append(content, object{"type": "input_text", "text": p.Text})
		}
	}
	if content != nil {
		return []any{object{"role": m.Role, "content": content}}
	}
	return items[:whole]
}

func responsesMedia(m *wire.Media) object {
	if m.Image() {
		detail := m.Detail
		if detail == "" {
			detail = "auto"
		}
		return object{"type": "input_image", "detail": detail, "image_url": m.Reference()}
	}
	return object{"type": "input_file", "filename": "file.pdf", "file_data": m.Reference()}
}
