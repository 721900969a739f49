package demo_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/demo"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/tools"
)

func TestPlugins_ShowAllFeatures(t *testing.T) {
	show := map[string][]string{
		"demo-plan":     {"REASONING_START", "CUSTOM", "STATE_DELTA", "TEXT_MESSAGE_END"},
		"demo-retrieve": {"TOOL_CALL_RESULT", "CUSTOM", "STATE_DELTA", "TEXT_MESSAGE_END"},
		"demo-draft":    {"TOOL_CALL_RESULT", "CUSTOM", "STATE_DELTA", "TEXT_MESSAGE_END"},
		"demo-review":   {"TOOL_CALL_RESULT", "CUSTOM", "STATE_DELTA", "TEXT_MESSAGE_END", "suggested_actions"},
	}
	clock := tools.Clock{Now: func() time.Time { return time.Unix(0, 0) }}
	took := map[string]time.Duration{}
	for _, p := range demo.Plugins() {
		a, ok := p.(plugins.Agent)
		if !ok {
			continue
		}
		name := a.Info().Name
		for _, query := range []string{"how logs work?", "", strings.Repeat("é", 200)} {
			cfg := plugintest.Config{
				Input: plugins.Input{Query: query},
				Tools: []plugins.Tool{tools.Sleep{}, clock, tools.Calculator{}},
			}
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				res := plugintest.Run(t, a, cfg)
				took[name] = max(took[name], time.Since(start))
				for _, want := range show[name] {
					if !strings.Contains(res.Log(), want) {
						t.Errorf("%s shows no %s", name, want)
					}
				}
				if res.Err != nil || res.Output.Answer == "" || strings.Contains(res.Log(), `"failure"`) {
					t.Errorf("%s: %+v, %v", name, res.Output, res.Err)
				}
				plugintest.Replay(t, a, cfg)
			})
		}
	}
	all := max(took["demo-plan"], took["demo-retrieve"]) + took["demo-draft"] + took["demo-review"]
	if all < 2*time.Second || all > 4*time.Second {
		t.Errorf("takes %s (%v), want about 3s", all, took)
	}
}
