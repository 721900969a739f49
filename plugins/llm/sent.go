package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// message is a message of the next request, and the messages of the log that it was made of, as the model gets them.
type message struct {
	llms.MessageContent
	sent []plugins.PromptMessage
}

// contents returns messages in the form for the model.
func contents(list []message) []llms.MessageContent {
	all := make([]llms.MessageContent, len(list))
	for i := range list {
		all[i] = list[i].MessageContent
	}
	return all
}

// plainSent returns messages that are not in the log.
func plainSent(list ...llms.MessageContent) (all []message) {
	for _, c := range list {
		role := agui.RoleUser
		if c.Role == llms.ChatMessageTypeAI {
			role = agui.RoleAssistant
		}
		m := agui.Message{Role: role}
		setContent(&m, sentParts(c.Parts))
		all = append(all, message{c, []plugins.PromptMessage{{Message: m}}})
	}
	return all
}

// sentAnswer returns an answer of the model with its calls, which have our ids and names.
func sentAnswer(id, text string, calls []call) plugins.PromptMessage {
	m := plugins.PromptMessage{Message: agui.Message{ID: id, Role: agui.RoleAssistant, Content: text}}
	for _, c := range calls {
		arguments, err := readArguments(c.Arguments)
		if err != nil {
			arguments = "{}"
			m.Changes = append(m.Changes, plugins.PromptChange{Kind: plugins.PromptReplaced, Of: c.ID, Why: "Its arguments are no JSON object: " + clip(err.Error(), 200)})
		}
		m.ToolCalls = append(m.ToolCalls, agui.ToolCall{ID: c.ID, Name: c.Name, Arguments: arguments})
	}
	return m
}

// sentResult returns the result of a call, which may be shortened.
func sentResult(call, content, whole string) plugins.PromptMessage {
	m := plugins.PromptMessage{Message: agui.Message{Role: agui.RoleTool, ToolCallID: call, Content: content}}
	if content != whole {
		m.Changes = []plugins.PromptChange{{
			Kind: plugins.PromptShortened, Of: call, Why: fmt.Sprintf("The prompt has %d of %d bytes of this result", len(content), len(whole)),
		}}
	}
	return m
}

// sentPart is a part of a message as a prompt is kept: a text, or the description of media.
type sentPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Size     int64  `json:"size,omitempty"` // bytes
	Path     string `json:"path,omitempty"` // of an attachment
	Filename string `json:"filename,omitempty"`
	URL      string `json:"url,omitempty"`
}

// sentFile returns the description of an attachment.
func sentFile(a plugins.Attachment) sentPart {
	return sentPart{Type: mediaKind(a.MimeType), MimeType: a.MimeType, Size: a.Size, Path: a.Path, Filename: a.Filename}
}

func sentParts(parts []llms.ContentPart) (list []sentPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case llms.TextContent:
			list = append(list, sentPart{Type: "text", Text: p.Text})
		case llms.BinaryContent:
			list = append(list, sentPart{Type: mediaKind(p.MIMEType), MimeType: p.MIMEType, Size: int64(len(p.Data))})
		case llms.ImageURLContent:
			if !hasScheme(p.URL, "data") {
				list = append(list, sentPart{Type: "image", URL: p.URL})
				continue
			}
			head, data, _ := strings.Cut(p.URL[len("data:"):], ",")
			kind, _, _ := strings.Cut(head, ";")
			list = append(list, sentPart{Type: mediaKind(kind), MimeType: clip(kind, 200), Size: int64(len(data)) * 3 / 4})
		}
	}
	return list
}

// mediaKind returns the type of a part with a media type.
func mediaKind(mediaType string) string {
	switch kind, _, _ := strings.Cut(mediaType, "/"); kind {
	case "image", "audio", "video":
		return kind
	}
	return "document"
}

// setContent sets the content of a message: a single text as it is, other parts as a list.
func setContent(m *agui.Message, parts []sentPart) {
	if len(parts) == 1 && parts[0].Type == "text" {
		m.Content = parts[0].Text
		return
	}
	m.Parts, _ = json.Marshal(parts) // texts and numbers
}

// namesOf returns the provider and the model that a request is for, "" where they are unknown.
func namesOf(m Streamer, req *Request) (provider, model string) {
	model = req.Options.Model
	if paced, ok := m.(Paced); ok && model == "" {
		_, model = paced.Pacer()
	}
	if named, ok := m.(interface{ Provider() string }); ok {
		provider = named.Provider()
	}
	return provider, model
}

// promptOf returns the prompt of a request, nil if prompts are not kept.
func (t *turn) promptOf(m Streamer, req *Request) *plugins.Prompt {
	if !t.run.KeepsPrompts() {
		return nil
	}
	p := &plugins.Prompt{Parameters: parametersOf(req), Changes: t.changes()}
	p.Provider, p.Model = namesOf(m, req)
	list := req.sent
	if list == nil {
		list, p.Changes = plainSent(req.Messages...), nil
	}
	for i := range list {
		if list[i].Role != llms.ChatMessageTypeSystem {
			p.Messages = append(p.Messages, list[i].sent...)
			continue
		}
		for _, part := range sentParts(list[i].Parts) {
			p.System = append(p.System, part.Text)
		}
	}
	for _, tool := range req.Options.Tools {
		parameters, _ := json.Marshal(tool.Function.Parameters) // a tool that is no JSON is left out later
		p.Tools = append(p.Tools, plugins.PromptTool{
			Name: t.tools.name(tool.Function.Name), Description: tool.Function.Description, Parameters: parameters,
		})
	}
	return p
}

// parametersOf returns the parameters of a request that are set.
func parametersOf(req *Request) json.RawMessage {
	o := &req.Options
	set := make(map[string]any)
	for name, value := range map[string]float64{
		"maxTokens": float64(o.MaxTokens), "temperature": o.Temperature, "topK": float64(o.TopK), "topP": o.TopP, "seed": float64(o.Seed),
		"frequencyPenalty": o.FrequencyPenalty, "presencePenalty": o.PresencePenalty, "repetitionPenalty": o.RepetitionPenalty,
	} {
		if value != 0 || math.Signbit(value) { // -0 is a 0 that is set
			set[name] = value + 0
		}
	}
	if len(o.StopWords) > 0 {
		set["stop"] = o.StopWords
	}
	if o.ToolChoice != nil {
		set["toolChoice"] = o.ToolChoice
	}
	if req.Schema != nil {
		set["schema"] = req.Schema
	}
	text, err := json.Marshal(set)
	if err != nil || len(set) == 0 {
		return nil
	}
	return text
}

// changes returns the differences between the conversation and the prompt.
func (t *turn) changes() (list []plugins.PromptChange) {
	for _, c := range []plugins.PromptChange{t.trimmed, t.dropped} {
		if c.Kind != "" {
			list = append(list, c)
		}
	}
	return list
}

// sending is a call of a model with its prompt and answer, which are kept.
type sending struct {
	began  time.Time
	answer plugins.ModelAnswer
	end    func(plugins.ModelCall, *plugins.ModelAnswer, error)
}

// send begins a call of a model. The request names the tools that the model does not get.
func (t *turn) send(ctx context.Context, m Streamer, req *Request) (context.Context, *sending) {
	s := &sending{began: time.Now()}
	if told := req.LeftOut; told != nil {
		req.LeftOut = func(tools []LeftOut) error {
			for _, tool := range tools {
				s.answer.Changes = append(s.answer.Changes, plugins.PromptChange{Kind: plugins.PromptLeftOut, Of: t.tools.name(tool.Name), Why: tool.Why})
			}
			return told(tools)
		}
	}
	ctx, s.end = t.run.SendPrompt(ctx, t.promptOf(m, req))
	return ctx, s
}

// piece notes the time of the answer's first piece.
func (s *sending) piece(p *Piece) {
	if s.answer.FirstToken == 0 && p.Usage == nil {
		s.answer.FirstToken = max(time.Since(s.began), 1)
	}
}

// answered ends the call with its answer. calls are those that the log has already, in the order of the answer's.
func (s *sending) answered(c plugins.ModelCall, resp *Response, calls []*preview, err error) {
	s.answer.Text, s.answer.Reasoning = resp.Text, resp.Reasoning
	for i, c := range resp.Calls {
		f := agui.ToolCall{ID: c.ID}
		if c.FunctionCall != nil {
			f.Name, f.Arguments = c.FunctionCall.Name, c.FunctionCall.Arguments
		}
		if i < len(calls) && calls[i] != nil && calls[i].name == f.Name {
			f.ID, f.Name = calls[i].ID, calls[i].called
		}
		s.answer.Calls = append(s.answer.Calls, f)
	}
	s.answer.Changes = slices.Clip(s.answer.Changes)
	s.end(c, &s.answer, err)
}
