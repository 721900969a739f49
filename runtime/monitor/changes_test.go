package monitor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/monitor"
)

// notified reports whether Next returns at once.
func notified(t *testing.T, w *monitor.Watch) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // select picks either if both are ready
		switch err := w.Next(ctx); {
		case err == nil:
			return true
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	return false
}

func TestChanges_NotifyViewersOfTheList(t *testing.T) {
	t.Parallel()
	var c monitor.Changes
	c.Tell("p", "alice") // no watch is open
	alice, bob, all, far := c.Watch("p", "alice", false), c.Watch("p", "bob", false), c.Watch("p", "vera", true), c.Watch("q", "alice", true)
	again := c.Watch("p", "alice", false)
	for range 3 { // several changes are one notification
		c.Tell("p", "alice")
	}
	if !notified(t, alice) || !notified(t, again) || !notified(t, all) {
		t.Error("a viewer of the changed list was not notified")
	}
	if notified(t, bob) || notified(t, far) {
		t.Error("a viewer of another list was notified")
	}
	if notified(t, alice) || notified(t, all) {
		t.Error("one change was notified twice")
	}
	again.Close()
	c.Tell("p", "alice")
	c.Tell("q", "bob")
	if !notified(t, alice) || !notified(t, all) || !notified(t, far) || notified(t, bob) {
		t.Error("a later change was not notified")
	}
	for _, w := range []*monitor.Watch{alice, bob, all, far} {
		w.Close()
	}
	c.Tell("p", "alice")
	if fresh := c.Watch("p", "alice", false); notified(t, fresh) {
		t.Error("a watch was notified of an earlier change")
	}
}
