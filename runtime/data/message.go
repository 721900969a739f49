package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// MessageState is the state of a message.
type MessageState string

// The states of a message.
const (
	MessageQueued   MessageState = "queued"   // accepted, not yet in the log
	MessageConsumed MessageState = "consumed" // in the log
	MessageHidden   MessageState = "hidden"   // not in prompts and history, whether in the log or not
)

// Message is a message of a thread. A row replaces the one with the same ThreadKey and Message.ID.
type Message struct {
	Key            int64 // in the order of insertion; filled by reads
	ThreadKey      int64
	RunKey         int64
	Seq            int64 // in log order; 0 while queued
	EventID        int64 // of the event that completed it; 0 while queued
	State          MessageState
	ContextItemIDs []string
	Day            time.Time // the midnight of the UTC day in whose history it is listed; zero for none
	CreatedAt      time.Time // zero for the time of the inserting transaction; later rows do not change it
	agui.Message
	Encoded []byte `json:"-"` // the stored form of Message, nil until Stored is called; a change of Message must reset it
	Hash    int64  `json:"-"` // the ContentHash of Message; filled by Stored, and by reads
}

// Stored returns the stored form of the message, empty if one of its raw members is no JSON. It encodes the message once: call it before
// the transaction that writes a large one.
func (m *Message) Stored() []byte {
	if m.Encoded == nil {
		m.Encoded, m.Hash = m.AppendJSON(nil, agui.Stored), ContentHash(&m.Message)
		raws := []json.RawMessage{m.Parts, m.Metadata, m.Extra}
		for i := range m.ToolCalls {
			raws = append(raws, m.ToolCalls[i].Metadata)
		}
		for _, raw := range raws { // texts are valid as they are encoded
			if raw != nil && !json.Valid(raw) {
				m.Encoded = m.Encoded[:0]
			}
		}
	}
	return m.Encoded
}

// MessageHead is a message without its text.
type MessageHead struct {
	RunKey     int64
	Seq        int64
	State      MessageState
	ID         string
	ToolCallID string
	Hash       int64 // the ContentHash of the message
}

// Instructs reports whether m is an instruction for models: a message of the role system or developer that a client sent. The log
// records the name of a worker that wrote one in its metadata.
func Instructs(m *agui.Message) bool {
	var said struct {
		Agent string `json:"agent"`
	}
	return m.Role == agui.RoleDeveloper || m.Role == agui.RoleSystem && (json.Unmarshal(m.Metadata, &said) != nil || said.Agent == "")
}

// ContentHash returns a hash of a user's message, 0 for other messages. It covers the text, apart from surrounding space, and the
// attached sources, but no ids and metadata.
func ContentHash(m *agui.Message) int64 {
	if m.Role != agui.RoleUser {
		return 0
	}
	h, part := sha256.New(), make([]byte, 4<<10)
	add := func(texts ...string) {
		for _, text := range texts {
			_, _ = fmt.Fprintf(h, "%d ", len(text))
			for len(text) > 0 { // in parts, because a conversion to bytes copies
				n := copy(part, text)
				_, _ = h.Write(part[:n])
				text = text[n:]
			}
		}
	}
	add(strings.TrimSpace(m.Text()))
	if m.Parts != nil {
		for _, p := range m.ContentParts() {
			if s := p.Source; s != nil {
				add(s.Type, s.Value, s.MimeType, s.Provider)
			}
		}
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil)) | 1) //nolint:gosec // all bits serve
}

// Hide hides messages of a thread, or of one of its runs, from prompts and history: those that one of the last four fields selects.
// Queued with FromSeq 1 selects all messages.
type Hide struct {
	ThreadKey int64
	RunKey    int64  // of this run only, 0 for all
	Queued    bool   // queued messages
	FromEvent int64  // messages that an event with at least this id has completed; 0 for none
	FromSeq   int64  // messages with at least this seq; 0 for none
	ID        string // the message of this id, instead of all other fields but ThreadKey; empty for none
}
