package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/runtime/agui"
)

// output converts a result: its texts become the summary, all content becomes parts if there is more than text, and
// structured content is added.
func output(res *sdk.CallToolResult) agui.ToolOutput {
	var texts []string
	var parts []agui.Part
	rich := false
	for _, c := range res.Content {
		part, text := partOf(c)
		if part.Type == "" {
			continue
		}
		rich = rich || part.Type != "text" || part.Metadata != nil
		parts, texts = append(parts, part), append(texts, text)
	}
	out := agui.ToolOutput{Status: agui.StatusSuccess}
	if rich {
		out.Parts = encoded(parts)
	}
	if res.StructuredContent != nil {
		structured := encoded(res.StructuredContent)
		out.UIHints = encoded(map[string]json.RawMessage{"structuredContent": structured})
		if len(texts) == 0 {
			texts = []string{string(structured)}
		}
	}
	out.ResultSummary = strings.ToValidUTF8(strings.Join(texts, "\n"), "\uFFFD")
	if res.IsError {
		out.Status = agui.StatusFailure
		message := clip(out.ResultSummary, maxMessage)
		if message == "" {
			message = "The tool failed"
		}
		out.Error = &agui.OutputError{Code: "tool_failed", Message: message}
	}
	return out
}

// partOf converts content into a part and a text. Unknown content becomes nothing.
func partOf(c sdk.Content) (part agui.Part, text string) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return agui.Part{Type: "text", Text: c.Text}, c.Text
	case *sdk.ImageContent:
		return media("image", c.Data, c.MIMEType, "")
	case *sdk.AudioContent:
		return media("audio", c.Data, c.MIMEType, "")
	case *sdk.ResourceLink:
		name := c.Title
		if name == "" {
			name = c.Name
		}
		part = agui.Part{Type: kindOf(c.MIMEType), Source: &agui.Source{Type: "url", Value: c.URI, MimeType: c.MIMEType}}
		part.Metadata = encoded(map[string]string{"filename": name, "uri": c.URI})
		return part, fmt.Sprintf("%s: %s", name, c.URI)
	case *sdk.EmbeddedResource:
		r := c.Resource
		switch {
		case r == nil:
			return part, ""
		case r.Blob != nil:
			return media(kindOf(r.MIMEType), r.Blob, r.MIMEType, r.URI)
		}
		part = agui.Part{Type: "text", Text: r.Text, Metadata: encoded(map[string]string{"uri": r.URI, "mimeType": r.MIMEType})}
		return part, r.Text
	}
	return part, ""
}

func media(kind string, data []byte, mime, uri string) (agui.Part, string) {
	part := agui.Part{Type: kind, Source: &agui.Source{Type: "data", Value: string(base64Of(data)), MimeType: mime}}
	words := fmt.Sprintf("[%s %s, %d bytes]", kind, mime, len(data))
	if uri != "" {
		part.Metadata = encoded(map[string]string{"uri": uri})
		words = fmt.Sprintf("[%s %s %s, %d bytes]", kind, mime, uri, len(data))
	}
	return part, words
}

// kindOf returns the type of part for a media type.
func kindOf(mime string) string {
	for _, kind := range []string{"image", "audio", "video"} {
		if strings.HasPrefix(mime, kind+"/") {
			return kind
		}
	}
	return "document"
}

// encoded returns v as JSON, which always exists for our types.
func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
