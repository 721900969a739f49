package plugintest_test

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host/hosttest"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestHost_Contract(t *testing.T) {
	hosttest.Run(t, func(t *testing.T, c hosttest.Case) hosttest.Outcome {
		cfg := plugintest.Config{Input: plugins.Input{Query: "go", Tools: c.ClientTools}, Answer: c.Answer, Crash: c.Crash}
		if len(c.Next) > 0 {
			var msgs []agui.Message
			for _, text := range c.Next {
				msgs = append(msgs, agui.Message{Content: text})
			}
			cfg.Next = [][]agui.Message{msgs}
			c.Said()
		}
		for _, e := range c.Events {
			cfg.Events = append(cfg.Events, plugintest.Event(e))
		}
		for _, p := range c.Plugins {
			switch p := p.(type) {
			case plugins.Tool:
				cfg.Tools = append(cfg.Tools, p)
			case plugins.Agent:
				cfg.Agents = append(cfg.Agents, p)
			}
		}
		res, err := plugintest.Execute(t.Context(), c.Agent, cfg)
		out := hosttest.Outcome{Answer: res.Output.Answer, Events: res.Events, Messages: res.Messages()}
		if known, ok := errors.AsType[*plugins.Error](res.Err); ok {
			out.Code = known.Code
		} else if res.Err != nil {
			out.Code = res.Err.Error()
		}
		if err != nil && out.Code != "replay_mismatch" {
			t.Error(err)
		}
		return out
	})
}
