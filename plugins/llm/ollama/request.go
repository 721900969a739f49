package ollama

import (
	"encoding/json"
	"strings"

	"github.com/batonrun/baton/plugins/llm/wire"
)

var caps = wire.Caps{Schema: wire.OllamaSchema, Media: []string{"image/png", "image/jpeg", "image/webp"}}

type request struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Stream   bool            `json:"stream"`
	Tools    []tool          `json:"tools,omitempty"`
	Format   json.RawMessage `json:"format,omitempty"`
	Think    any             `json:"think,omitempty"`
	Options  options         `json:"options"`
}

type options struct {
	NumCtx           int      `json:"num_ctx,omitempty"`
	NumPredict       int      `json:"num_predict,omitempty"`
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"top_p,omitempty"`
	TopK             int      `json:"top_k,omitempty"`
	Seed             int      `json:"seed,omitempty"`
	Stop             []string `json:"stop,omitempty"`
	RepeatPenalty    *float64 `json:"repeat_penalty,omitempty"`
	FrequencyPenalty *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty  *float64 `json:"presence_penalty,omitempty"`
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     [][]byte   `json:"images,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// shape returns a request.
func (m *Model) shape(c *wire.Conversation, _ wire.Caps) any {
	o := c.Options
	if o.MaxTokens == 0 {
		o.MaxTokens = m.cfg.MaxTokens
	}
	r := &request{
		Model: c.Model, Stream: true, Think: m.think(),
		Options: options{
			NumCtx: m.cfg.ContextTokens, NumPredict: o.MaxTokens, Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP),
			TopK: o.TopK, Seed: o.Seed, Stop: o.StopWords, RepeatPenalty: wire.Number(o.RepetitionPenalty),
			FrequencyPenalty: wire.Number(o.FrequencyPenalty), PresencePenalty: wire.Number(o.PresencePenalty),
		},
	}
	mode, _ := wire.Choice(o)
	for _, t := range c.Tools {
		if mode == "none" {
			break // has no other way to say so
		}
		r.Tools = append(r.Tools, tool{"function", function{t.Name, t.Description, t.Parameters}})
	}
	switch {
	case len(r.Tools) > 0: // a model held to a form could call none
	case len(c.Schema) > 0:
		r.Format = c.Schema
	case o.JSONMode:
		r.Format = json.RawMessage(`"json"`)
	}
	if len(c.System) > 0 {
		r.Messages = append(r.Messages, message{Role: "system", Content: strings.Join(c.System, "\n")})
	}
	for _, msg := range c.Messages {
		r.Messages = append(r.Messages, messagesOf(msg)...)
	}
	return r
}

func (m *Model) think() any {
	switch m.cfg.Reasoning {
	case "":
		return nil
	case "true", "false":
		return m.cfg.Reasoning == "true"
	}
	return m.cfg.Reasoning
}

// messagesOf returns a message as Ollama expects it: each result of a tool is one.
func messagesOf(m wire.Message) []message {
	msg := message{Role: m.Role}
	var results []message
	var texts []string
	for _, p := range m.Parts {
		switch {
		case p.Carried != nil:
			var c carried
			_ = json.Unmarshal(p.Carried, &c) // ignores what is not ours
			msg.Thinking = c.Thinking
		case p.Call != nil:
			call := toolCall{ID: p.Call.ID}
			call.Function.Name, call.Function.Arguments = p.Call.Name, p.Call.Arguments
			msg.ToolCalls = append(msg.ToolCalls, call)
		case p.Result != nil:
			results = append(results, message{Role: "tool", Content: p.Result.Text, ToolName: p.Result.Name, ToolCallID: p.Result.ID})
		case p.Media != nil:
			msg.Images = append(msg.Images, p.Media.Data)
		default:
			texts = append(texts, p.Text)
		}
	}
	if m.Role == wire.Results {
		return results
	}
	msg.Content = strings.Join(texts, "\n")
	return []message{msg}
}
