package exec

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// closing is an agent that counts its calls of Close.
type closing struct{ n *int }

func (closing) Info() plugins.Info { return plugins.Info{Name: "closing", Concurrency: 3} }

func (closing) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, nil
}

func (closing) Start(context.Context) error { return nil }

func (c closing) Close(context.Context) error { *c.n++; return nil }

func TestOffers_CloseOnceUnheld(t *testing.T) {
	t.Parallel()
	closed, replaced := 0, 0
	reg := new(host.Registry)
	if err := reg.Add(closing{&closed}); err != nil {
		t.Fatal(err)
	}
	if err := reg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := NewOffers(reg, false, 0, slog.New(slog.DiscardHandler), func() { replaced++ })
	if err != nil {
		t.Fatal(err)
	}
	if n := o.Concurrency("closing"); n != 3 {
		t.Errorf("its own limit is %d, want 3", n)
	}
	held, again := o.hold(), o.hold()
	for range 2 {
		if err := o.Replace(t.Context(), new(host.Registry)); err != nil {
			t.Fatal(err)
		}
	}
	o.release(held)
	if closed != 0 || replaced != 2 || o.Plugins() == reg {
		t.Errorf("after %d replacements a held offer was closed %d times", replaced, closed)
	}
	if o.release(again); closed != 1 {
		t.Errorf("its plugin was closed %d times, want once", closed)
	}
	if err := o.Close(t.Context()); err != nil || closed != 1 {
		t.Errorf("closed %d times in the end, %v", closed, err)
	}
}

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
