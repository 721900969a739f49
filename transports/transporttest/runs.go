package transporttest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Started is the answer to a request for a run.
type Started struct{ ThreadID, RunID, ConversationID, Status, EventsURL string }

// Start starts a run as JSON, by a route that Config.Mount must have.
func (s *Server) Start(body string, header ...string) (a Started) {
	s.Helper()
	r := s.Do("POST", "/api/v1/agent/runs", body, header...)
	if text := r.All(); r.StatusCode != http.StatusAccepted || json.Unmarshal([]byte(text), &a) != nil {
		s.Fatalf("got %d %s", r.StatusCode, text)
	}
	return a
}

// Script starts a run of the scripted agent on a thread.
func (s *Server) Script(thread, ops string) Started {
	s.Helper()
	return s.Start(Scripted(thread, ops))
}

// Scripted is the body of a request for a run of the scripted agent.
func Scripted(thread, ops string) string {
	content, _ := json.Marshal(`{"do": [` + ops + `]}`)
	return fmt.Sprintf(`{"agent": "scripted", "threadId": %q, "content": %s}`, thread, content)
}
