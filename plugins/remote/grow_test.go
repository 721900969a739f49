package remote_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// grown is an answer with n rounds of events.
func grown(n int, round string) http.HandlerFunc {
	var b strings.Builder
	b.WriteString(started)
	for i := range n {
		b.WriteString(strings.ReplaceAll(round, "%", fmt.Sprint(i)) + "\n")
	}
	return stream(b.String() + finished)
}

// A remote can open only as many entities as a run. Refused ones do not affect the others.
func TestRelay_LimitsOpenEntities(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		round string
		kind  agui.Type
	}{
		"steps":      {`{"type":"STEP_STARTED","stepName":"s%"}`, agui.TypeStepStarted},
		"one step":   {`{"type":"SUBAGENT_STARTED","subagentRunId":"a%","name":"n"}` + "\n" + `{"type":"STEP_STARTED","stepName":"s","subagentRunId":"a%"}`, agui.TypeStepStarted},
		"sub-agents": {`{"type":"SUBAGENT_STARTED","subagentRunId":"a%","name":"n"}`, agui.TypeSubagentStarted},
		"reasoning":  {`{"type":"REASONING_MESSAGE_CONTENT","messageId":"m%","delta":"x"}`, agui.TypeReasoningMessageStart},
		"calls":      {`{"type":"TOOL_CALL_START","toolCallId":"c%","toolCallName":"t"}`, agui.TypeToolCallStart},
		"chunks":     {`{"type":"TOOL_CALL_CHUNK","toolCallId":"c%","toolCallName":"t","delta":"{}"}`, agui.TypeToolCallStart},
		"thoughts":   {`{"type":"THINKING_TEXT_MESSAGE_START"}` + "\n" + `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"x"}`, agui.TypeReasoningMessageStart},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, grown(3*agui.MaxOpen, tt.round))
			res, err := plugintest.Execute(t.Context(), s.agent(t), plugintest.Config{})
			if err != nil || res.Err != nil {
				t.Fatal(err, res.Err)
			}
			n := 0
			for _, ev := range res.Events {
				if ev.Type() == tt.kind {
					n++
				}
			}
			if n < agui.MaxOpen/3 || n > agui.MaxOpen {
				t.Errorf("%d are open", n)
			}
			if !strings.Contains(s.logged(), "events of a remote agent were left out") {
				t.Error("the log does not report dropped events")
			}
		})
	}
}

// A remote's calls of client tools and its questions are limited too, although no event of ours shows them.
func TestRelay_LimitsQuestions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most  int
		round string
	}{
		"calls":     {agui.MaxOpen / 2, `{"type":"TOOL_CALL_START","toolCallId":"c%","toolCallName":"look"}` + "\n" + `{"type":"TOOL_CALL_END","toolCallId":"c%"}`},
		"questions": {agui.MaxOpen, `{"type":"CUSTOM","name":"on_interrupt","value":"q%"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, grown(c.most+20, c.round))
			var cfg plugintest.Config
			cfg.Input.Tools = []agui.Tool{{Name: "look"}}
			if _, err := plugintest.Execute(t.Context(), s.agent(t), cfg); err != nil {
				t.Fatal(err)
			}
			if log := s.logged(); !strings.Contains(log, "events=20") && !strings.Contains(log, "events=40") {
				t.Errorf("the log does not report dropped events: %.300s", log)
			}
		})
	}
}
