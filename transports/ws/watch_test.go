package ws_test

import (
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
)

// Whatever lists show of the caller's is told of when it changes, and a neighbour's is not.
func TestChangesOfListsAreTold(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := s.many()
	told := func(what string, change func()) {
		t.Helper()
		if got, want := c.done(`{"op": "watch"}`), `{"projectId":"default"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		change()
		if r := c.reply(); r.Op != "changed" {
			t.Fatalf("%s: got %+v", what, r)
		}
		c.done(`{"op": "unwatch"}`)
	}
	told("a start", func() { s.Start(`{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`) })
	s.Await("a", "RUNNING")
	told("an end", func() { s.Keys <- "."; s.Do("POST", "/api/projects/default/agent-runs/a/cancel", "") })
	s.Await("a", "CANCELLED")
	told("a name", func() { s.Do("PATCH", "/api/v1/threads/main", `{"title": "A thread"}`) })
	told("a deletion", func() { s.Do("DELETE", "/api/v1/threads/main", "") })

	ann := runtime.MustCaller("default", "ann", runtime.RoleUser)
	c.done(`{"op": "watch"}`)
	if r := c.do(`{"op": "watch"}`); r.Code != "already_subscribed" {
		t.Errorf("a second watch: got %+v", r)
	}
	if _, err := s.Runtime.StartRun(t.Context(), ann, runtime.StartRequest{
		Agent: "echo", RunID: "hers", Messages: []agui.Message{{Role: agui.RoleUser, Content: "x"}},
	}); err != nil {
		t.Fatal(err)
	}
	s.Eventually("over", func() bool {
		run, err := s.Runtime.Runs.Get(t.Context(), ann, "hers")
		return err == nil && run.Status == "COMPLETED"
	})
	c.send(`{"op": "unwatch"}`)
	if r := c.reply(); r.Op != "ack" {
		t.Errorf("a neighbour's run: got %+v", r)
	}
	if r := c.do(`{"op": "unwatch"}`); r.Code != "not_subscribed" {
		t.Errorf("a second unwatch: got %+v", r)
	}
}
