package agui

import "strconv"

// AppendSSE appends ev as one server-sent event in projection p: its id line unless id is 0, its type and its JSON. It appends
// nothing if p omits ev.
func AppendSSE(dst []byte, id int64, ev Event, p Projection) []byte {
	ev = Project(ev, p)
	if ev == nil {
		return dst
	}
	return append(ev.AppendJSON(AppendSSEHead(dst, id, ev.Type()), p), SSETail...)
}

// AppendSSEHead appends the text before the data of a server-sent event: its id line unless id is 0, and its type.
func AppendSSEHead(dst []byte, id int64, t Type) []byte {
	if id != 0 {
		dst = append(dst, "id: "...)
		dst = strconv.AppendInt(dst, id, 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, t...)
	return append(dst, "\ndata: "...)
}

// SSETail is the text after the data of a server-sent event.
const SSETail = "\n\n"
