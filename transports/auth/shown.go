package auth

import (
	"net/url"
	"strings"
)

// Shown is a path or an origin for the log: without a query, which may contain a ticket.
func Shown(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	if end := strings.IndexAny(path, "?&;="); end >= 0 {
		return path[:end] + "..."
	}
	return path
}
