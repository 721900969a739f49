package monitor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime/monitor"
)

// told reports whether a watch has something to tell now.
func told(t *testing.T, w *monitor.Watch) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // of two that are ready, select takes either
		switch err := w.Next(ctx); {
		case err == nil:
			return true
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	return false
}

func TestChangesAreToldToWhoSeesThem(t *testing.T) {
	var c monitor.Changes
	c.Tell("p", "alice") // nobody looks
	alice, bob, all, far := c.Watch("p", "alice", false), c.Watch("p", "bob", false), c.Watch("p", "vera", true), c.Watch("q", "alice", true)
	again := c.Watch("p", "alice", false)
	for range 3 { // many are one
		c.Tell("p", "alice")
	}
	if !told(t, alice) || !told(t, again) || !told(t, all) {
		t.Error("who sees a change is not told")
	}
	if told(t, bob) || told(t, far) {
		t.Error("a neighbour is told")
	}
	if told(t, alice) || told(t, all) {
		t.Error("what was told is told again")
	}
	again.Close()
	c.Tell("p", "alice")
	c.Tell("q", "bob")
	if !told(t, alice) || !told(t, all) || !told(t, far) || told(t, bob) {
		t.Error("what changes later is not told to who sees it alone")
	}
	for _, w := range []*monitor.Watch{alice, bob, all, far} {
		w.Close()
	}
	c.Tell("p", "alice")
	if fresh := c.Watch("p", "alice", false); told(t, fresh) {
		t.Error("a watch is told what was before it")
	}
}
