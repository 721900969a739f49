package remote_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

func TestNew_RefusesInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []remote.Config{
		{},
		{URL: "ftp://host/x"},
		{URL: "http://"},
		{URL: "http://host", Protocol: "2"},
		{URL: "http://host", Stop: "http://host/stop"},
		{URL: "http://host", Stop: "/stop/{threadId}"},
		{URL: "http://host", Idle: -1},
		{URL: "http://host", Headers: map[string]string{"X": "a\r\nY: b"}},
		{URL: "http://host", Headers: map[string]string{"a b": "x"}},
	} {
		if _, err := remote.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func TestRequest_FollowsAGUI(t *testing.T) {
	t.Parallel()
	s := serve(t, stream(started+hello+finished))
	messages := []agui.Message{
		{ID: "u1", Role: agui.RoleUser, Content: "one"},
		{ID: "x", Role: agui.RoleReasoning, Content: "hm"},
		{ID: "ours", Role: agui.RoleAssistant, Content: "first", Metadata: json.RawMessage(`{"remoteId":"theirs","agent":"writer"}`)},
		{ID: "u2", Role: agui.RoleUser, Content: "two"},
	}
	in := plugins.Input{
		Query: "two", State: json.RawMessage(`{"n":1}`),
		Tools:          []agui.Tool{{Name: "pick", Description: "Pick"}},
		ForwardedProps: json.RawMessage(`{"background":true,"theme":"dark"}`),
		ThreadID:       "main", User: "ann", Project: "p",
	}
	for _, protocol := range []string{"1.0", "0.0"} {
		plugintest.Run(t, s.agent(t, func(c *remote.Config) {
			c.Protocol, c.Headers = protocol, map[string]string{"Authorization": "Bearer abcdef"}
		}), plugintest.Config{Input: in, Messages: messages})
	}
	if got := s.headers[0].Get("Authorization"); got != "Bearer abcdef" {
		t.Errorf("Authorization: %q", got)
	}
	got, old := s.asked[0], s.asked[1]
	if got.ProtocolVersion != "1.0" || old.ProtocolVersion != "" || strings.Contains(s.bodies[1], "metadata") {
		t.Errorf("protocols: %s\n%s", s.bodies[0], s.bodies[1])
	}
	var ids []string
	for _, m := range got.Messages {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"u1", "theirs", "u2"}, ids); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if string(got.ForwardedProps) != `{"theme":"dark"}` || string(got.State) != `{"n":1}` || len(got.Tools) != 1 || got.Tools[0].Parameters == nil {
		t.Errorf("asked with %s", s.bodies[0])
	}
	if got.ThreadID == "main" || got.ThreadID != old.ThreadID || got.RunID == old.RunID {
		t.Errorf("threads %q and %q, runs %q and %q", got.ThreadID, old.ThreadID, got.RunID, old.RunID)
	}
	in.User = "bob"
	plugintest.Run(t, s.agent(t), plugintest.Config{Input: in, Messages: messages})
	if s.asked[2].ThreadID == got.ThreadID {
		t.Error("two users share a thread")
	}
}
