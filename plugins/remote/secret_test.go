package remote_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

// A remote gets the opaque values of its own messages and calls alone.
func TestRequest_HasNoValuesOfOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, stream(started+hello+finished))
	message := func(id, agent string) agui.Message {
		by := json.RawMessage(`{"agent":"` + agent + `"}`)
		call := agui.ToolCall{ID: "call" + id, Name: "look", Arguments: "{}", EncryptedValue: "call of " + agent, Metadata: by}
		return agui.Message{ID: id, Role: agui.RoleAssistant, Content: "hello", Metadata: by, EncryptedValue: "text of " + agent, ToolCalls: []agui.ToolCall{call}}
	}
	nobody := agui.Message{ID: "3", Role: agui.RoleAssistant, Content: "hello", EncryptedValue: "text of nobody"}
	plugintest.Run(t, s.agent(t), plugintest.Config{Messages: []agui.Message{
		message("1", "writer"), message("2", "ours"), nobody, {ID: "4", Role: agui.RoleUser, Content: "and now?"},
	}})
	for value, want := range map[string]bool{"text of writer": true, "call of writer": true, "text of ours": false, "call of ours": false, "text of nobody": false} {
		if has := strings.Contains(s.bodies[0], value); has != want {
			t.Errorf("%s: %v in %s", value, has, s.bodies[0])
		}
	}
}

// A remote's events do not repeat our credentials.
func TestEvents_HideCredentials(t *testing.T) {
	t.Parallel()
	const token = "bearer-token-1"
	s := serve(t, stream(started+`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"as `+token+`"}
		{"type":"STATE_SNAPSHOT","snapshot":{"by":"`+token+`"}}`+finished))
	res := plugintest.Run(t, s.agent(t, func(cfg *remote.Config) { cfg.Headers = map[string]string{"Authorization": "Bearer " + token} }), plugintest.Config{})
	log, err := json.Marshal(res.Events)
	if err != nil || strings.Contains(string(log), token) || strings.Count(string(log), "***") < 2 {
		t.Errorf("%s, %v", log, err)
	}
}
