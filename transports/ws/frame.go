package ws

import (
	"encoding/binary"
	"strconv"

	"github.com/batonrun/baton/transports"
)

// ping is a frame that asks the client for a sign of life.
var ping = []byte{0x89, 0}

// room is how long the header of a frame may be, in bytes.
const room = 10

// text writes a text frame that holds label, body and end. The first room bytes of label are not part of it: they
// take the header.
func text(w *transports.Stream, label, body []byte, end string) {
	n := len(label) - room + len(body) + len(end)
	head := label[:room]
	switch { // a server masks nothing
	case n < 126:
		head = append(head[:room-2], 0x81, byte(n))[room-2:]
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head[:room-4], 0x81, 126), uint16(n))[room-4:]
	default:
		head = binary.BigEndian.AppendUint64(append(head[:0], 0x81, 127), uint64(n))
	}
	w.Fit(len(head) + n)
	_, _ = w.Write(label[room-len(head):])
	_, _ = w.Write(body)
	_, _ = w.WriteString(end)
}

// bare writes a JSON text alone.
func bare(w *transports.Stream, _ int64, event []byte) {
	var buf [room]byte
	text(w, buf[:], event, "")
}

// numbered writes an event beside its id.
func numbered(w *transports.Stream, id int64, event []byte) { labelled(w, "{", id, event) }

// named returns the framing of a thread's events on a socket with many.
func named(threadID string) transports.Framing {
	before := `{"op":"event","threadId":` + string(encode(threadID)) + `,`
	return func(w *transports.Stream, id int64, event []byte) { labelled(w, before, id, event) }
}

// labelled writes an event in an object that begins with the members before.
func labelled(w *transports.Stream, before string, id int64, event []byte) {
	var buf [128]byte
	label := append(buf[:room], before...)
	if id != 0 {
		label = append(strconv.AppendInt(append(label, `"id":`...), id, 10), ',')
	}
	text(w, append(label, `"event":`...), event, "}")
}
