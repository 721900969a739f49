package offer

import (
	"context"
	"log/slog"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
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
	o, err := New(reg, false, slog.New(slog.DiscardHandler), func() { replaced++ })
	if err != nil {
		t.Fatal(err)
	}
	if n := o.Concurrency("closing"); n != 3 {
		t.Errorf("its own limit is %d, want 3", n)
	}
	held, again := o.Hold(), o.Hold()
	for range 2 {
		if err := o.Replace(t.Context(), new(host.Registry)); err != nil {
			t.Fatal(err)
		}
	}
	o.Release(held)
	if closed != 0 || replaced != 2 || o.Plugins() == reg {
		t.Errorf("after %d replacements a held offer was closed %d times", replaced, closed)
	}
	if o.Release(again); closed != 1 {
		t.Errorf("its plugin was closed %d times, want once", closed)
	}
	if err := o.Close(t.Context()); err != nil || closed != 1 {
		t.Errorf("closed %d times in the end, %v", closed, err)
	}
}
