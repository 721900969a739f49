package fanout

import "github.com/batonrun/baton/runtime/agui"

// Framing is how an event is written: its JSON, which all framings share, between a head and a tail. Streams of equal
// framings may be written the same bytes, so that its values must be comparable.
type Framing interface {
	// Around appends the text before an event of n bytes with the id, 0 for none, and returns it with the text after the
	// event.
	Around(dst []byte, id int64, t agui.Type, n int) (head []byte, tail string)
}

// around is f.Around, or that of server-sent events when f is nil.
func around(f Framing, dst []byte, id int64, t agui.Type, n int) (head []byte, tail string) {
	if f == nil {
		return agui.AppendSSEHead(dst, id, t), agui.SSETail
	}
	return f.Around(dst, id, t, n)
}

// Frame returns an event that is in no log as f, nil for that of server-sent events, writes it in projection p.
func Frame(f Framing, ev agui.Event, p agui.Projection) []byte {
	event := ev.AppendJSON(nil, p)
	frame, tail := around(f, nil, 0, ev.Type(), len(event))
	return append(append(frame, event...), tail...)
}
