package auth

import (
	"net/url"
	"strings"
)

// Shown is a path as log lines have it, or an origin: without what a client has put behind it in place of a query, which may be a ticket.
func Shown(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if end := strings.IndexAny(path, "?&;="); end >= 0 {
		return path[:end] + "..."
	}
	return path
}
