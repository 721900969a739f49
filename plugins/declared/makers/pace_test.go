package makers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/declared/makers"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/plugintest"
)

// The limit is that of three servers, of which this one has a third.
func TestLimits_HoldForAllAgentsOfAProvider(t *testing.T) {
	makers.Share(3)
	defer makers.Share(1)
	atOnce := make(chan struct{}, 1)
	server := llmtest.New(func(*llmtest.Request) llmtest.Script {
		select {
		case atOnce <- struct{}{}:
			<-time.After(5 * time.Millisecond) // for others to come
			<-atOnce
		default:
			t.Error("two calls at once")
		}
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}
	})
	defer server.Close()
	file := filepath.Join(t.TempDir(), "baton.yaml")
	var text strings.Builder
	text.WriteString("agents:\n")
	for _, name := range []string{"a", "b"} {
		text.WriteString("  " + name + ": {provider: openai, model: m, api_key: none, base_url: '" + server.URL + "'}\n")
	}
	text.WriteString("providers: {'" + server.URL + "': {concurrent: 3}}\n")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := declared.Load(file, declared.Config{Makers: makers.All()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for i := range 20 {
		agent := set.Plugins()[i%2].(plugins.Agent)
		go func() {
			done <- plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go", User: "u"}}).Err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
