package rest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/budget"
)

const history = "/api/v1/agent/history"

type day struct {
	Type     string
	ThreadID *string
	Snapshot struct {
		Scope         string
		ThreadID, Day *string
		HasMore       bool
		Messages      []struct {
			ID, Role, Content string
			Seq               int
			Metadata          map[string]any
			Timestamp         time.Time
		}
	}
}

func TestHistoryOfNobody(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.do("GET", history, nil)
	const want = `{"type":"STATE_SNAPSHOT","snapshot":{"scope":"history_day","threadId":null,"day":null,"hasMore":false,"messages":[]}}`
	if got.Status != 200 || got.Body != want {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	s.do("GET", history+"?threadId=none", nil).refused(404, "not_found", "Thread not found")
	for _, before := range []string{"x", "2024-1-15", "2024-02-30", "2024-01-15T00:00:00Z", "20240115", " 2024-01-15"} {
		a := s.do("GET", history+"?before="+strings.ReplaceAll(before, " ", "%20"), nil)
		a.refused(400, "invalid_request", "before must be a day like 2024-01-15")
	}
}

func TestHistoryShowsADay(t *testing.T) {
	t.Parallel()
	s := serve(t)
	file, err := s.Runtime.Uploads.Add(t.Context(), runtime.MustCaller("default", "local", runtime.RoleUser), runtime.Upload{Filename: "a.txt", Length: 1, Body: strings.NewReader("x")})
	if err != nil {
		t.Fatal(err)
	}
	first := s.start(map[string]any{"agent": "scripted", "threadId": "main", "messages": []any{
		map[string]any{"id": "dev", "role": "developer", "content": "Be brief"},
		map[string]any{"id": "ask", "role": "user", "metadata": map[string]any{"attachments": []any{map[string]any{"path": file.Path}}}, "content": []any{
			map[string]any{"type": "text", "text": `{"do": [{"reason": "hm"}, {"tool": "calculator", "args": {"expression": "1+2"}}, {"say": "it is 3"}]}`},
			map[string]any{"type": "image", "source": map[string]any{"type": "url", "value": "http://x/y.png"}},
		}},
	}})
	s.await(first.RunID, "COMPLETED")
	got := as[day](s.do("GET", history, nil), 200)
	snap := got.Snapshot
	if got.Type != "STATE_SNAPSHOT" || *got.ThreadID != "main" || *snap.ThreadID != "main" || snap.Scope != "history_day" || snap.HasMore {
		t.Errorf("%+v", got)
	}
	var shown []string
	seq := 0
	for _, m := range snap.Messages {
		if m.Seq <= seq || m.Timestamp.Format(time.DateOnly) != *snap.Day || m.Timestamp.Location() != time.UTC {
			t.Errorf("%+v on %s", m, *snap.Day)
		}
		seq = m.Seq
		shown = append(shown, m.Role+": "+m.Content)
	}
	script := `{"do": [{"reason": "hm"}, {"tool": "calculator", "args": {"expression": "1+2"}}, {"say": "it is 3"}]}`
	if diff := cmp.Diff([]string{"system: Be brief", "user: " + script, "assistant: ", "tool: 3", "assistant: it is 3"}, shown); diff != "" {
		t.Fatal(diff)
	}
	asked, called, result, said := snap.Messages[1].Metadata, snap.Messages[2].Metadata, snap.Messages[3].Metadata, snap.Messages[4].Metadata
	if len(asked["attachments"].([]any)) != 1 || len(asked["parts"].([]any)) != 2 {
		t.Errorf("the question has %v", asked)
	}
	call := called["toolCalls"].([]any)[0].(map[string]any)
	if call["id"] != result["toolCallId"] || call["function"].(map[string]any)["name"] != "calculator" {
		t.Errorf("the call has %v, its result %v", called, result)
	}
	if out := result["toolAgentOutput"].(map[string]any); out["status"] != "success" || out["tool_name"] != "calculator" || out["result_summary"] != "3" {
		t.Errorf("the result has %v", result)
	}
	if out := said["workerAgentOutput"].(map[string]any); out["status"] != "success" || out["answer"] != "it is 3" || said["agent"] != "scripted" {
		t.Errorf("the answer has %v", said)
	}

	none := as[day](s.do("GET", history+"?threadId=main&before="+*snap.Day, nil), 200)
	if none.Snapshot.Day != nil || none.Snapshot.HasMore || len(none.Snapshot.Messages) != 0 || *none.Snapshot.ThreadID != "main" {
		t.Errorf("before the first day: %+v", none)
	}
	for _, query := range []string{"?threadId=main", "?threadId=" + first.ConversationID, "?before=9999-12-31"} {
		if again := as[day](s.do("GET", history+query, nil), 200); !cmp.Equal(got, again) {
			t.Errorf("%s: %s", query, cmp.Diff(got, again))
		}
	}
}

// A day is shown whole, however long it is.
func TestHistoryShowsAWholeDay(t *testing.T) {
	t.Parallel()
	for _, n := range []int{198, 199, 200, 201, 399, 400, 950} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := serve(t)
			msgs := make([]any, n)
			for i := range msgs {
				msgs[i] = map[string]any{"id": fmt.Sprint(i), "role": "user", "content": fmt.Sprint("message ", i)}
			}
			s.await(s.start(map[string]any{"agent": "echo", "threadId": "main", "messages": msgs}).RunID, "COMPLETED")
			a := s.do("GET", history, nil)
			if !json.Valid([]byte(a.Body)) || a.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %.200s", a.Header, a.Body)
			}
			got := as[day](a, 200).Snapshot.Messages
			if len(got) != n+1 {
				t.Fatalf("%d messages, want %d", len(got), n+1)
			}
			for i, m := range got[:n] {
				if m.ID != fmt.Sprint(i) || m.Seq != i+1 {
					t.Fatalf("message %d is %+v", i, m)
				}
			}
		})
	}
}

// HEAD of a long day is an answer as any other: its connection goes on.
func TestHeadOfALongHistory(t *testing.T) {
	t.Parallel()
	s := long(t, 450, 1000)
	asked := " HTTP/1.1\r\nHost: " + s.Addr + "\r\n\r\n"
	for range 10 {
		r := bufio.NewReader(s.Dial("HEAD " + history + asked + "GET /api/v1/agents" + asked))
		for _, method := range []string{"HEAD", "GET"} {
			res, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Fatal(method, err)
			}
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(method, res.Status, err)
			}
		}
	}
}

// A client of HTTP/1.0 knows no chunks: it is given all of a long day at once.
func TestALongHistoryOverHTTP10(t *testing.T) {
	t.Parallel()
	s := long(t, 450, 1000)
	c := s.Dial("GET " + history + " HTTP/1.0\r\nHost: " + s.Addr + "\r\n\r\n")
	defer c.Close()
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	var got day
	if err := json.Unmarshal([]byte(body), &got); err != nil || strings.Contains(head, "chunked") || len(got.Snapshot.Messages) != 451 {
		t.Errorf("%s\n%d messages, %v", head, len(got.Snapshot.Messages), err)
	}
	s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}

// A whole answer is bounded, and names its bound.
func TestAVeryLongHistoryOverHTTP10IsRefused(t *testing.T) {
	t.Parallel()
	s := long(t, 230, 30_000)
	for range 2 {
		s.await(s.start(map[string]any{"agent": "echo", "threadId": "main", "content": strings.Repeat("x", 6<<20)}).RunID, "COMPLETED")
	}
	c := s.Dial("GET " + history + " HTTP/1.0\r\nHost: " + s.Addr + "\r\n\r\n")
	defer c.Close()
	answer, err := io.ReadAll(c)
	if text := string(answer); err != nil || !strings.HasPrefix(text, "HTTP/1.1 413") || !strings.Contains(text, `"answer_too_large"`) {
		t.Errorf("%.1000s, %v", text, err)
	}
	s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}

// long serves a server with a thread of n messages in a day that have so many bytes each.
func long(t *testing.T, n, size int) *server {
	t.Helper()
	s := serve(t)
	msgs := make([]any, n)
	for i := range msgs {
		msgs[i] = map[string]any{"id": fmt.Sprint(i), "role": "user", "content": strings.Repeat("x", size)}
	}
	for some := range slices.Chunk(msgs, 7_000_000/size) { // as much as one request may have
		s.await(s.start(map[string]any{"agent": "echo", "threadId": "main", "messages": some}).RunID, "COMPLETED")
	}
	s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
	return s
}

// A history for which there is no room is refused, and not begun.
func TestAHistoryWithoutRoomIsRefused(t *testing.T) {
	t.Parallel()
	s := long(t, 300, 10)
	defer s.spend()()
	s.do("GET", history, nil).refused(503, "overloaded", "The server holds as much for its clients as it may; try again soon")
}

// A history is cut off if a later page has no room, so that a client does not take the part for the whole.
func TestAHistoryWithoutRoomIsCutOff(t *testing.T) {
	t.Parallel()
	s := long(t, 600, 30_000) // more than the buffers of both sockets hold, however late the budget is spent
	c := s.Dial("GET " + history + " HTTP/1.1\r\nHost: " + s.Addr + "\r\n\r\n")
	defer c.Close()
	_ = c.SetReadBuffer(256 << 10) // less than a page
	s.Eventually("the first page is made", func() bool { return s.Streams.Budget.Used() > 3_000_000 })
	defer s.spend()()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil || n < 3_000_000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// spend takes all of the budget that is left.
func (s *server) spend() (giveBack func()) {
	var all []*budget.Hold
	for {
		h := s.Streams.Budget.Hold()
		if h.Grow(32<<10) != nil {
			break
		}
		all = append(all, h)
	}
	return func() {
		for _, h := range all {
			h.Release()
		}
	}
}

// A client that does not read a page holds no turn.
func TestAHistoryThatNobodyTakesHasNoTurn(t *testing.T) {
	t.Parallel()
	s := long(t, 250, 30_000)
	all, back := s.TakeTurns()
	back()
	for range all {
		c := s.Dial("GET " + history + " HTTP/1.1\r\nHost: " + s.Addr + "\r\n\r\n")
		defer c.Close()
		_ = c.SetReadBuffer(4 << 10)
	}
	s.Eventually("all pages are made", func() bool { return s.Streams.Budget.Used() > int64(all)*3_000_000 })
	free := 0
	for tries := 0; free < all && tries < 200; tries++ {
		free, back = s.TakeTurns()
		back()
		<-time.After(time.Millisecond) // it counts a moment before its turn ends
	}
	if free < all {
		t.Errorf("%d of %d turns are free", free, all)
	}
}

// Searches and turns do not wait for each other.
func TestSearchesTakeNoTurn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.await(s.start(map[string]any{"agent": "echo", "threadId": "main", "content": "needle"}).RunID, "COMPLETED")
	_, back := s.TakeTurns()
	defer back()
	for _, list := range []string{"/api/projects/default/agent-runs", "/api/projects/default/threads", "/api/v1/threads"} {
		if a := s.do("GET", list+"?q=needle", nil); a.Status != 200 {
			t.Errorf("%s: %d %s", list, a.Status, a.Body)
		}
	}
}
