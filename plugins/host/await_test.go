package host_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// late is a toolbox whose tools come late.
type late struct {
	name    string
	settled chan struct{}
}

func (l *late) Info() plugins.Info       { return plugins.Info{Name: l.name} }
func (l *late) Tools() []plugins.Tool    { return nil }
func (l *late) Settled() <-chan struct{} { return l.settled }

// Await waits for the toolboxes of its patterns alone, and not for ever.
func TestRegistry_Await(t *testing.T) {
	for pattern, waits := range map[string]bool{
		"files.read": true, "files.*": true, "*": true, "f*": true, "files*": true, "?iles.read": true, "[a-z]*": true, `fi\les.read`: true,
		"other.*": false, "file": false, "files": false, "filesystem.*": false, "web.get": false, "": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			slow, quick := &late{"files", make(chan struct{})}, &late{"web", make(chan struct{})}
			close(quick.settled)
			r := new(host.Registry)
			if err := r.Add(slow, quick); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.Settled("files.read") || !r.Settled("web.get") || !r.Settled("clock") {
				t.Error("what is settled")
			}
			if r.Await(t.Context(), pattern); (time.Since(begun) > 0) != waits || time.Since(begun) > 10*time.Second {
				t.Errorf("%q waits %v", pattern, time.Since(begun))
			}
			begun = time.Now()
			if r.Await(t.Context(), pattern); waits && time.Since(begun) > 0 {
				t.Errorf("%q waits again, %v", pattern, time.Since(begun))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		slow := &late{"files", make(chan struct{})}
		r := new(host.Registry)
		if err := r.Add(slow); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*time.Second, func() { close(slow.settled) })
		if r.For("p").Await(t.Context(), "files.*"); time.Since(begun) != 3*time.Second {
			t.Errorf("waits %v", time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Await(ctx, "files.*")
	})
}
