package agui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
)

// said are the user messages of that name, each with its name for id and text, and the answers to them; a name may be
// followed by another text.
func listed(answers map[string]string, names ...string) string {
	var list []string
	for _, name := range names {
		id, text, other := strings.Cut(name, "=")
		switch {
		case strings.HasPrefix(id, "a"):
			list = append(list, fmt.Sprintf(`{"id": %q, "role": "assistant", "content": "u%s"}`, answers[id], id[1:]))
		case other:
			list = append(list, fmt.Sprintf(`{"id": %q, "role": "user", "content": %q}`, id, text))
		default:
			list = append(list, fmt.Sprintf(`{"id": %q, "role": "user", "content": %q}`, id, id))
		}
	}
	return strings.Join(list, ",")
}

// A list that leaves the thread before its end is an edit or a wish for another answer, as chat front ends make them; one
// that only knows less than there is is neither.
func TestEditsRewindTheThread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list string // what the client has, of u1 a1 u2 a2 u3 a3
		more string // members of the request
		path string
		want string // what the worker is given
	}{
		"an edited message under a new id": {list: "u1 a1 u2 a2 new", want: "u1 u1 u2 u2 new"},
		"one under its id":                 {list: "u1 a1 u2=other", want: "u1 u1 other"},
		"another answer":                   {list: "u1 a1 u2 a2 u3", want: "u1 u1 u2 u2 u3"},

		"no answers at all":              {list: "u1 u2 u3 new", want: "u1 u1 u2 u2 u3 u3 new"},
		"the newest and the new one":     {list: "u3 a3 new", want: "u1 u1 u2 u2 u3 u3 new"},
		"the middle and the new one":     {list: "u2 a2 new", want: "u1 u1 u2 u2 u3 u3 new"},
		"an old text in the middle":      {list: "u1=other a1 u2 a2 u3 a3 new", want: "u1 u1 u2 u2 u3 u3 new"},
		"space around a text":            {list: "u1 a1 u2 a2 u3=u3\\n a3", want: "u1 u1 u2 u2 u3 u3"},
		"an edit that is to be kept":     {list: "u1 a1 new", more: `, "forwardedProps": {"edits": "keep"}`, want: "u1 u1 u2 u2 u3 u3 new"},
		"an edit through another door":   {list: "u1 a1 new", more: `, "agent": "mirror"`, path: "/api/v1/agent/runs", want: "u1 u1 u2 u2 u3 u3 new"},
		"an edit through CopilotKit's":   {list: "u1 a1 new", path: "/api/copilotkit/agent/mirror/run", want: "u1 u1 new"},
		"an edit that names where to go": {list: "u1 a1 new", more: `, "rewindTo": "u2"`, want: "u1 u1 u2 new"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{}, mirror{})
			answers := make(map[string]string)
			for _, n := range []string{"1", "2", "3"} {
				stream := s.Do("POST", "/api/v1/agui/echo", turn("main", "run-"+n, listed(nil, "u"+n), "")).All()
				for _, ev := range events(t, stream) {
					if start, ok := ev.(agui.TextMessageStart); ok {
						answers["a"+n] = start.MessageID
					}
				}
			}
			before := s.connect("").All()
			path := c.path
			if path == "" {
				path = "/api/v1/agui/mirror"
			}
			body := strings.Replace(turn("main", "run", listed(answers, strings.Fields(c.list)...), ""), `, "forwardedProps": {}`, "", 1)
			r := s.Do("POST", path, strings.TrimSuffix(body, "}")+c.more+"}", "Accept", "text/event-stream")
			stream := r.All()
			var prompt []agui.Message
			if err := json.Unmarshal([]byte(answer(t, stream)), &prompt); err != nil {
				t.Fatalf("%v: %d %s", err, r.StatusCode, stream)
			}
			var got []string
			for _, m := range prompt {
				got = append(got, m.Content)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("the worker was given (-want +got):\n%s", diff)
			}
			if shown, viewer := folded(t, s.connect("").All()), folded(t, before+stream); !cmp.Equal(shown, viewer) {
				t.Errorf("one who was there sees, and one who joins now does not:\n%s", cmp.Diff(shown, viewer))
			}
		})
	}
}

// Two clients are at different places of a thread: a client that lists hidden messages continues where the thread is.
func TestHiddenMessagesAreNoEdit(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{}, mirror{})
	post := func(agent, run, list string) string {
		return s.Do("POST", "/api/v1/agui/"+agent, turn("main", run, list, "")).All()
	}
	post("echo", "a", listed(nil, "u1"))
	post("echo", "b", listed(nil, "u1", "u2"))
	post("echo", "c", listed(nil, "u1", "u2", "u3"))
	post("echo", "d", listed(nil, "u1", "new"))
	got := answer(t, post("mirror", "e", listed(nil, "u1", "u2", "more")))
	var prompt []agui.Message
	if err := json.Unmarshal([]byte(got), &prompt); err != nil {
		t.Fatal(err)
	}
	want := []string{"user: u1", "user: new", "assistant: new", "user: more"}
	if diff := cmp.Diff(want, roles(prompt)); diff != "" {
		t.Errorf("the worker was given (-want +got):\n%s", diff)
	}
}

// A thread with an open run cannot be rewound: the new message waits for its turn.
func TestEditOfABusyThreadWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{}, mirror{})
	s.run("echo", "main", "0", "first", "").All()
	owner := s.typing()
	edit := s.Do("POST", "/api/v1/agui/mirror", turn("main", "b", `{"id": "of-0", "role": "user", "content": "first"}, {"id": "new", "role": "user", "content": "new"}`, ""))
	close(s.Keys)
	owner.All()
	var prompt []agui.Message
	if err := json.Unmarshal([]byte(answer(t, edit.All())), &prompt); err != nil {
		t.Fatal(err)
	}
	if got := roles(prompt); len(got) < 4 || got[2] != "user: go" {
		t.Errorf("the worker was given %v", got)
	}
}

func TestRewindToAMessageThatIsNotShownIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.run("echo", "main", "a", "hello", "").All()
	for _, thread := range []string{"main", "new"} {
		s.Do("POST", "/api/v1/agui/echo", turn(thread, "b", listed(nil, "x"), `, "rewindTo": "nowhere"`)).Refused(400, "unknown_message")
	}
}
