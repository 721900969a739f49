package google

import (
	"encoding/json"
	"mime"
	"path"
	"strconv"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

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

func (m *Model) request(e *wire.Endpoint, req llm.Request) (*request, error) {
	o := req.Options
	if o.MaxTokens == 0 {
		o.MaxTokens = m.cfg.MaxTokens
	}
	r := &request{GenerationConfig: &generation{
		MaxOutputTokens: wire.Number(o.MaxTokens), Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP),
		TopK: wire.Number(o.TopK), Seed: wire.Number(o.Seed), StopSequences: o.StopWords,
		FrequencyPenalty: wire.Number(o.FrequencyPenalty), PresencePenalty: wire.Number(o.PresencePenalty),
		ThinkingConfig: m.thinking(),
	}}
	if err := tools(e, o, r); err != nil {
		return nil, err
	}
	if o.JSONMode || len(req.Schema) > 0 && (len(r.Tools) == 0 || answersBesideTools(e.Model)) {
		r.GenerationConfig.ResponseMIMEType = "application/json"
		r.GenerationConfig.ResponseJSONSchema = req.Schema
	}
	names := map[string]string{} // of tools, by call id
	for _, message := range req.Messages {
		c, err := contentOf(e, message, names)
		switch n := len(r.Contents); {
		case err != nil:
			return nil, err
		case len(c.Parts) == 0:
		case message.Role == llms.ChatMessageTypeSystem:
			if r.SystemInstruction == nil {
				r.SystemInstruction = &content{}
			}
			r.SystemInstruction.Parts = append(r.SystemInstruction.Parts, c.Parts...)
		case n > 0 && r.Contents[n-1].Role == c.Role && r.Contents[n-1].results() == c.results():
			r.Contents[n-1].Parts = append(r.Contents[n-1].Parts, c.Parts...) // results of one turn belong together
		default:
			r.Contents = append(r.Contents, c)
		}
	}
	return r, nil
}

// results reports whether c consists of results of tools.
func (c content) results() bool { return c.Parts[0].FunctionResponse != nil }

// answersBesideTools reports whether the model supports a schema together with tools, as models since Gemini 3 do.
func answersBesideTools(model string) bool {
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

func tools(e *wire.Endpoint, o llms.CallOptions, r *request) error {
	var list []function
	for _, f := range wire.Functions(o) {
		parameters, err := e.Parameters(f)
		if err != nil {
			return err
		}
		list = append(list, function{f.Name, f.Description, parameters})
	}
	if len(list) == 0 {
		return nil
	}
	r.Tools = []tool{{list}}
	mode, name := wire.Choice(o)
	calling := object{"mode": strings.ToUpper(mode)}
	switch mode {
	case "", "auto":
		return nil
	case "required":
		calling["mode"] = "ANY"
	}
	if name != "" {
		calling["allowedFunctionNames"] = []string{name}
	}
	r.ToolConfig = object{"functionCallingConfig": calling}
	return nil
}

// contentOf converts a message, with signatures in their places. It records the names of calls, which results must repeat.
func contentOf(e *wire.Endpoint, message llms.MessageContent, names map[string]string) (content, error) {
	c := content{Role: "user"}
	if message.Role == llms.ChatMessageTypeAI {
		c.Role = "model"
	}
	signatures := map[string]string{}
	for _, p := range message.Parts {
		var signed carried
		if data, ok := e.Mine(p); ok && json.Unmarshal(data, &signed) == nil {
			signatures[signed.Call] = signed.Signature
		}
	}
	for _, p := range message.Parts {
		switch p := p.(type) {
		case llm.Carried:
			continue
		case llms.TextContent:
			if p.Text != "" {
				c.Parts = append(c.Parts, part{Text: p.Text})
			}
			continue
		case llms.ToolCall:
			name, arguments := wire.Arguments(p)
			names[p.ID] = name
			c.Parts = append(c.Parts, part{
				FunctionCall: &functionCall{ID: known(p.ID), Name: name, Args: arguments}, ThoughtSignature: signatures[p.ID],
			})
			continue
		case llms.ToolCallResponse:
			name := p.Name
			if name == "" {
				name = names[p.ToolCallID]
			}
			c.Parts = append(c.Parts, part{FunctionResponse: &functionResponse{known(p.ToolCallID), name, result(p.Content)}})
			continue
		}
		media, ok, err := e.MediaOf(p)
		if err != nil {
			return c, err
		}
		if ok {
			c.Parts = append(c.Parts, mediaPart(media))
		}
	}
	sign(c.Parts, signatures[""])
	return c, nil
}

// sign adds the signature of the text to the last text part.
func sign(parts []part, signature string) {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].Text != "" {
			parts[i].ThoughtSignature = signature
			return
		}
	}
}

// known returns the id of a call, or "" if Google did not assign it.
func known(id string) string {
	if wire.Minted(id) {
		return ""
	}
	return id
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

func mediaPart(m wire.Media) part {
	if text, ok := m.Text(); ok {
		return part{Text: text}
	}
	if m.URL != "" {
		address, _, _ := strings.Cut(m.URL, "?")
		kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(address)), ";")
		return part{FileData: &fileData{kind, m.URL}}
	}
	return part{InlineData: &inlineData{m.Type, m.Data}}
}

// Reads reports that the model reads PDF.
func (m *Model) Reads(mediaType string) bool { return mediaType == "application/pdf" }
