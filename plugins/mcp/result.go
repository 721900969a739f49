package mcp

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// wireResult is a result with members of any type.
type wireResult struct {
	Content    json.RawMessage `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    json.RawMessage `json:"isError"`
}

// output converts a result: its texts become the summary, all content becomes parts if there is more than text, and
// structured content is added unless the content says the same. Data that is a part stands nowhere else. Content that cannot be read becomes
// a text that says so. The text also names the declined questions.
func output(raw json.RawMessage, a *asker) agui.ToolOutput {
	var res wireResult
	if json.Unmarshal(raw, &res) != nil || res.Content == nil && res.Structured == nil && res.IsError == nil {
		res.Content = bare(raw)
	}
	var texts []string
	var parts []agui.Part
	rich := false
	for _, c := range elements(res.Content) {
		part, text := partOf(c)
		if part.Type == "" {
			continue
		}
		rich = rich || part.Type != "text" || part.Metadata != nil
		parts, texts = append(parts, part), append(texts, text)
	}
	if told, _ := a.declined(); told != "" {
		part, text := textPart(told)
		parts, texts = append(parts, part), append(texts, text)
	}
	out := agui.ToolOutput{Status: agui.StatusSuccess}
	s := newShown(elements(res.Content), parts, texts)
	if given(res.Structured) && !s.repeats(res.Structured) {
		structured := s.once(string(compact(res.Structured)))
		out.UIHints = encoded(map[string]json.RawMessage{"structuredContent": json.RawMessage(structured)})
		if !says(texts, res.Structured) {
			texts = append(texts, structured)
		}
	}
	if rich {
		for i := range parts {
			parts[i].Text = s.once(parts[i].Text)
		}
		out.Parts = encoded(parts)
	}
	out.ResultSummary = s.once(strings.Join(texts, "\n"))
	if truth(res.IsError) {
		out.Status = agui.StatusFailure
		out.Error = &agui.OutputError{Code: "tool_failed", Message: cmp.Or(clip(out.ResultSummary, maxMessage), "The tool failed")}
	}
	if told, sure := a.declined(); out.Error != nil && told != "" {
		out.Error.Code = codeDeclined
	} else if sure {
		out.Status, out.Error = agui.StatusPartial, &agui.OutputError{Code: codeDeclined, Message: clip(told, maxMessage)}
	}
	return out
}

// codeDeclined is the code of a call with a question that was declined without asking.
const codeDeclined = "input_declined"

// bare returns a result without the protocol's members as content.
func bare(raw json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	delete(members, "_meta")
	delete(members, "resultType")
	if len(members) == 0 {
		return nil
	}
	return encoded(string(compact(raw)))
}

// wireContent is an element of a result's content.
type wireContent struct {
	Type        json.RawMessage `json:"type"`
	Text        json.RawMessage `json:"text"`
	Data        json.RawMessage `json:"data"`
	MIMEType    json.RawMessage `json:"mimeType"`
	URI         json.RawMessage `json:"uri"`
	Name, Title json.RawMessage
	Resource    *struct{ URI, MIMEType, Text, Blob json.RawMessage }
}

const maxUnknown = 2 << 10 // bytes that are shown of content of an unknown type

// partOf converts content into a part and a text. Without content it returns no part.
func partOf(raw json.RawMessage) (agui.Part, string) {
	var c wireContent
	err := json.Unmarshal(raw, &c)
	kind := word(c.Type)
	switch {
	case !given(raw):
		return agui.Part{}, ""
	case err == nil && (kind == "text" || kind == "" && given(c.Text)):
		return textPart(word(c.Text))
	case err == nil && (kind == "image" || kind == "audio"):
		return media(kind, c.Data, word(c.MIMEType), "")
	case err == nil && kind == "resource_link":
		return link(&c)
	case err == nil && kind == "resource" && c.Resource == nil:
		return agui.Part{}, ""
	case err == nil && kind == "resource":
		return embedded(&c)
	case raw[0] == '{':
		return textPart(fmt.Sprintf("[content of type %s] %s", kind, clip(string(compact(raw)), maxUnknown)))
	}
	return textPart(text(raw))
}

func textPart(said string) (agui.Part, string) { return agui.Part{Type: "text", Text: said}, said }

func link(c *wireContent) (agui.Part, string) {
	name, uri, mime := cmp.Or(word(c.Title), word(c.Name)), word(c.URI), word(c.MIMEType)
	part := agui.Part{Type: kindOf(mime), Source: &agui.Source{Type: "url", Value: uri, MimeType: mime}}
	part.Metadata = encoded(map[string]string{"filename": name, "uri": uri})
	return part, fmt.Sprintf("%s: %s", name, uri)
}

func embedded(c *wireContent) (agui.Part, string) {
	r := c.Resource
	uri, mime := word(r.URI), word(r.MIMEType)
	if given(r.Blob) {
		return media("", r.Blob, mime, uri)
	}
	part, said := textPart(word(r.Text))
	part.Metadata = encoded(map[string]string{"uri": uri, "mimeType": mime})
	return part, said
}

// media returns data as a part. Without a kind it follows from the type, and without a type from the data.
func media(kind string, raw json.RawMessage, mime, uri string) (agui.Part, string) {
	data, declared, ok := decoded(word(raw))
	mime = cmp.Or(mime, declared)
	if mime == "" && ok {
		mime, _, _ = strings.Cut(http.DetectContentType(data), ";")
	}
	kind = cmp.Or(kind, kindOf(mime))
	what := strings.Join(slices.DeleteFunc([]string{kind, mime, uri}, func(s string) bool { return s == "" }), " ")
	if !ok {
		return textPart(fmt.Sprintf("[%s that cannot be read]", what))
	}
	part := agui.Part{Type: kind, Source: &agui.Source{Type: "data", Value: base64.StdEncoding.EncodeToString(data), MimeType: mime}}
	if uri != "" {
		part.Metadata = encoded(map[string]string{"uri": uri})
	}
	return part, fmt.Sprintf("[%s, %d bytes]", what, len(data))
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
