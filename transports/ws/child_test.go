package ws_test

import (
	"testing"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

// child is a server in a process of its own.
type child struct {
	*server // of which it has only the address
	*transporttest.Child
}

func spawn(tb testing.TB, cfg transports.StreamConfig) *child {
	tb.Helper()
	c := transporttest.Spawn(tb, cfg)
	return &child{&server{Server: c.Server}, c}
}

// TestChild is the child, when there is a parent.
func TestChild(t *testing.T) {
	t.Parallel()
	transporttest.BeChild(t, func(cfg transports.StreamConfig) *transporttest.Server { return serve(t, cfg).Server })
}
