package wire

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// Media is an image or a file of a message: its bytes, or where they are.
type Media struct {
	Type string // of its content, as in image/png; empty for an image of unknown form
	Data []byte
	URL  string
}

// Image tells that m is a picture.
func (m Media) Image() bool { return m.Type == "" || strings.HasPrefix(m.Type, "image/") }

// Text tells that m is to be read as text, and returns it.
func (m Media) Text() (string, bool) {
	if m.URL != "" || !strings.HasPrefix(m.Type, "text/") && m.Type != "application/json" {
		return "", false
	}
	return string(m.Data), true
}

// Takes tells that a file of a media type is an image, is read as text, or of one of more.
func Takes(mediaType string, more ...string) bool {
	m := Media{Type: mediaType}
	_, text := m.Text()
	return text || m.Image() || slices.Contains(more, mediaType)
}

// Base64 returns m's bytes as text.
func (m Media) Base64() string { return base64.StdEncoding.EncodeToString(m.Data) }

// Reference returns m's URL, which is a data: URL for one that is only bytes.
func (m Media) Reference() string {
	if m.URL != "" {
		return m.URL
	}
	return "data:" + m.Type + ";base64," + m.Base64()
}

// MediaOf returns the image or file that a part of a message is, and false for a part of another kind.
func (e *Endpoint) MediaOf(p llms.ContentPart) (Media, bool, error) {
	switch p := p.(type) {
	case llms.BinaryContent:
		kind, _, _ := strings.Cut(p.MIMEType, ";")
		return Media{Type: strings.TrimSpace(kind), Data: p.Data}, true, nil
	case llms.ImageURLContent:
		rest, ok := strings.CutPrefix(p.URL, "data:")
		if !ok {
			return Media{URL: p.URL}, true, nil
		}
		head, data, ok := strings.Cut(rest, ",")
		kind, _, _ := strings.Cut(head, ";")
		m := Media{Type: kind}
		var err error
		if strings.HasSuffix(head, ";base64") {
			m.Data, err = base64.StdEncoding.DecodeString(data)
		} else {
			var plain string
			plain, err = url.PathUnescape(data)
			m.Data = []byte(plain)
		}
		if err != nil || !ok {
			return Media{}, true, e.Refuse("an image's data: URL cannot be read")
		}
		return m, true, nil
	}
	return Media{}, false, nil
}

// Mine returns what is carried for e's provider in a part of a message, and false for any other part.
func (e *Endpoint) Mine(p llms.ContentPart) (json.RawMessage, bool) {
	c, ok := p.(llm.Carried)
	if !ok || c.Provider != e.Provider {
		return nil, false
	}
	return c.Data, true
}

// Arguments returns the JSON object that a call was made with, {} for none or for what a model got wrong.
func Arguments(c llms.ToolCall) (name string, arguments json.RawMessage) {
	if c.FunctionCall == nil {
		return "", json.RawMessage("{}")
	}
	arguments = json.RawMessage(strings.TrimSpace(c.FunctionCall.Arguments))
	if !json.Valid(arguments) || arguments[0] != '{' {
		arguments = json.RawMessage("{}")
	}
	return c.FunctionCall.Name, arguments
}

// Functions returns the tools of options, without those that are none.
func Functions(o llms.CallOptions) []llms.FunctionDefinition {
	var list []llms.FunctionDefinition
	for _, t := range o.Tools {
		if t.Function != nil {
			list = append(list, *t.Function)
		}
	}
	return list
}

// Parameters returns the JSON Schema of what f takes, that of an empty object where f has none.
func (e *Endpoint) Parameters(f llms.FunctionDefinition) (json.RawMessage, error) {
	if f.Parameters == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	data, err := json.Marshal(f.Parameters)
	if err != nil {
		return nil, e.Refuse("the parameters of tool %s: %s", f.Name, err)
	}
	return data, nil
}

// Choice returns which tools the model may call: auto, none, required, or, with a name, that one.
func Choice(o llms.CallOptions) (mode, name string) {
	switch c := o.ToolChoice.(type) {
	case string:
		if c == "any" {
			return "required", ""
		}
		return c, ""
	case llms.ToolChoice:
		if c.Function != nil {
			return "required", c.Function.Name
		}
		return c.Type, ""
	case *llms.ToolChoice:
		if c != nil && c.Function != nil {
			return "required", c.Function.Name
		}
	}
	return "", ""
}

// Number returns a pointer to n, nil for 0, which in options means that it was not said.
func Number[T comparable](n T) *T {
	var zero T
	if n == zero {
		return nil
	}
	return &n
}
