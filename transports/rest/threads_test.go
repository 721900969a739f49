package rest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const threads = "/api/v1/threads"

type thread struct {
	ThreadID, ConversationID string
	Title, RunID, Agent      *string
	Status                   *string
	Metadata                 map[string]any
	Archived                 bool
	CreatedAt, UpdatedAt     time.Time
}

// echo runs an echo on a thread to its end.
func (s *server) echo(thread string) {
	s.Helper()
	s.await(s.start(map[string]any{"agent": "echo", "threadId": thread, "content": "hi"}).RunID, "COMPLETED")
}

func threadIDs(list []thread) (ids []string) {
	for _, th := range list {
		ids = append(ids, th.ThreadID)
	}
	return ids
}

func TestThreadIsPatched(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.echo("a/b")
	at := threads + "/" + url.PathEscape("a/b")
	listed := as[page[thread]](s.do("GET", threads, nil), 200).Items[0]
	if listed.Title != nil || listed.Metadata == nil || *listed.Agent != "echo" || *listed.Status != "COMPLETED" || listed.RunID == nil {
		t.Errorf("%+v", listed)
	}
	title := "My chat"
	for _, step := range []struct {
		body     string
		title    *string
		metadata map[string]any
		archived bool
	}{
		{`{}`, nil, map[string]any{}, false},
		{`{"title": "My chat", "unknown": 1}`, &title, map[string]any{}, false},
		{`{"metadata": {"a": [1, null]}}`, &title, map[string]any{"a": []any{1.0, nil}}, false},
		{`{"metadata": {"b": "x"}, "archived": true}`, &title, map[string]any{"b": "x"}, true},
		{`{"title": null}`, nil, map[string]any{"b": "x"}, true},
		{`{"title": "My chat", "metadata": null}`, &title, map[string]any{}, true},
		{`{"archived": null}`, &title, map[string]any{}, false},
	} {
		listed.Title, listed.Metadata, listed.Archived = step.title, step.metadata, step.archived
		got := as[thread](s.do("PATCH", at, step.body), 200)
		if diff := cmp.Diff(listed, got); diff != "" {
			t.Errorf("%s: %s", step.body, diff)
		}
		if diff := cmp.Diff(listed, as[page[thread]](s.do("GET", threads, nil), 200).Items[0]); diff != "" {
			t.Errorf("as listed after %s: %s", step.body, diff)
		}
	}
	for body, want := range map[string]string{
		`{"title": 1}`: "title must be a string", `{"metadata": [1]}`: "metadata must be an object", `[]`: "The request must be a JSON object",
		`{"metadata": "x"}`: "metadata must be an object", `{"title": {}}`: "title must be a string",
		`{"archived": "yes"}`:                           "archived must be true or false",
		`{"title": "` + strings.Repeat("x", 201) + `"}`: "title must be at most 200 characters without control characters",
		`{"title": "a\u0000"}`:                          "title must be at most 200 characters without control characters",
	} {
		if e := as[struct{ Detail string }](s.do("PATCH", at, body), 400); e.Detail != want {
			t.Errorf("%.40s: %q, want %q", body, e.Detail, want)
		}
	}
	s.do("PATCH", at, `{"metadata": {"a": "`+strings.Repeat("x", 64<<10)+`"}}`).refused(413, "metadata_too_large", "A thread's metadata may hold 65536 bytes")
	s.do("PATCH", threads+"/nobody", `{}`).refused(404, "not_found", "Thread not found")
}

func TestThreadIsDeleted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.echo("main")
	s.echo("other")
	running := s.start(map[string]any{"agent": "scripted", "threadId": "main", "content": `{"do": [{"tool": "sleep", "args": {"ms": 60000}}]}`})
	if a := s.do("DELETE", threads+"/main", nil); a.Status != 204 || a.Body != "" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	s.do("DELETE", threads+"/main", nil).refused(404, "not_found", "Thread not found")
	s.do("GET", runs+"/"+running.RunID, nil).refused(404, "not_found", "Agent run not found")
	s.do("GET", "/api/v1/agent/history?threadId=main", nil).refused(404, "not_found", "Thread not found")
	if ids := threadIDs(pages[thread](s, threads, 50)); !slices.Equal(ids, []string{"other"}) {
		t.Errorf("left are %q", ids)
	}
	bob := s.bobs(`{"do": []}`)
	s.do("DELETE", threads+"/"+bob.ConversationID, nil).refused(404, "not_found", "Thread not found")
	again := s.start(map[string]any{"agent": "echo", "threadId": "main", "content": "hi"})
	if again.ConversationID == running.ConversationID || !strings.HasSuffix(*again.EventsURL, "after_event_id=0") {
		t.Errorf("%+v", again)
	}
}
