package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Part is a part of a message's content.
type Part struct {
	Type     string          `json:"type"` // `text`, `image`, `audio`, `video` or `document`.
	ID       string          `json:"id,omitempty"`
	Text     string          `json:"text,omitempty"`   // With `text`: the text.
	Source   *Source         `json:"source,omitempty"` // With the other types: where the bytes are.
	Metadata json.RawMessage `json:"metadata,omitempty" type:"object"`
}

// Source is the place of the bytes of a part.
type Source struct {
	Type     string `json:"type" enum:"data,url,file"` // The form of `value`.
	Value    string `json:"value"`                     // Base64 data, a URL, or a provider's file handle.
	MimeType string `json:"mimeType,omitempty"`
	Provider string `json:"provider,omitempty"` // With `file`: the provider of the handle.
}

// ContentParts returns m's content as parts: Parts decoded, or Content as one text part. It skips unreadable parts. An activity
// message has none.
func (m Message) ContentParts() []Part {
	if m.Role == RoleActivity {
		return nil
	}
	if m.Parts != nil {
		return readParts(m.Parts)
	}
	if m.Content == "" {
		return nil
	}
	return []Part{{Type: "text", Text: m.Content}}
}

// Text returns the text of m's content: Content, or its text parts joined by line breaks.
func (m Message) Text() string {
	if m.Parts == nil || m.Role == RoleActivity {
		return m.Content
	}
	return partsText(m.Parts)
}

func partsText(raw json.RawMessage) string {
	var text []string
	for _, p := range readParts(raw) {
		if p.Type == "text" {
			text = append(text, p.Text)
		}
	}
	return strings.Join(text, "\n")
}

func readParts(raw json.RawMessage) (list []Part) {
	_ = eachElement(raw, func(val []byte) error {
		var p struct {
			Part
			ImageURL json.RawMessage `json:"image_url"` // OpenAI's form of an image: an object with its url, or the url
		}
		if json.Unmarshal(val, &p) != nil {
			return nil
		}
		if p.ImageURL != nil && p.Source == nil {
			var image struct{ URL string }
			if json.Unmarshal(p.ImageURL, &image) != nil {
				_ = json.Unmarshal(p.ImageURL, &image.URL)
			}
			p.Type, p.Source = "image", &Source{Type: "url", Value: image.URL}
		}
		list = append(list, p.Part)
		return nil
	})
	return list
}

// UnknownPart returns the index of the first part of m's content whose type does not exist, -1 if there is none.
func (m Message) UnknownPart() int {
	if m.Parts == nil || m.Role == RoleActivity {
		return -1
	}
	i, found := 0, -1
	_ = eachElement(m.Parts, func(val []byte) error { // it was checked when it was decoded
		var typ string
		_ = setString(&typ, "type", lookup(val, "type"))
		switch typ {
		case "text", "image", "audio", "video", "document", "binary":
		default:
			if found < 0 && lookup(val, "image_url") == nil { // OpenAI's form of an image
				found = i
			}
		}
		i++
		return nil
	})
	return found
}

// decodeParts checks an array of content parts and returns it compacted, with parts of dialect 0.0's
// type binary in their 1.0 form.
func decodeParts(val []byte) (json.RawMessage, error) {
	out := []byte{'['}
	i := 0
	err := eachElement(val, func(val []byte) error {
		part, err := decodePart(val)
		if err != nil {
			return within(fmt.Sprintf("content[%d]", i), err)
		}
		out = append(appendComma(out), part...)
		i++
		return nil
	})
	return append(out, ']'), err
}

// ParseParts returns an array of content parts in the form of messages and results, nil for none. It fails if raw is not
// one.
func ParseParts(raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case isNull(raw):
		return nil, nil
	case !json.Valid(raw):
		return nil, errors.New("content parts are not valid JSON")
	}
	return decodeParts(raw)
}

func decodePart(val []byte) (json.RawMessage, error) {
	if val[0] != '{' {
		return nil, errors.New("must be an object")
	}
	var typ string
	if err := setString(&typ, "type", lookup(val, "type")); err != nil {
		return nil, err
	}
	switch typ {
	case "":
		return nil, within("type", errors.New("is missing"))
	case "binary":
		var b binaryPart
		if err := decodeStruct(&b, val); err != nil {
			return nil, err
		}
		return b.modern(), nil
	case "text":
		var text string
		if err := setString(&text, "text", lookup(val, "text")); err != nil {
			return nil, err
		}
	}
	return compact(val), nil
}

// binaryPart is dialect 0.0's only media part, and the only one that the schema of the projection Public admits.
type binaryPart struct {
	MimeType string `json:"mimeType"`
	ID       string `json:"id"`
	URL      string `json:"url"`
	Data     string `json:"data"`
	Filename string `json:"filename"`
}

// modern returns the equivalent 1.0 part.
func (b *binaryPart) modern() json.RawMessage {
	kind := "document"
	for _, k := range []string{"image", "audio", "video"} {
		if strings.HasPrefix(b.MimeType, k+"/") {
			kind = k
		}
	}
	source, value := "file", b.ID
	switch {
	case b.Data != "":
		source, value = "data", b.Data
	case b.URL != "":
		source, value = "url", b.URL
	}
	dst := appendStr([]byte{'{'}, "type", kind)
	dst = append(appendKey(dst, "source"), '{')
	dst = appendStr(dst, "type", source)
	dst = appendStr(dst, "value", value)
	dst = appendStr(dst, "mimeType", or(b.MimeType, octetStream))
	dst = append(dst, '}')
	if b.Filename != "" {
		dst = append(appendKey(dst, "metadata"), '{')
		dst = append(appendStr(dst, "filename", b.Filename), '}')
	}
	return append(dst, '}')
}

const octetStream = "application/octet-stream"

// appendBinary appends media part p in the form of dialect 0.0's type binary.
func appendBinary(dst []byte, p Part) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "type", "binary")
	dst = appendStr(dst, "mimeType", or(p.Source.MimeType, octetStream))
	switch p.Source.Type {
	case "data":
		dst = appendStr(dst, "data", p.Source.Value)
	case "url":
		dst = appendStr(dst, "url", p.Source.Value)
	default:
		dst = appendStr(dst, "id", p.Source.Value)
	}
	var name string
	if !isNull(p.Metadata) && setString(&name, "filename", lookup(p.Metadata, "filename")) == nil {
		dst = appendOptStr(dst, "filename", name)
	}
	return append(dst, '}')
}
