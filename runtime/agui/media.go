package agui

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Textual reports whether files of a media type are texts.
func Textual(mediaType string) bool {
	switch mediaType {
	case "application/json", "application/yaml", "application/xml", "image/svg+xml":
		return true
	}
	return strings.HasPrefix(mediaType, "text/")
}

// DecodeBase64 decodes base64 in any of its forms: standard or for URLs, with or without padding and white space.
func DecodeBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/", "=", "", " ", "", "\n", "", "\r", "", "\t", "").Replace(s)
	return base64.RawStdEncoding.DecodeString(s)
}

// DataURL returns the media type and the bytes of a data: URL. ok is false for other URLs; one that cannot be read has no bytes.
func DataURL(s string) (mediaType string, data []byte, ok bool) {
	scheme, rest, _ := strings.Cut(s, ":")
	if !strings.EqualFold(scheme, "data") {
		return "", nil, false
	}
	head, body, _ := strings.Cut(rest, ",")
	mediaType, coding, _ := strings.Cut(head, ";")
	if plain, err := url.PathUnescape(body); err == nil {
		body = plain
	}
	if !strings.Contains(strings.ToLower(coding), "base64") {
		return mediaType, []byte(body), true
	}
	data, _ = DecodeBase64(body)
	return mediaType, data, true
}

// Text returns the source as a reader of texts has it: bytes that are a text, "" for other bytes, and otherwise the value.
func (s *Source) Text() string {
	mediaType, data, ok := DataURL(s.Value)
	if !ok && s.Type == "data" {
		decoded, err := DecodeBase64(s.Value)
		mediaType, data, ok = s.MimeType, decoded, err == nil
	}
	if !ok {
		return s.Value
	}
	return TextOf(mediaType, data)
}

// MediaTypes returns the media types that the source names: its member, and that of its data: URL.
func (s *Source) MediaTypes() (all []string) {
	if mediaType, _, ok := DataURL(s.Value); ok && mediaType != "" {
		all = append(all, mediaType)
	}
	if s.MimeType != "" {
		all = append(all, s.MimeType)
	}
	return all
}

// TextOf returns the text of a file with a media type, "" for a file that is no text.
func TextOf(mediaType string, data []byte) string {
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	if !Textual(strings.TrimSpace(mediaType)) && (!utf8.Valid(data) || strings.IndexByte(string(data), 0) >= 0) {
		return ""
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}
