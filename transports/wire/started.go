package wire

import (
	"net/url"
	"strconv"

	"github.com/batonrun/baton/runtime"
)

// Started is an accepted run.
type Started struct {
	ThreadID       string         `json:"threadId"`       // The thread's name.
	RunID          string         `json:"runId"`          // The run's name.
	ConversationID string         `json:"conversationId"` // Baton's own id of the thread, a UUID.
	Status         runtime.Status `json:"status"`         // QUEUED while another run of the thread goes first.
	EventsURL      string         `json:"eventsUrl"`      // The event stream of the thread, starting at this request.
}

// NewStarted returns the answer for an accepted run.
func NewStarted(s runtime.Started) Started {
	thread := s.ThreadID
	if thread == "." || thread == ".." {
		thread = s.ConversationID // a path cannot hold these, encoded or not
	}
	return Started{
		ThreadID: s.ThreadID, RunID: s.RunID, ConversationID: s.ConversationID, Status: s.Status,
		EventsURL: EventsURL(thread, s.After),
	}
}

// EventsURL is where a thread's events behind the one with the id after are read.
func EventsURL(threadID string, after int64) string {
	return "/api/v1/agent/runs/" + url.PathEscape(threadID) + "/events?after_event_id=" + strconv.FormatInt(after, 10)
}
