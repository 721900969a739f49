// Package demo is a workflow that demonstrates a server: plan and retrieve in parallel, then draft, then review, with
// reasoning, texts, tool calls, progress and state. It takes about three seconds, needs no key and calls the tools
// calculator, clock and sleep.
package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/runtime/agui"
)

// Plugins returns the workflow demo and its agents demo-plan, demo-retrieve, demo-draft and demo-review.
func Plugins() []plugins.Plugin {
	return []plugins.Plugin{
		worker{"demo-plan", "Plans an article.", plan},
		worker{"demo-retrieve", "Looks up sources.", retrieve},
		worker{"demo-draft", "Drafts an article.", draft},
		worker{"demo-review", "Reviews an article.", review},
		plugins.Workflow{
			Name:        "demo",
			Description: "Writes a short article: plan and retrieve, draft, review.",
			Nodes: []plugins.Node{
				{ID: "plan", Agent: "demo-plan"},
				{ID: "retrieve", Agent: "demo-retrieve", Retry: plugins.Retry{Retries: 1}},
				{ID: "draft", Agent: "demo-draft", Needs: []string{"plan", "retrieve"}},
				{ID: "review", Agent: "demo-review", Needs: []string{"draft"}, Input: "query"},
			},
		},
	}
}

// worker is one agent of the workflow.
type worker struct {
	name, description string
	run               func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error)
}

var _ plugins.Agent = worker{}

func (w worker) Info() plugins.Info {
	return plugins.Info{Name: w.name, Description: w.description}
}

func (w worker) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	return w.run(ctx, run)
}

// wordPause is the pause between words of a text.
const wordPause = 12 * time.Millisecond

func plan(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	topic := topicOf(run)
	err = run.Do(ctx, "think", nil, func(ctx context.Context) error {
		w := run.Reason()
		text := fmt.Sprintf("The reader wants to know about %s. Three parts will do: what it is, why it matters, what to do next.", topic)
		if err := echo.Stream(ctx, w, text, wordPause); err != nil {
			return err
		}
		return w.Close()
	})
	if err != nil {
		return out, err
	}
	if err := run.Progress(0.5, "outlining"); err != nil {
		return out, err
	}
	parts := []string{"what it is", "why it matters", "what to do next"}
	if err := run.State(map[string]any{"topic": topic, "plan": parts}); err != nil {
		return out, err
	}
	out.KeyPoints = parts
	return out, say(ctx, run, "plan", fmt.Sprintf("I will write about %s in three parts: %s.", topic, strings.Join(parts, ", ")))
}

func retrieve(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	if _, err := run.CallTool(ctx, "clock", nil); err != nil {
		return out, err
	}
	sources := []string{"handbook", "archive", "interviews"}
	for i, source := range sources {
		if err := run.Progress(float64(i)/float64(len(sources)), "searching the "+source); err != nil {
			return out, err
		}
		if _, err := run.CallTool(ctx, "sleep", map[string]int{"ms": 250}); err != nil {
			return out, err
		}
		if err := run.State(map[string]any{"sources": map[string]string{source: "found"}}); err != nil {
			return out, err
		}
	}
	out.KeyPoints = sources
	return out, say(ctx, run, "retrieve", fmt.Sprintf("I found %d sources.", len(sources)))
}

func draft(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	length, err := run.CallTool(ctx, "calculator", map[string]string{"expression": "3 * (20 + 5)"})
	if err != nil {
		return out, err
	}
	if err := run.Progress(0.1, "writing about "+length.ResultSummary+" words"); err != nil {
		return out, err
	}
	topic := topicOf(run)
	text := fmt.Sprintf("%s is simpler than it looks. There is one idea behind it, and the rest follows: "+
		"do one thing, write it down, then show it.\n\nIt matters because what is written down is not lost. "+
		"Whoever comes later reads the same words in the same order, and whoever leaves can come back to the line "+
		"where they stopped.\n\nWhat to do next? Start small, look at what happened, and go on from there.", upper(topic))
	if err := run.State(map[string]any{"draft": map[string]int{"words": len(strings.Fields(text))}}); err != nil {
		return out, err
	}
	out.ResultType = "article"
	return out, say(ctx, run, "draft", text)
}

func review(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	for i, what := range []string{"facts", "grammar"} {
		if err := run.Progress(float64(i)/2, "checking the "+what); err != nil {
			return out, err
		}
		if _, err := run.CallTool(ctx, "sleep", map[string]int{"ms": 200}); err != nil {
			return out, err
		}
	}
	if err := run.State(map[string]any{"review": "approved"}); err != nil {
		return out, err
	}
	if err := run.Progress(1, "approved"); err != nil {
		return out, err
	}
	out.KeyPoints = []string{"the facts are right", "it is short enough"}
	out.SuggestedActions = []string{"publish it", "ask for a longer version"}
	return out, say(ctx, run, "review", fmt.Sprintf("The article about %s is ready. The facts are right, and it is short enough to be read to the end.", topicOf(run)))
}

// say writes a message word by word.
func say(ctx context.Context, run *plugins.Run, stage, text string) error {
	w := run.Message(agui.RoleAssistant, stage)
	if err := echo.Stream(ctx, w, text, wordPause); err != nil {
		return err
	}
	return w.Close()
}

// topicOf returns the article's topic: the first line of the query.
func topicOf(run *plugins.Run) string {
	line, _, _ := strings.Cut(strings.TrimSpace(run.Input.Query), "\n")
	topic := []rune(strings.TrimRight(line, " \t\r.!?"))
	switch {
	case len(topic) == 0:
		return "this server"
	case len(topic) > 80:
		return string(topic[:80]) + "…"
	}
	return string(topic)
}

// upper returns s with its first letter in upper case.
func upper(s string) string {
	r := []rune(s)
	return strings.ToUpper(string(r[:1])) + string(r[1:])
}
