package wire

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Thread is a thread as lists show it.
type Thread struct {
	ThreadID       string          `json:"threadId"`
	ConversationID string          `json:"conversationId"`
	User           string          `json:"user"`
	Title          *string         `json:"title"`
	Metadata       json.RawMessage `json:"metadata"` // an object
	Archived       bool            `json:"archived"` // put away
	// The running or waiting run, else the latest; null for none.
	RunID     *string         `json:"runId"`
	Agent     *string         `json:"agent"` // the agent's or the workflow's name
	Status    *runtime.Status `json:"status"`
	Asked     *string         `json:"asked"` // the beginning of its input
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"` // of the latest activity
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

// ThreadMessages are the current messages of a thread, or a page of earlier ones.
type ThreadMessages struct {
	ThreadID    string            `json:"threadId"`
	Messages    []json.RawMessage `json:"messages"`
	State       json.RawMessage   `json:"state"`       // an object
	LastEventID int64             `json:"lastEventId"` // the last event that is in it: reading on begins here
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
