package exec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func TestClientTools_AnswerFittingCalls(t *testing.T) {
	t.Parallel()
	ct := newClientTools([]agui.Tool{
		{Name: "pick", Parameters: json.RawMessage(`{"type":"object","required":["n"]}`)},
		{Name: "pick", Parameters: json.RawMessage(`{"type":"string"}`)}, // the first one counts
	})
	for _, test := range []struct {
		name, args               string
		offered, mistake, answer bool
	}{
		{"pick", `{"n":1}`, true, false, true},
		{"pick", `{}`, true, true, false},
		{"other", `{}`, false, false, false},
	} {
		u := plugins.Use{Name: test.name, Request: json.RawMessage(test.args)}
		_, offered, mistake := ct.fit(u)
		if _, answer := ct.mayAnswer(u); offered != test.offered || (mistake != nil) != test.mistake || answer != test.answer {
			t.Errorf("%s %s: offered %v, mistake %v, answered by the client %v", test.name, test.args, offered, mistake, answer)
		}
	}
}

// A message that is larger than one RUN_STARTED goes in alone. Otherwise its run would be continued for it for ever.
func TestALargeMessageFitsAlone(t *testing.T) {
	t.Parallel()
	large := data.Message{Message: agui.Message{ID: "m", Role: agui.RoleUser, Content: strings.Repeat("x", 1<<10)}}
	first, rest := fitting([]data.Message{large, large}, 1<<10)
	if len(first) != 1 || len(rest) != 1 {
		t.Errorf("%d go in, and %d wait", len(first), len(rest))
	}
}
