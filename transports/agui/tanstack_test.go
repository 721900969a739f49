package agui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/batonrun/baton/transports"
)

const asked = "/api/v1/agui/scripted"

// hydrated is the answer to a hydration.
type hydrated struct {
	Messages []struct {
		ID, Role, CreatedAt string
		Parts               []map[string]any
	}
	State      map[string]any
	ActiveRun  *struct{ RunID string }
	Interrupts *struct {
		RunID   string
		Pending []map[string]any
	}
	Page struct {
		Truncated bool
		Cursor    string
	}
}

func (s *server) hydrate(query string) (h hydrated) {
	s.Helper()
	r := s.Do("GET", asked+"?"+query, "")
	text := r.All()
	if err := json.Unmarshal([]byte(text), &h); err != nil || r.StatusCode != http.StatusOK {
		s.Fatalf("got %d %s, %v", r.StatusCode, text, err)
	}
	return h
}

// detached starts a run on the thread main.
func (s *server) detached(run, ops string) {
	s.Helper()
	s.Start(fmt.Sprintf(`{"agent": "scripted", "threadId": "main", "runId": %q, "content": %s}`, run, quoted(script(ops))))
}

// brief is the messages' parts, in short.
func (h *hydrated) brief() (list []string) {
	for _, m := range h.Messages {
		var parts []string
		for _, p := range m.Parts {
			parts = append(parts, fmt.Sprint(p["type"]))
		}
		list = append(list, m.Role+": "+strings.Join(parts, " "))
	}
	return list
}

func TestHydration_ShowsAThreadInParts(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	if h := s.hydrate("threadId=nobody"); len(h.Messages) != 0 || h.ActiveRun != nil || h.Interrupts != nil || h.Page.Truncated {
		t.Errorf("an unknown thread: %+v", h)
	}
	s.run("scripted", "main", "a", script(`{"reason": "hm"}, {"say": "look"}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"state": {"n": 1}}, {"say": "so"}`), "").All()
	h := s.hydrate("threadId=main")
	want := "user: text|assistant: thinking text tool-call tool-result|assistant: text"
	if got := strings.Join(h.brief(), "|"); got != want || h.State["n"] != 1.0 || h.Messages[1].CreatedAt == "" {
		t.Fatalf("got %s, %+v", got, h)
	}
	call, result := h.Messages[1].Parts[2], h.Messages[1].Parts[3]
	if call["state"] != "complete" || call["name"] != "calculator" || call["output"] == nil || result["state"] != "complete" || result["toolCallId"] != call["id"] {
		t.Errorf("got %v and %v", call, result)
	}
	var pages []string
	for query := "threadId=main&limit=1"; ; {
		page := s.hydrate(query)
		pages = append(page.brief(), pages...)
		if !page.Page.Truncated {
			break
		}
		query = "threadId=main&limit=1&before=" + page.Page.Cursor
	}
	if got := strings.Join(pages, "|"); got != "user: text|assistant: thinking|assistant: text tool-call tool-result|assistant: text" {
		t.Errorf("page by page: %s", got)
	}
}

func TestHydration_LeavesWhatARunWritesToItsEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.run("scripted", "main", "a", script(`{"say": "first"}`), "").All()
	s.detached("b", `{"say": "begun"}, {"tool": "sleep", "args": {"ms": 600000}}`)
	follow := s.Do("GET", asked+"?runId=b&offset=-1", "")
	head := follow.Until("TOOL_CALL_END")
	h := s.hydrate("threadId=main")
	if got := strings.Join(h.brief(), "|"); got != "user: text|assistant: text|user: text" || h.ActiveRun == nil || h.ActiveRun.RunID != "b" {
		t.Errorf("got %s, %+v", got, h)
	}
	if !strings.Contains(head, "RUN_STARTED") || !strings.Contains(head, "begun") || strings.Contains(head, `"first"`) {
		t.Errorf("the events are %s", head)
	}
	s.detached("c", `{"say": "next"}`)
	queued := s.Do("GET", asked+"?runId=c&offset=-1", "")
	if _, err := s.Runtime.Cancel(t.Context(), local, "b"); err != nil {
		t.Fatal(err)
	}
	if rest := follow.All(); !strings.Contains(rest, "RUN_ERROR") || strings.Contains(rest, `"c"`) {
		t.Errorf("the rest is %s", rest)
	}
	if all := queued.All(); !strings.Contains(all, `"runId":"c"`) || !strings.Contains(all, "next") || strings.Contains(all, `"runId":"b"`) {
		t.Errorf("a queued run shows %s", all)
	}
}

func TestFollowing_GoesOnBehindAnyEvent(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	ask := s.run("scripted", "main", "a", script(`{"state": {"n": 1}}, {"ask": {"message": "Deploy?"}}, {"say": "after"}`), "").All()
	if h := s.hydrate("threadId=main"); h.ActiveRun != nil || h.Interrupts == nil || h.Interrupts.RunID != "a" || len(h.Interrupts.Pending) != 1 {
		t.Errorf("while it waits: %+v", h)
	}
	id := interrupts.FindStringSubmatch(ask)[1]
	s.Do("POST", asked, turn("main", "b", "", fmt.Sprintf(`, "resume": [{"interruptId": %q, "status": "resolved"}]`, id))).All()
	read := func(run, offset string, header ...string) (list []string) {
		r := s.Do("GET", asked+"?runId="+run+"&offset="+offset, "", header...)
		for block := range strings.SplitSeq(r.All(), "\n\n") {
			if strings.HasPrefix(block, "id: ") {
				list = append(list, block)
			}
		}
		return list
	}
	all := read("a", "-1")
	if n := len(all); !strings.Contains(all[0], "RUN_STARTED") || !strings.Contains(all[n-1], "RUN_FINISHED") || !strings.Contains(strings.Join(all, ""), "after") {
		t.Fatalf("got %s", strings.Join(all, "\n"))
	}
	for i, block := range all {
		id, _, _ := strings.Cut(strings.TrimPrefix(block, "id: "), "\n")
		for how, got := range map[string][]string{"offset": read("b", id), "Last-Event-ID": read("a", "-1", "Last-Event-ID", id)} {
			if strings.Join(got, "|") != strings.Join(all[i+1:], "|") {
				t.Errorf("%s %s: got %d events, want %d", how, id, len(got), len(all)-i-1)
			}
		}
	}
	_, end, _ := strings.Cut(all[len(all)-1], "\n")
	last, _, _ := strings.Cut(strings.TrimPrefix(all[len(all)-1], "id: "), "\n")
	if got := strings.TrimSpace(s.Do("GET", asked+"?runId=a&offset=-1", "", "Last-Event-ID", last).All()); got != end {
		t.Errorf("behind the end: got %s, want %s", got, end)
	}
	for query, want := range map[string]string{
		"": "invalid_request", "threadId=main&runId=a": "invalid_request", "runId=nobody": "not_found", "runId=a&offset=x": "invalid_cursor",
		"runId=a&offset=1000": "invalid_cursor", "threadId=main&limit=0": "invalid_limit", "threadId=main&before=nobody": "unknown_message",
	} {
		status := http.StatusBadRequest
		if want == "not_found" {
			status = http.StatusNotFound
		}
		s.Do("GET", asked+"?"+query, "").Refused(status, want)
	}
	s.Do("GET", "/api/v1/agui/nobody?threadId=main", "").Refused(http.StatusNotFound, "unknown_agent")
}

// A client that comes back before the run's first text has not begun to rebuild it.
func TestFollowing_LeavesOutTheFirstReasoningBehindAnyEvent(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.run("scripted", "main", "a", script(`{"reason": "one two"}, {"say": "three"}, {"reason": "four"}, {"say": "five"}`), "").All()
	follow := func(header ...string) string { return s.Do("GET", asked+"?runId=a&offset=-1", "", header...).All() }
	all := follow()
	blocks := strings.SplitAfter(all, "\n\n")
	for i, block := range blocks[:len(blocks)-2] { // but the last event, and what stands behind it
		id, _, _ := strings.Cut(strings.TrimPrefix(block, "id: "), "\n")
		if !strings.HasPrefix(block, "id: ") {
			continue
		}
		got, want := follow("Last-Event-ID", id), strings.Join(blocks[i+1:], "")
		if stamps.ReplaceAllString(got, "") != stamps.ReplaceAllString(want, "") {
			t.Errorf("behind %s: got %s, want %s", id, got, want)
		}
	}
	if strings.Contains(all, `"delta":"one"`) || !strings.Contains(all, `"delta":"four"`) {
		t.Errorf("got %s", all)
	}
}

// A client that follows a queued run gets an event at once, or it would give up.
func TestFollowing_BeginsWhileTheRunIsQueued(t *testing.T) {
	t.Parallel()
	s := serveSlots(t, transports.StreamConfig{}, 1)
	s.typing() // takes the only slot
	s.Start(`{"agent": "echo", "threadId": "other", "runId": "b", "content": "hello"}`)
	follow := s.Do("GET", "/api/v1/agui/echo?runId=b&offset=-1", "")
	all := follow.Until("RUN_STARTED")
	s.Await("b", "QUEUED")
	close(s.Keys)
	all += follow.All()
	if strings.Count(all, "event: RUN_STARTED") != 1 || !strings.Contains(all, "hello") || !strings.Contains(all, "RUN_FINISHED") {
		t.Errorf("got %s", all)
	}
}

// A client whose stream was cut repeats its request with the last event that it has.
func TestRepeat_GoesOnBehindTheLastEvent(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	body := strings.Replace(turn("main", "a", `{"id": "m", "role": "user", "content": `+quoted(script(`{"say": "one two"}, {"state": {"n": 1}}`))+`}`, ""), `"state": {}`, `"state": null`, 1)
	all := strings.SplitAfter(s.Do("POST", asked, body).All(), "\n\n")
	s.Do("POST", asked, turn("main", "b", `{"id": "n", "role": "user", "content": "{}"}`, "")).All()
	for i, block := range all {
		id, _, _ := strings.Cut(strings.TrimPrefix(block, "id: "), "\n")
		if !strings.HasPrefix(block, "id: ") {
			continue
		}
		want := strings.Join(all[i+1:], "")
		if want == "" { // a client that has the end without knowing that it is all
			_, want, _ = strings.Cut(block, "\n")
		}
		got := s.Do("POST", asked, body, "Last-Event-ID", id).All()
		if stamps.ReplaceAllString(got, "") != stamps.ReplaceAllString(want, "") {
			t.Errorf("behind %s: got %s, want %s", id, got, want)
		}
	}
	s.Do("POST", asked, body, "Last-Event-ID", "x").Refused(http.StatusBadRequest, "invalid_cursor")
}

// stamps are when events were: what a reader is told beside the log has the time of what it stands with.
var stamps = regexp.MustCompile(`"timestamp":[0-9]+`)

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// Following a run joins its thread: a run whose client has dropped its stream goes on.
func TestFollowing_KeepsADroppedRun(t *testing.T) {
	t.Parallel()
	s := serve(t, returning)
	s.typing().Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	follow := s.Do("GET", "/api/v1/agui/typist?runId=a&offset=-1", "")
	s.OutlastGrace()
	s.Keys <- "to the end"
	close(s.Keys)
	if all := follow.All(); !strings.Contains(all, "to the end") || !strings.Contains(all, "RUN_FINISHED") {
		t.Errorf("got %s", all)
	}
}
