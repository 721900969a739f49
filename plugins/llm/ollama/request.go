package ollama

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

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

func (m *Model) request(e *wire.Endpoint, req llm.Request) (*request, error) {
	o := req.Options
	if o.MaxTokens == 0 {
		o.MaxTokens = m.cfg.MaxTokens
	}
	r := &request{
		Model: e.Model, Stream: true, Think: m.think(),
		Options: options{
			NumCtx: m.cfg.ContextTokens, NumPredict: o.MaxTokens, Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP),
			TopK: o.TopK, Seed: o.Seed, Stop: o.StopWords, RepeatPenalty: wire.Number(o.RepetitionPenalty),
			FrequencyPenalty: wire.Number(o.FrequencyPenalty), PresencePenalty: wire.Number(o.PresencePenalty),
		},
	}
	mode, _ := wire.Choice(o)
	for _, f := range wire.Functions(o) {
		if mode == "none" {
			break // has no other way to say so
		}
		parameters, err := e.Parameters(f)
		if err != nil {
			return nil, err
		}
		r.Tools = append(r.Tools, tool{"function", function{f.Name, f.Description, parameters}})
	}
	switch {
	case len(r.Tools) > 0: // a model held to a form could call none
	case len(req.Schema) > 0:
		r.Format = req.Schema
	case o.JSONMode:
		r.Format = json.RawMessage(`"json"`)
	}
	names := map[string]string{} // of tools, by the ids of their calls
	for _, msg := range req.Messages {
		list, err := messagesOf(e, msg, names)
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, list...)
	}
	return r, nil
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

// messagesOf returns a message as Ollama wants it: each result of a tool is one. It notes the names of calls, which
// results have to repeat.
func messagesOf(e *wire.Endpoint, given llms.MessageContent, names map[string]string) ([]message, error) {
	msg := message{Role: "user"}
	switch given.Role {
	case llms.ChatMessageTypeSystem:
		msg.Role = "system"
	case llms.ChatMessageTypeAI:
		msg.Role = "assistant"
	}
	var results []message
	for _, p := range given.Parts {
		switch p := p.(type) {
		case llm.Carried:
			continue
		case llms.TextContent:
			msg.say(p.Text)
			continue
		case llms.ToolCall:
			call := toolCall{ID: p.ID}
			call.Function.Name, call.Function.Arguments = wire.Arguments(p)
			names[p.ID] = call.Function.Name
			msg.ToolCalls = append(msg.ToolCalls, call)
			continue
		case llms.ToolCallResponse:
			name := p.Name
			if name == "" {
				name = names[p.ToolCallID]
			}
			results = append(results, message{Role: "tool", Content: p.Content, ToolName: name, ToolCallID: p.ToolCallID})
			continue
		}
		media, ok, err := e.MediaOf(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		text, readable := media.Text()
		switch {
		case readable:
			msg.say(text)
		case media.URL != "":
			return nil, e.Refuse("an image is needed itself, not its URL")
		case media.Image():
			msg.Images = append(msg.Images, media.Data)
		default:
			return nil, e.Refuse("cannot read %s", media.Type)
		}
	}
	if msg.Content == "" && len(msg.Images) == 0 && len(msg.ToolCalls) == 0 {
		return results, nil
	}
	return append(results, msg), nil
}

// say adds text.
func (m *message) say(text string) {
	if m.Content != "" && text != "" {
		m.Content += "\n"
	}
	m.Content += text
}

// Takes reports whether the API has a form for a part of a message: images have to come themselves.
func (*Model) Takes(mediaType string, url bool) bool { return !url && wire.Takes(mediaType) }
