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

// Media is an image or a file of a message: its bytes or its URL.
type Media struct {
	Type string // media type such as image/png; empty for an image of unknown type
	Data []byte
	URL  string
}

// Image reports whether m is an image.
func (m Media) Image() bool { return m.Type == "" || strings.HasPrefix(m.Type, "image/") }

// Text returns the text of m, and whether it is text.
func (m Media) Text() (string, bool) {
	if m.URL != "" || !strings.HasPrefix(m.Type, "text/") && m.Type != "application/json" {
		return "", false
	}
	return string(m.Data), true
}

// Takes reports whether a media type is an image, text, or one of more.
func Takes(mediaType string, more ...string) bool {
	m := Media{Type: mediaType}
	_, text := m.Text()
	return text || m.Image() || slices.Contains(more, mediaType)
}

// Base64 returns the base64 encoding of m's bytes.
func (m Media) Base64() string { return base64.StdEncoding.EncodeToString(m.Data) }

// Reference returns m's URL, or a data: URL with its bytes.
func (m Media) Reference() string {
	if m.URL != "" {
		return m.URL
	}
	return "data:" + m.Type + ";base64," + m.Base64()
}

// MediaOf returns the image or file in a part of a message, and whether it is one.
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

// Mine returns the data carried for e's provider in a part of a message, and whether there is any.
func (e *Endpoint) Mine(p llms.ContentPart) (json.RawMessage, bool) {
	c, ok := p.(llm.Carried)
	if !ok || c.Provider != e.Provider {
		return nil, false
	}
	return c.Data, true
}

// Arguments returns a call's name and arguments, {} for absent or invalid ones.
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

// Functions returns the functions among the tools of options.
func Functions(o llms.CallOptions) []llms.FunctionDefinition {
	var list []llms.FunctionDefinition
	for _, t := range o.Tools {
		if t.Function != nil {
			list = append(list, *t.Function)
		}
	}
	return list
}

// Parameters returns the JSON Schema of f's parameters, by default an empty object.
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

// Choice returns the tool choice: auto, none, required, or the name of a tool.
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

// Number returns a pointer to n, nil for 0, which means unset in options.
func Number[T comparable](n T) *T {
	var zero T
	if n == zero {
		return nil
	}
	return &n
}
