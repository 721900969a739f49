package rest_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shown is the shown form of a thread.
type shown struct {
	ThreadID    string
	Messages    []struct{ ID, Role, Content, ToolCallID string }
	State       map[string]any
	LastEventID int
}

func (s *server) shown(thread, query string) shown {
	s.Helper()
	return as[shown](s.do("GET", threads+"/"+url.PathEscape(thread)+"/messages?"+query, nil), 200)
}

func (v shown) contents() (list []string) {
	for _, m := range v.Messages {
		list = append(list, m.Content)
	}
	return list
}

// up reads a thread page by page from its end, and returns the pages from its start.
func (s *server) up(thread, query string) (pages [][]string) {
	s.Helper()
	for before := ""; ; {
		page := s.shown(thread, query+before)
		if len(page.Messages) == 0 {
			return pages
		}
		pages = slices.Insert(pages, 0, page.contents())
		before = "&before=" + url.QueryEscape(page.Messages[0].ID)
	}
}

func (s *server) says(thread, content, more string) {
	s.Helper()
	started := as[run](s.do("POST", runs, `{"agent": "echo", "threadId": "`+thread+`", "content": "`+content+`"`+more+`}`), 202)
	s.await(started.RunID, "COMPLETED")
}

func TestMessagesOfAThread(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says("a/b", "one", `, "state": {"n": 1}`)
	s.says("a/b", "two", "")
	all := s.shown("a/b", "")
	if diff := cmp.Diff([]string{"one", "one", "two", "two"}, all.contents()); diff != "" {
		t.Error(diff)
	}
	if all.ThreadID != "a/b" || all.State["n"] != 1.0 || all.LastEventID == 0 || all.Messages[0].Role != "user" || all.Messages[1].Role != "assistant" {
		t.Errorf("%+v", all)
	}
	for query, want := range map[string][][]string{
		"limit=1":             {{"one"}, {"one"}, {"two"}, {"two"}},
		"limit=3":             {{"one"}, {"one", "two", "two"}},
		"limit=3&hidden=true": {{"one"}, {"one", "two", "two"}},
		"":                    {{"one", "one", "two", "two"}},
	} {
		if diff := cmp.Diff(want, s.up("a/b", query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}

	at := threads + "/a%2Fb/messages?"
	s.do("GET", at+"limit=0", nil).refused(400, "invalid_limit", "limit must be a number from 1 to 500")
	for _, hidden := range []string{"", "&hidden=true"} {
		s.do("GET", at+"before=nobody"+hidden, nil).refused(400, "unknown_message", "The thread has no message of the id that before names")
	}
	s.do("GET", threads+"/nobody/messages", nil).refused(404, "not_found", "Thread not found")
	foreign := s.bobs(`{"do": []}`)
	s.do("GET", threads+"/"+foreign.ConversationID+"/messages", nil).refused(404, "not_found", "Thread not found")
}

func TestHiddenMessagesStayReadable(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says("main", "one", "")
	s.says("main", "two", "")
	s.says("main", "three", `, "rewindTo": "`+s.shown("main", "").Messages[1].ID+`"`)
	all := []string{"one", "one", "two", "two", "three", "three"}
	if diff := cmp.Diff([][]string{all}, s.up("main", "hidden=true")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{all[:2], all[2:4], all[4:]}, s.up("main", "hidden=true&limit=2")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"one", "one", "three", "three"}}, s.up("main", "")); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesThatAreWritten(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.start(map[string]any{"agent": "scripted", "threadId": "main", "content": `{"do": [{"tokens": 100000, "delayMs": 1}]}`}).RunID
	var newest shown
	for len(newest.Messages) == 0 || newest.Messages[0].Role != "assistant" || newest.Messages[0].Content == "" {
		newest = s.shown("main", "limit=1")
	}
	if got := s.shown("main", "before="+newest.Messages[0].ID); len(got.Messages) != 1 || got.Messages[0].Role != "user" {
		t.Errorf("%+v", got)
	}
	s.do("POST", runs+"/"+id+"/cancel", "{}")
	s.await(id, "CANCELLED")
}
