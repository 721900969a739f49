package stream

import (
	"bytes"
	"errors"
)

// head finds the ends of requests' heads in what a connection brings: each is an empty line.
type head struct {
	part int  // of the line that is read: nothing, a carriage return at its end as far as it goes, or anything else
	more bool // that line has more than a carriage return
	bare bool // a line has ended without one: what else reads the head may not take that for an end
}

const (
	blank = iota
	returned
	text
)

// errBare ends a connection on which a line of a head has ended with a line feed alone.
var errBare = errors.New("a line of a head ends without a carriage return")

// cut returns how much of p there is up to the first empty line, or the first that is bare, and with it, all if there is none. What it
// is told next must be what follows that.
func (h *head) cut(p []byte) int {
	for i := 0; i < len(p); {
		n := bytes.IndexByte(p[i:], '\n')
		line := p[i:]
		if n >= 0 {
			line = p[i : i+n]
		}
		if len(line) > 0 {
			h.more = h.more || h.part != blank || len(line) > 1
			if h.part = text; line[len(line)-1] == '\r' {
				h.part = returned
			} else {
				h.more = true
			}
		}
		if n < 0 {
			break
		}
		i += n + 1
		empty := !h.more
		h.bare = h.part != returned
		h.part, h.more = blank, false
		if empty || h.bare {
			return i
		}
	}
	return len(p)
}
