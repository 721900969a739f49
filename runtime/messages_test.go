package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// The last message of a request reaches the agent even if the thread knows its id.
func TestLastMessageOfARequestIsHeard(t *testing.T) {
	t.Parallel()
	mirror := agent{"mirror", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var said []string
		for _, m := range thread(ctx, run) {
			if m.Role == agui.RoleUser {
				said = append(said, m.Content)
			}
		}
		if said[len(said)-1] == "hang" {
			<-ctx.Done()
			return agui.WorkerOutput{}, ctx.Err()
		}
		return agui.WorkerOutput{Answer: strings.Join(said, "|")}, nil
	}}
	list := func(texts ...string) (msgs []agui.Message) {
		for _, text := range texts {
			id, content, _ := strings.Cut(text, "=")
			msgs = append(msgs, agui.Message{ID: id, Role: agui.RoleUser, Content: content})
		}
		return msgs
	}
	for _, test := range []struct {
		name   string
		second string // the content of "one" in the thread
		req    runtime.StartRequest
		want   string
	}{
		{"a retry behind what it rewinds to", "u2=two", runtime.StartRequest{RewindTo: "u1", Messages: list("u1=one", "u2=retry")}, "one|retry"},
		{"the same again behind what it rewinds to", "u2=two", runtime.StartRequest{RewindTo: "u1", Messages: list("u1=one", "u2=two")}, "one|two"},
		{"another text beside the old one", "u2=two", runtime.StartRequest{Messages: list("u1=one", "u2=other")}, "one|two|other"},
		{"another text in a rollback", "u2=hang", runtime.StartRequest{Multitask: runtime.RollbackRuns, Messages: list("u1=one", "u2=other")}, "one|other"},
		{"the same text in a rollback", "u2=hang", runtime.StartRequest{Multitask: runtime.RollbackRuns, Messages: list("u1=one", "u2=hang ")}, "one|hang "},
		{"nothing new", "u2=two", runtime.StartRequest{Messages: list("u1=one", "u2=two")}, "one|two"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := open(t, runtime.Config{}, mirror)
			for _, text := range []string{"u1=one", test.second} {
				s := b.request(runtime.StartRequest{ThreadID: "main", Agent: "mirror", Messages: list(text)})
				if text != "u2=hang" {
					b.wait(s.RunID, runtime.Completed)
				}
			}
			test.req.ThreadID, test.req.Agent = "main", "mirror"
			s := b.request(test.req)
			if got := *b.wait(s.RunID, runtime.Completed).OutputSummary; got != test.want {
				t.Errorf("its prompt is %q, want %q", got, test.want)
			}
		})
	}
}

// A state has the same size in the log as in the client's request.
func TestStateOfAnyCharactersIsTaken(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	state := `{"x":"` + strings.Repeat("<", 3<<20) + `"}`
	s := b.request(runtime.StartRequest{ThreadID: "main", Agent: "hello", Messages: user("x"), State: []byte(state)})
	b.wait(s.RunID, runtime.Completed)
	th := b.found("main")
	if snap, err := b.Logs.Snapshot(t.Context(), th); err != nil || string(snap.State) != state {
		t.Errorf("a state of %d bytes has become one of %d, %v", len(state), len(snap.State), err)
	}
}
