package stream

import (
	"bytes"
	"errors"
)

// head finds the ends of requests' heads in a connection's input: each is an empty line.
type head struct {
	part int  // of the current line so far: blank, returned (it ends with a carriage return) or text
	more bool // the current line has more than a carriage return
	bare bool // a line ended without a carriage return, which other parsers may not accept as an end
}

const (
	blank = iota
	returned
	text
)

// errBare ends a connection on which a line of a head ended with a line feed alone.
var errBare = errors.New("a line of a head ends without a carriage return")

// cut returns the length of p up to and with the first empty or bare line, or len(p) if there is none. The next call must
// continue there.
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
