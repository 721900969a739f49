package plugins_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// agent is a worker made of a function.
type agent func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error)

func (agent) Info() plugins.Info { return plugins.Info{Name: "worker"} }

func (a agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	return a(ctx, run)
}

// named is an agent with a name.
type named struct {
	agent
	name string
}

func (n named) Info() plugins.Info { return plugins.Info{Name: n.name} }

// tool is a tool made of a function.
type tool func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error)

func (tool) Info() plugins.Info { return plugins.Info{Name: "tool"} }

func (f tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	return f(ctx, call)
}

// say writes one message in one delta.
func say(t *testing.T, run *plugins.Run, text string) {
	t.Helper()
	w := run.Text()
	if _, err := io.WriteString(w, text); err != nil {
		t.Errorf("write %q: %v", text, err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("close %q: %v", text, err)
	}
}

// script renders events for comparison: "+1" and "-1" for a message's start and end with its answer, deltas in quotes,
// and the type of any other event, without RUN_STARTED and RUN_FINISHED.
func script(events []agui.Event) string {
	var words []string
	for _, ev := range events {
		switch e := ev.(type) {
		case agui.RunStarted, agui.RunFinished, agui.RunError:
		case agui.TextMessageStart:
			words = append(words, "+"+short(e.MessageID))
		case agui.TextMessageContent:
			words = append(words, fmt.Sprintf("%q", e.Delta))
		case agui.TextMessageEnd:
			words = append(words, fmt.Sprintf("-%s(%s %s)", short(e.MessageID), e.Output.Status, e.Output.Answer))
		case agui.ReasoningMessageStart:
			words = append(words, "+r"+short(e.MessageID))
		case agui.ReasoningMessageContent:
			words = append(words, fmt.Sprintf("%q", e.Delta))
		case agui.ReasoningMessageEnd:
			words = append(words, "-r"+short(e.MessageID))
		case agui.ReasoningStart, agui.ReasoningEnd:
		default:
			words = append(words, string(ev.Type()))
		}
	}
	return strings.Join(words, " ")
}

func short(id string) string { return strings.TrimPrefix(id, "message-") }

// check runs a and compares its script.
func check(t *testing.T, a agent, cfg plugintest.Config, want string) *plugintest.Result {
	t.Helper()
	res := plugintest.Run(t, a, cfg)
	if got := script(res.Events); got != want {
		t.Errorf("got  %s (%v)\nwant %s", got, res.Err, want)
	}
	return res
}
