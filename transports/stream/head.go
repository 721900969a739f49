package stream

import "bytes"

// head finds the ends of requests' heads in what a connection brings: each is an empty line.
type head struct {
	part int // of the line that is read: nothing, a carriage return, or more
}

const (
	blank = iota
	returned
	text
)

// cut returns how much of p there is up to the first empty line and with it, all if there is none. What it is told next must be what
// follows that.
func (h *head) cut(p []byte) int {
	for i := 0; i < len(p); {
		n := bytes.IndexByte(p[i:], '\n')
		line := p[i:]
		if n >= 0 {
			line = p[i : i+n]
		}
		switch {
		case len(line) == 0:
		case h.part == blank && len(line) == 1 && line[0] == '\r':
			h.part = returned
		default:
			h.part = text
		}
		if n < 0 {
			break
		}
		i += n + 1
		empty := h.part != text
		h.part = blank
		if empty {
			return i
		}
	}
	return len(p)
}
