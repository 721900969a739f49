package google

import (
	"encoding/json"
	"mime"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins/llm/wire"
)

var caps = wire.Caps{
	IDs: wire.GivenID, URLs: true, Schema: wire.GeminiSchema,
	Media: []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "audio/*", "video/*"},
}

type request struct {
	Contents          []content   `json:"contents"`
	SystemInstruction *content    `json:"systemInstruction,omitempty"`
	Tools             []tool      `json:"tools,omitempty"`
	ToolConfig        any         `json:"toolConfig,omitempty"`
	GenerationConfig  *generation `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text             string            `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type fileData struct {
	MIMEType string `json:"mimeType,omitempty"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

type tool struct {
	FunctionDeclarations []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type generation struct {
	MaxOutputTokens    *int            `json:"maxOutputTokens,omitempty"`
	Temperature        *float64        `json:"temperature,omitempty"`
	TopP               *float64        `json:"topP,omitempty"`
	TopK               *int            `json:"topK,omitempty"`
	Seed               *int            `json:"seed,omitempty"`
	StopSequences      []string        `json:"stopSequences,omitempty"`
	FrequencyPenalty   *float64        `json:"frequencyPenalty,omitempty"`
	PresencePenalty    *float64        `json:"presencePenalty,omitempty"`
	ResponseMIMEType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
	ThinkingConfig     *thinking       `json:"thinkingConfig,omitempty"`
}

type thinking struct {
	IncludeThoughts bool   `json:"includeThoughts"`
	ThinkingBudget  *int   `json:"thinkingBudget,omitempty"`
	ThinkingLevel   string `json:"thinkingLevel,omitempty"`
}

type object = map[string]any

// shape returns a request.
func (m *Model) shape(c *wire.Conversation, caps wire.Caps) any {
	o := c.Options
	if o.MaxTokens == 0 {
		o.MaxTokens = m.cfg.MaxTokens
	}
	r := &request{GenerationConfig: &generation{
		MaxOutputTokens: wire.Number(o.MaxTokens), Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP),
		TopK: wire.Number(o.TopK), Seed: wire.Number(o.Seed), StopSequences: o.StopWords,
		FrequencyPenalty: wire.Number(o.FrequencyPenalty), PresencePenalty: wire.Number(o.PresencePenalty),
		ThinkingConfig: m.thinking(),
	}}
	tools(c, r)
	if o.JSONMode || len(c.Schema) > 0 && (len(r.Tools) == 0 || sinceGemini3(c.Model)) {
		r.GenerationConfig.ResponseMIMEType = "application/json"
		r.GenerationConfig.ResponseJSONSchema = c.Schema
	}
	if len(c.System) > 0 {
		r.SystemInstruction = &content{}
	}
	for _, text := range c.System {
		r.SystemInstruction.Parts = append(r.SystemInstruction.Parts, part{Text: text})
	}
	for _, msg := range c.Messages {
		r.Contents = append(r.Contents, contentOf(msg))
	}
	if caps.Signed || sinceGemini3(c.Model) {
		signCalls(r.Contents[len(r.Contents)-len(c.Turn()):])
	}
	return r
}

// sinceGemini3 reports whether the model supports a schema together with tools, and demands signatures of calls.
func sinceGemini3(model string) bool {
	return !strings.Contains(model, "gemini-1") && !strings.Contains(model, "gemini-2")
}

func (m *Model) thinking() *thinking {
	if m.cfg.Reasoning == "" {
		return nil
	}
	if tokens, err := strconv.Atoi(m.cfg.Reasoning); err == nil {
		return &thinking{IncludeThoughts: true, ThinkingBudget: &tokens}
	}
	return &thinking{IncludeThoughts: true, ThinkingLevel: m.cfg.Reasoning}
}

func tools(c *wire.Conversation, r *request) {
	var list []function
	for _, t := range c.Tools {
		list = append(list, function{t.Name, t.Description, t.Parameters})
	}
	if len(list) == 0 {
		return
	}
	r.Tools = []tool{{list}}
	mode, name := wire.Choice(c.Options)
	calling := object{"mode": strings.ToUpper(mode)}
	switch mode {
	case "", "auto":
		return
	case "required":
		calling["mode"] = "ANY"
	}
	if name != "" {
		calling["allowedFunctionNames"] = []string{name}
	}
	r.ToolConfig = object{"functionCallingConfig": calling}
}

// contentOf converts a message, with signatures in their places.
func contentOf(m wire.Message) content {
	c := content{Role: "user"}
	if m.Role == wire.Assistant {
		c.Role = "model"
	}
	for _, p := range m.Parts {
		switch {
		case p.Carried != nil:
			c.sign(p.Carried)
		case p.Call != nil:
			c.Parts = append(c.Parts, part{FunctionCall: &functionCall{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Arguments}})
		case p.Result != nil:
			c.Parts = append(c.Parts, part{FunctionResponse: &functionResponse{p.Result.ID, p.Result.Name, result(p.Result.Text)}})
		case p.Media != nil:
			c.Parts = append(c.Parts, mediaPart(p.Media))
		default:
			c.Parts = append(c.Parts, part{Text: p.Text})
		}
	}
	return c
}

// sign signs the last part with a carried signature of such a part.
func (c *content) sign(data json.RawMessage) {
	var signed carried
	if len(c.Parts) == 0 || json.Unmarshal(data, &signed) != nil {
		return
	}
	if last := &c.Parts[len(c.Parts)-1]; last.Text != "" && signed.Of == "text" || last.FunctionCall != nil && signed.Of == "call" {
		last.ThoughtSignature = signed.Signature
	}
}

// signCalls completes the signatures that Google demands: that of the first call of each answer of the current turn.
func signCalls(contents []content) {
	for _, c := range contents {
		i := slices.IndexFunc(c.Parts, func(p part) bool { return p.FunctionCall != nil })
		if i >= 0 && c.Parts[i].ThoughtSignature == "" {
			c.Parts[i].ThoughtSignature = wire.Unsigned
		}
	}
}

// result returns a tool's result as the object that Google requires.
func result(text string) json.RawMessage {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	data, _ := json.Marshal(object{"result": text}) // strings always marshal
	return data
}

func mediaPart(m *wire.Media) part {
	if m.URL != "" {
		address, _, _ := strings.Cut(m.URL, "?")
		kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(address)), ";")
		return part{FileData: &fileData{kind, m.URL}}
	}
	return part{InlineData: &inlineData{m.Type, m.Data}}
}
