package agui

import "strconv"

// AppendSSE appends ev as one server-sent event in projection p: its id line unless id is 0, its type
// and its JSON. It appends nothing when p leaves ev out.
func AppendSSE(dst []byte, id int64, ev Event, p Projection) []byte {
	ev = Project(ev, p)
	if ev == nil {
		return dst
	}
	if id != 0 {
		dst = append(dst, "id: "...)
		dst = strconv.AppendInt(dst, id, 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, ev.Type()...)
	dst = append(dst, "\ndata: "...)
	dst = ev.AppendJSON(dst, p)
	return append(dst, '\n', '\n')
}
