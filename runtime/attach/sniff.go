package attach

import (
	"mime"
	"net/http"
	"path"
	"slices"
)

// sniffed is how many bytes the type of a file is told from.
const sniffed = 512

// refined are the types that a file may be said to have whose bytes tell one that is more general. None of them runs in a browser.
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

// typeOf is a file's type by its first bytes. What the user says it is counts where the bytes do not tell it apart.
func typeOf(head []byte, said string) string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(head)) // which always has one
	said, _, err := mime.ParseMediaType(said)
	if err == nil && slices.Contains(refined[kind], said) {
		return said
	}
	return kind
}

// admitted reports whether a type fits one of some patterns, such as image/*.
func admitted(kind string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, kind)
		return err == nil && ok || p == "*" || p == "*/*"
	})
}

// endings are how the paths of files of a type end, for those who tell types by that.
var endings = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "application/pdf": ".pdf",
	"text/plain": ".txt", "text/csv": ".csv", "text/markdown": ".md", "application/json": ".json",
}

// Shown reports whether browsers may show a file of the type where it is, instead of saving it.
func Shown(kind string) bool {
	return kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp"
}
