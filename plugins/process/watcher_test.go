package process_test

import (
	"context"
	"sync"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// watcher is a Host that reports events and supports nothing else.
type watcher struct {
	plugins.Host
	saw func(text string)

	mu   sync.Mutex
	over bool
	late bool
}

func (*watcher) Messages(context.Context, int) ([]agui.Message, bool, error) { return nil, false, nil }

func (w *watcher) NewID() string { return "m" }

func (w *watcher) Emit(ev agui.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = w.late || w.over
	if ev, ok := ev.(agui.TextMessageContent); ok {
		w.saw(ev.Delta)
	}
	return nil
}
