package baton_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

type picky struct{}

func (picky) Info() plugins.Info {
	return plugins.Info{Name: "picky", Parameters: json.RawMessage(
		`{"required":["n","d"],"properties":{"n":{"type":"integer"},"d":{"type":"string","default":"x"},"note":{"type":"string"}}}`)}
}

func (picky) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "got " + string(call.Args)}, nil
}

// A tool gets the arguments as they fit its schema; the log keeps the arguments of the model.
func TestCallTool_ArgumentsFit(t *testing.T) {
	t.Parallel()
	agent := plugins.AgentFunc("asks", func(ctx context.Context, run *plugins.Run) error {
		out, err := run.CallTool(ctx, "picky", json.RawMessage(`{"n":"12345678901234567890","note":null}`))
		if err != nil {
			return err
		}
		_, err = run.Text().Write([]byte(out.ResultSummary + " asked " + string(out.ToolCallArgs)))
		return err
	})
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Plugins: []plugins.Plugin{picky{}, agent}})
	body := answer(t, send(t, http.MethodPost, s.URL()+"/api/v1/agent/runs", `{"agent":"asks","content":"x"}`, "Accept", "text/event-stream"))
	for _, want := range []string{`got {\"n\":12345678901234567890}`, `asked {\"n\":\"12345678901234567890\",\"note\":null}`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}
