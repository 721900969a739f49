package process_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/process"
)

// The program ends, and is started again.
func TestHealth_FollowsProgram(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789abcdef"
	a, err := process.NewAgent(process.Config{
		Info: plugins.Info{Name: "scorer"}, Command: []string{"python3", "testdata/agent.py"}, Env: map[string]string{"KEY": key},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	if got := a.Health(); got != nil {
		t.Errorf("before it was started: %+v", got)
	}
	settled(t, a)
	first := a.Health()
	if first == nil || !first.OK || first.Detail != "" {
		t.Fatalf("started: %+v", first)
	}
	if res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"exit", 3})}); res.Err == nil {
		t.Fatal("it has not crashed")
	}
	if h := a.Health(); h.OK || h.Since.Before(first.Since) || !strings.Contains(h.Detail, "has ended") {
		t.Errorf("crashed: %+v", h)
	}
	if res := plugintest.Run(t, a, plugintest.Config{Input: steps([]any{"say", "again"})}); res.Err != nil {
		t.Fatal(res.Err)
	}
	if h := a.Health(); !h.OK || !h.Since.After(first.Since) || h.Detail != "" {
		t.Errorf("started again: %+v", h)
	}
}

// The health has the time of the first failure and no secret.
func TestHealth_FailedStart(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789abcdef"
	script := t.TempDir() + "/agent.sh"
	answer := `read line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the key '$KEY' is not known"}}'; sleep 1`
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+answer+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := process.NewToolbox(process.Config{
		Info: plugins.Info{Name: "tools"}, Command: []string{"/bin/sh", script}, Env: map[string]string{"KEY": key}, Stop: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-b.Settled()
	if h := b.Health(); h == nil || h.OK || h.Since.IsZero() || !strings.Contains(h.Detail, "is not known") || strings.Contains(h.Detail, key) {
		t.Errorf("got %+v", h)
	}
}
