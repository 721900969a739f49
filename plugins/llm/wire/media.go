package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // for DecodeConfig
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// Media is an image or a file of a message: its bytes or its URL.
type Media struct {
	Type   string // media type such as image/png; empty for an image by its URL
	Data   []byte
	URL    string
	Detail string // how closely an image is looked at; "" for the provider's default
}

// Image reports whether m is an image.
func (m *Media) Image() bool { return m.URL != "" || isImage(m.Type) }

// Base64 returns the base64 encoding of m's bytes.
func (m *Media) Base64() string { return base64.StdEncoding.EncodeToString(m.Data) }

// Reference returns m's URL, or a data: URL with its bytes.
func (m *Media) Reference() string {
	if m.URL != "" {
		return m.URL
	}
	return "data:" + m.Type + ";base64," + m.Base64()
}

// key identifies m.
func (m *Media) key() key { return keyOf("media", []byte(m.URL), []byte(m.Type), m.Data) }

// describe returns a text in m's place, with the reason.
func (m *Media) describe(why string) string {
	what := "a file"
	for prefix, name := range map[string]string{"image/": "an image", "audio/": "an audio recording", "video/": "a video"} {
		if strings.HasPrefix(m.Type, prefix) || m.URL != "" && prefix == "image/" {
			what = name
		}
	}
	switch {
	case m.URL != "":
		return fmt.Sprintf("[%s at %.300s that %s]", what, m.URL, why)
	case m.Type == "":
		return fmt.Sprintf("[%s (%d bytes) that %s]", what, len(m.Data), why)
	}
	return fmt.Sprintf("[%s (%s, %d bytes) that %s]", what, m.Type, len(m.Data), why)
}

// maxDrawing limits an SVG image that is given as text, in bytes.
const maxDrawing = 64 << 10

// media converts an image or a file. One that the model does not accept becomes a text that says so.
func (a *arranger) media(p llms.ContentPart) (Part, bool) {
	m, ok := mediaOf(p)
	if !ok {
		return Part{}, false
	}
	drawing := m.Type == "image/svg+xml"
	if m.URL == "" && agui.Textual(m.Type) && len(m.Data) > 0 && (!drawing || len(m.Data) <= maxDrawing) {
		text := strings.ToValidUTF8(string(m.Data), "\uFFFD")
		if drawing {
			text = "[an image (image/svg+xml) as text:]\n" + text
		}
		return Part{Text: text}, strings.TrimSpace(text) != ""
	}
	if why := a.refuses(m); why != "" {
		return Part{Text: m.describe(why)}, true
	}
	return Part{Media: m}, true
}

// refuses returns why the model does not get m, "" if it does.
func (a *arranger) refuses(m *Media) string {
	switch {
	case m.URL == "" && len(m.Data) == 0:
		return "is empty"
	case broken(m):
		return "is broken"
	case len(a.refused) > 0 && a.refused.has(m.key()):
		return "the model has refused"
	case !a.caps.Takes(m.Type, m.URL != ""):
		return "the model does not take"
	}
	return ""
}

// mediaOf returns the image or file in a part of a message, with the type that its bytes have.
func mediaOf(p llms.ContentPart) (m *Media, ok bool) {
	switch p := p.(type) {
	case llms.BinaryContent:
		m = &Media{Type: p.MIMEType, Data: p.Data}
	case llms.ImageURLContent:
		kind, data, ok := agui.DataURL(p.URL)
		if !ok {
			return &Media{URL: p.URL, Detail: p.Detail}, true
		}
		m = &Media{Type: kind, Data: data, Detail: p.Detail}
	default:
		return nil, false
	}
	m.Type, _, _ = strings.Cut(strings.ToLower(m.Type), ";")
	m.Type = strings.TrimSpace(m.Type)
	if kind := sniff(m.Data); kind != "" && (m.Type == "" || m.Type == "application/octet-stream" || isImage(m.Type)) {
		m.Type = kind
	}
	return m, true
}

// sniff returns the media type that data begins like, if it is one that providers accept, or "".
func sniff(data []byte) string {
	switch kind := http.DetectContentType(data); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return kind
	}
	return ""
}

// broken reports whether m's bytes do not match its type. It knows the types that all providers accept.
func broken(m *Media) bool {
	switch m.Type {
	case "image/png", "image/jpeg", "image/gif":
	case "image/webp", "application/pdf":
		return m.URL == "" && sniff(m.Data) != m.Type
	default:
		return false
	}
	_, _, err := image.DecodeConfig(bytes.NewReader(m.Data))
	var oddPNG png.UnsupportedError
	var oddJPEG jpeg.UnsupportedError
	return err != nil && !errors.As(err, &oddPNG) && !errors.As(err, &oddJPEG)
}
