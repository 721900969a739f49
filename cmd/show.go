package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

func showCommand() *cobra.Command {
	var server target
	var user string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run with its steps and its calls of models",
		Long: "Show prints a run, its steps, and each call of a model: what the model was sent and answered, its tokens, cost and\n" +
			"time. With --json each of them is a line of JSON: {\"run\"}, then {\"step\"}, then {\"modelCall\"}.\n\n" + clientHelp,
		Example: "  baton runs show r-17\n  baton runs show r-17 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := newClient(cmd, server)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			return c.show(cmd.Context(), user, ids[0], func(p *shownPart) error {
				if asJSON {
					return json.NewEncoder(out).Encode(p)
				}
				_, err := io.WriteString(out, printable(p.text()))
				return err
			})
		},
	}
	clientFlags(cmd, &server)
	addUserFlag(cmd, &user)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the run, each step and each call as a line of JSON")
	return cmd
}

// shownPart is one part of a run.
type shownPart struct {
	Run       *wire.Run            `json:"run,omitempty"`
	Step      *wire.Step           `json:"step,omitempty"`
	ModelCall *wire.WholeModelCall `json:"modelCall,omitempty"`
}

// show reads a run and prints it part by part: the prompts of all calls may be too large for memory.
func (c *client) show(ctx context.Context, user, id string, print func(*shownPart) error) error {
	var run wire.Run
	if err := c.getWithRetry(ctx, c.run(user, id), &run); err != nil {
		return err
	}
	if err := print(&shownPart{Run: &run}); err != nil {
		return err
	}
	err := eachOf(ctx, c, c.run(user, id, "steps"), func(s *wire.Step) error { return print(&shownPart{Step: s}) })
	if err != nil {
		return err
	}
	return eachOf(ctx, c, c.run(user, id, "model-calls"), func(call *wire.ModelCall) error {
		var whole wire.WholeModelCall
		if err := c.getWithRetry(ctx, c.run(user, id, "model-calls", url.PathEscape(call.ID)), &whole); err != nil {
			return err
		}
		return print(&shownPart{ModelCall: &whole})
	})
}

// eachOf calls f for each item of a list with pages.
func eachOf[T any](ctx context.Context, c *client, path string, f func(*T) error) error {
	at, err := url.Parse(path)
	if err != nil {
		return err
	}
	query := at.Query()
	query.Set("limit", "500")
	for {
		at.RawQuery = query.Encode()
		var page wire.Page[T]
		if err := c.getWithRetry(ctx, at.String(), &page); err != nil {
			return err
		}
		for i := range page.Items {
			if err := f(&page.Items[i]); err != nil {
				return err
			}
		}
		if page.NextCursor == nil {
			return nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// text returns the part for people.
func (p *shownPart) text() string {
	var t showText
	switch {
	case p.Run != nil:
		t.run(p.Run)
	case p.Step != nil:
		t.step(p.Step)
	default:
		t.call(p.ModelCall)
	}
	return t.String()
}

// showText is the text of one part.
type showText struct{ strings.Builder }

func (t *showText) run(r *wire.Run) {
	t.line("run %s %s: %s, thread %s, user %s", r.ID, r.Status, r.WorkflowID, r.ThreadID, r.User)
	facts := []string{"created " + r.CreatedAt.Format(time.RFC3339)}
	if r.StartedAt != nil && r.FinishedAt != nil {
		facts = append(facts, "took "+r.FinishedAt.Sub(*r.StartedAt).String())
	}
	if r.InputTokens+r.OutputTokens > 0 {
		facts = append(facts, tokens(r.InputTokens, r.OutputTokens, r.Cost))
	}
	if r.Waiting != nil {
		facts = append(facts, waits(r.Waiting))
	}
	t.line("  %s", strings.Join(facts, ", "))
	t.field("asked", r.InputQuery)
	if r.OutputSummary != nil {
		t.field("answered", *r.OutputSummary)
	}
	t.failure(r.Error)
}

func (t *showText) step(s *wire.Step) {
	took := ""
	if s.DurationMs != nil {
		took = fmt.Sprintf(", took %d ms", *s.DurationMs)
	}
	item := ""
	if s.Item != nil {
		item = fmt.Sprintf("[%d] %s", s.Item.Index, s.Item.Key)
	}
	t.line("step %d %s: %s%s%s", s.StepNumber, s.Status, s.NodeID, item, took)
	if s.Error != nil {
		t.failure(&agui.OutputError{Code: *s.ErrorCode, Message: *s.Error})
	}
}

func (t *showText) call(c *wire.WholeModelCall) {
	var facts []string
	for _, name := range []*string{c.Provider, c.Model, c.FinishReason} {
		if name != nil {
			facts = append(facts, *name)
		}
	}
	if c.Usage != nil {
		facts = append(facts, tokens(c.Usage.InputTokens, c.Usage.OutputTokens, c.Cost))
	}
	if c.FirstTokenMs != nil {
		facts = append(facts, fmt.Sprintf("first token after %d ms", *c.FirstTokenMs))
	}
	if c.DurationMs != nil {
		facts = append(facts, fmt.Sprintf("took %d ms", *c.DurationMs))
	}
	t.line("model call %s of step %d %s: %s", c.ID, c.Step, c.Status, strings.Join(facts, ", "))
	t.failure(c.Error)
	if c.Sent == nil {
		t.line("  its prompt is not kept")
	} else {
		t.prompt(c.Sent)
	}
	if a := c.Answered; a != nil {
		if a.Reasoning != "" {
			t.field("reasoning", a.Reasoning)
		}
		t.field("answered", a.Text)
		t.calls(a.ToolCalls)
	}
}

func (t *showText) prompt(sent *wire.SentPrompt) {
	if sent.System != "" {
		t.field("system", sent.System)
	}
	if h := sent.Hidden; h != nil {
		t.line("  only operators see the instructions (%d bytes) and %d tools (%d bytes)", h.SystemBytes, h.Tools, h.ToolBytes)
	}
	for _, tool := range sent.Tools {
		t.line("  tool %s: %s", tool.Name, tool.Description)
	}
	t.line("  parameters %s", sent.Parameters)
	for _, c := range sent.Changes {
		t.line("  %s %s: %s", c.Kind, c.Of, c.Why)
	}
	for i := range sent.Messages {
		m := &sent.Messages[i]
		content := string(m.Content) // parts, unless it is a text
		_ = json.Unmarshal(m.Content, &content)
		t.field(strings.TrimSpace(string(m.Role)+" "+m.ToolCallID), content)
		t.calls(m.ToolCalls)
	}
}

func (t *showText) calls(calls []agui.ToolCall) {
	for _, c := range calls {
		t.line("    calls %s %s %s", c.Name, c.Arguments, c.ID)
	}
}

func (t *showText) failure(err *agui.OutputError) {
	if err != nil {
		t.line("  failed: %s (%s)", err.Message, err.Code)
	}
}

// field adds a name with a text of several lines.
func (t *showText) field(name, text string) {
	t.line("  %s", strings.ReplaceAll(strings.TrimSpace(name+": "+text), "\n", "\n    "))
}

func (t *showText) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// tokens describes a use of tokens, and its cost if that is known.
func tokens(in, out int64, cost *float64) string {
	text := fmt.Sprintf("%d tokens in, %d out", in, out)
	if cost != nil {
		text += fmt.Sprintf(", cost %g", *cost)
	}
	return text
}
