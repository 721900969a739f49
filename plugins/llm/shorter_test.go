package llm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/plugintest"
)

// A conversation that is longer than the context loses its oldest turns, once and each with its calls and results.
func TestContext_DropsOldestTurns(t *testing.T) {
	for _, test := range []struct {
		turns, fits int    // how many turns before the last there are, and the context has
		want        string // the turns that are kept, or the code of the failure
	}{
		{6, 5, "2"}, {6, 2, "2"}, {6, 1, "context_too_long"}, {1, 0, "0"}, {0, -1, "context_too_long"},
	} {
		m := &model{replies: []reply{asks("", "echo {}"), says("done")}}
		m.fail = func(n int) error {
			if strings.Count(m.request(n), "human: q") <= test.fits {
				return nil
			}
			return &llm.Error{Code: "context_too_long", Message: "Too long"}
		}
		a := newAgent(t, llm.Config{Model: m, System: "Be brief.", Tools: []string{"*"}})
		cfg := plugintest.Config{Input: plugins.Input{Messages: thread(test.turns)}, Tools: []plugins.Tool{echo("echo")}}
		res := plugintest.Run(t, a, cfg)
		if failed := (*plugins.Error)(nil); errors.As(res.Err, &failed) {
			if failed.Code != test.want || m.calls() > 2 {
				t.Errorf("%+v: %v after %d calls", test, failed, m.calls())
			}
			continue
		}
		prompt := m.request(m.calls())
		kept := strings.Count(prompt, "human: q")
		if fmt.Sprint(kept) != test.want || m.calls() != 3 || strings.Count(prompt, "files_read gave text") != kept || strings.Count(prompt, "files_read{}") != kept ||
			!strings.Contains(prompt, "system: Be brief.") || !strings.Contains(prompt, "human: and now?") {
			t.Errorf("%+v: after %d calls, %s", test, m.calls(), prompt)
		}
		if event := fmt.Sprintf(`history-trimmed {"summarised":false,"turns":%d}`, test.turns-kept); strings.Count(shown(res.Events), event) != 1 {
			t.Errorf("%+v: the log shows %s", test, shown(res.Events))
		}
		plugintest.Replay(t, a, cfg)
	}
}
