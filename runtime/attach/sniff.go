package attach

import (
	"mime"
	"net/http"
	"path"
	"slices"
)

// sniffed is the number of bytes used to detect a file's type.
const sniffed = 512

// refined maps a detected type to the more specific types that a user may claim for it. None of them runs in a browser.
var refined = map[string][]string{
	"text/plain": {"text/csv", "text/markdown", "text/tab-separated-values", "text/calendar", "application/json", "application/yaml"},
	"application/zip": {
		"application/epub+zip",
		"application/vnd.oasis.opendocument.presentation", "application/vnd.oasis.opendocument.spreadsheet",
		"application/vnd.oasis.opendocument.text",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	},
}

// typeOf detects a file's type from its first bytes. The user's claim decides between types that the bytes do not
// distinguish.
func typeOf(head []byte, said string) string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(head)) // DetectContentType is always valid
	said, _, err := mime.ParseMediaType(said)
	if err == nil && slices.Contains(refined[kind], said) {
		return said
	}
	return kind
}

// admitted reports whether a type matches a pattern such as image/*.
func admitted(kind string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, kind)
		return err == nil && ok || p == "*" || p == "*/*"
	})
}

// endings are the path extensions of types, for readers that rely on extensions.
var endings = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "application/pdf": ".pdf",
	"text/plain": ".txt", "text/csv": ".csv", "text/markdown": ".md", "application/json": ".json",
}

// Shown reports whether browsers may display a type inline.
func Shown(kind string) bool {
	return kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp"
}
