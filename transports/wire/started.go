package wire

import (
	"net/url"
	"strconv"

	"github.com/batonrun/baton/runtime"
)

// Started is the answer to a request for a run.
type Started struct {
	ThreadID       string         `json:"threadId"`
	RunID          string         `json:"runId"`
	ConversationID string         `json:"conversationId"`
	Status         runtime.Status `json:"status"`
	EventsURL      string         `json:"eventsUrl"` // of the thread's events from the request on
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
