package wire

import (
	"cmp"
	"strconv"

	"github.com/batonrun/baton/runtime"
)

// asked has the headers and the query of a request: a *fiber.Ctx.
type asked interface {
	Get(key string, otherwise ...string) string
	Query(key string, otherwise ...string) string
}

// LastEventID returns the last id that a reconnecting client has: EventSource sends a header, and its polyfills, which reuse the
// URL, send the query. Without one it is empty.
func LastEventID(req asked) string { return cmp.Or(req.Get("Last-Event-ID"), req.Query("lastEventId")) }

// EventID reads a cursor of a log: the id of an event, or latest for the log's end.
func EventID(s string) (int64, error) {
	if s == "latest" {
		return runtime.Latest, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, Refuse("invalid_cursor", "A cursor is the id of an event, or latest")
	}
	return int64(n), nil
}
