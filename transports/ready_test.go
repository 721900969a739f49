package transports_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
)

// silent is a plugin that does not say whether it is well.
type silent struct {
	asked atomic.Int64
	over  chan struct{}
}

func (*silent) Info() plugins.Info { return plugins.Info{Name: "silent"} }

func (*silent) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, nil
}

func (s *silent) Check(context.Context) error {
	s.asked.Add(1)
	<-s.over
	return nil
}

// TestNobodyWaitsForWhatIsSilent has many ask whether the server is ready while something does not say so.
func TestNobodyWaitsForWhatIsSilent(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	plugin, reg := &silent{over: make(chan struct{})}, new(host.Registry)
	defer close(plugin.over)
	must(t, reg.Add(plugin))
	must(t, s.Runtime.Replace(t.Context(), reg))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { s.refused(s.do("GET", "/readyz", nil), 503, "not_ready") })
	}
	all.Wait()
	if n := plugin.asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	if n := strings.Count(s.log.String(), "not ready"); n == 0 || n > 20 {
		t.Errorf("%d lines say so", n)
	}
}
