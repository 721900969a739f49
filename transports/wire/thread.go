package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Thread is a thread: one conversation.
type Thread struct {
	ThreadID       string          `json:"threadId"`               // The thread's name, as chosen by its client.
	ConversationID string          `json:"conversationId"`         // Baton's own id of the thread, a UUID.
	User           string          `json:"user"`                   // The owner of the thread.
	Title          *string         `json:"title"`                  // Null if the thread has no title.
	Metadata       json.RawMessage `json:"metadata" type:"object"` // Metadata that clients gave the thread.
	Archived       bool            `json:"archived"`               // Whether the thread is archived. Front ends show archived threads apart.
	RunID          *string         `json:"runId"`                  // The running or waiting run, else the latest one. Null if the thread has had no run.
	Agent          *string         `json:"agent"`                  // The agent or workflow of that run.
	Status         *runtime.Status `json:"status"`                 // The status of that run.
	Asked          *string         `json:"asked"`                  // The first 200 characters of that run's input. Null without input, or if it exceeds 64 KiB.
	CreatedAt      time.Time       `json:"createdAt"`              // Creation time.
	UpdatedAt      time.Time       `json:"updatedAt"`              // Time of the latest activity.
}

// NewThread returns a thread as lists show it.
func NewThread(t *runtime.ListedThread) Thread {
	th := Thread{
		ThreadID: t.ID, ConversationID: t.ConversationID, User: t.User, Title: orNull(t.Title), Metadata: t.Metadata, Archived: t.Archived,
		RunID: orNull(t.RunID), Agent: orNull(t.Agent), Asked: orNull(t.Asked), CreatedAt: stamp(t.CreatedAt), UpdatedAt: stamp(t.UpdatedAt),
	}
	if th.Metadata == nil {
		th.Metadata = json.RawMessage("{}")
	}
	if t.Status != "" {
		th.Status = &t.Status
	}
	return th
}

// ThreadMessages are messages of a thread, and its state.
type ThreadMessages struct {
	ThreadID    string            `json:"threadId"`            // The thread's name, as chosen by its client.
	Messages    []json.RawMessage `json:"messages"`            // The messages, in the thread's order.
	State       json.RawMessage   `json:"state" type:"object"` // The thread's state.
	LastEventID int64             `json:"lastEventId"`         // Id of the last event included. Pass it as `after_event_id` to continue with a stream.
}

// NewThreadMessages returns a snapshot for clients of that AG-UI projection.
func NewThreadMessages(th *runtime.Thread, s *runtime.Snapshot, p agui.Projection) ThreadMessages {
	answer := ThreadMessages{ThreadID: th.ID, Messages: []json.RawMessage{}, State: s.State, LastEventID: s.After}
	if answer.State == nil {
		answer.State = json.RawMessage("{}")
	}
	shown, _ := agui.Project(agui.MessagesSnapshot{Messages: s.Messages}, p).(agui.MessagesSnapshot)
	for i := range shown.Messages {
		answer.Messages = append(answer.Messages, shown.Messages[i].AppendJSON(nil, p))
	}
	return answer
}

// JSON returns the answer as JSON. Its messages are written as they are: encoding/json would check and copy each again.
func (t *ThreadMessages) JSON() []byte {
	dst := agui.AppendString([]byte(`{"threadId":`), t.ThreadID)
	dst = append(dst, `,"messages":[`...)
	for i, m := range t.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m...)
	}
	dst = append(append(dst, `],"state":`...), t.State...)
	return append(strconv.AppendInt(append(dst, `,"lastEventId":`...), t.LastEventID, 10), '}')
}

// ThreadsAfter has a filter begin where a cursor leads to in that list.
func ThreadsAfter(l List, cursor string, f *runtime.ThreadFilter) error {
	at, err := l.positions(cursor, 2)
	if err == nil && cursor != "" {
		f.BeforeTime, f.BeforeKey = time.UnixMilli(at[0]), at[1]
	}
	return err
}

// ThreadsCursor returns the cursor that leads on behind the thread of that key with the latest activity at that
// time.
func ThreadsCursor(l List, at time.Time, key int64) string {
	return l.Cursor(at.UnixMilli(), key)
}

// NewThreads makes a page of a list of threads, which were read with the filter of ThreadsAfter.
func NewThreads(l List, read runtime.Page[runtime.ListedThread]) Page[Thread] {
	return newPage(read, NewThread, func(t *runtime.ListedThread) string {
		if read.Behind != 0 {
			return ThreadsCursor(l, read.BehindAt, read.Behind)
		}
		return ThreadsCursor(l, t.UpdatedAt, t.Key)
	})
}

// DecodeThreadPatch reads the body of a request to change a thread; named is the title's member. A null member is removed, an
// absent one unchanged.
func DecodeThreadPatch(body []byte, named string) (runtime.ThreadPatch, error) {
	r := read(body)
	var p runtime.ThreadPatch
	if _, there := r.values[named]; there {
		title := r.text(named)
		p.Title = &title
	}
	if val, there := r.values["metadata"]; there {
		r.object("metadata")
		val = bytes.Clone(val)
		p.Metadata = &val
	}
	if _, there := r.values["archived"]; there {
		p.Archived = new(bool)
		r.into(p.Archived, "archived", "true or false")
	}
	return p, r.err
}
