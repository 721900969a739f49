package hosttest

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// left returns the texts of messages and the names of their calls.
func left(messages []agui.Message) (texts []string) {
	for i := range messages {
		m := &messages[i]
		if m.Role == agui.RoleUser {
			continue
		}
		words := []string{string(m.Role), m.Text()}
		for _, c := range m.ToolCalls {
			words = append(words, "calls", c.Name)
		}
		texts = append(texts, strings.Join(words, " "))
	}
	return texts
}

// muse reasons, writes a text and announces the calls that it mentions.
func muse(ctx context.Context, run *plugins.Run) (calls []plugins.ToolCall, err error) {
	if _, err := run.Reason().Write([]byte("hm")); err != nil {
		return nil, err
	}
	if _, err := run.Text().Write([]byte("first")); err != nil {
		return nil, err
	}
	if _, err := run.Text().Write([]byte("let me see")); err != nil {
		return nil, err
	}
	return announce(ctx, run, `count {"n":1}`, `count {"n":2}`)
}

// mused returns the messages that remain after muse and its calls.
func mused() []string {
	return []string{"reasoning hm", "assistant first", "assistant let me see calls count calls count", "tool 1", "tool 2"}
}

func testTakenBack(t *testing.T, s *suite) {
	out := s.check("1, 2", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var asked []plugins.ToolCall
		err := run.Do(ctx, "think", &asked, func(ctx context.Context) (err error) {
			if _, err := muse(ctx, run); err != nil {
				return err
			}
			if err := run.Retract(ctx); err != nil {
				return err
			}
			asked, err = muse(ctx, run)
			return err
		})
		if err != nil {
			return "", err
		}
		return one(run.CallTools(ctx, asked[0]))(run.CallTools(ctx, asked[1]))
	})
	if got := withoutLast(left(out.Messages)); !slices.Equal(got, mused()) {
		t.Errorf("the log amounts to %q", got)
	}
}

func testTakenBackByCrash(t *testing.T, s *suite) {
	var lives atomic.Int64
	out := s.check("1, 2", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		var asked []plugins.ToolCall
		err := run.Do(ctx, "think", &asked, func(ctx context.Context) (err error) {
			if asked, err = muse(ctx, run); err != nil {
				return err
			}
			if lives.Add(1) > 2 {
				return nil
			}
			if err := run.Do(ctx, "stored", nil, func(context.Context) error { return nil }); err != nil {
				return err
			}
			return s.die(ctx)
		})
		if err != nil {
			return "", err
		}
		return one(run.CallTools(ctx, asked[0]))(run.CallTools(ctx, asked[1]))
	})
	if got := withoutLast(left(out.Messages)); !slices.Equal(got, mused()) {
		t.Errorf("the log amounts to %q", got)
	}
}

func testAttached(t *testing.T, s *suite) {
	var lives atomic.Int64
	out := s.check("ok", Case{Plugins: counters()}, func(ctx context.Context, run *plugins.Run) (string, error) {
		err := run.Do(ctx, "think", nil, func(ctx context.Context) error {
			if err := run.AttachValue(ctx, "none"); err != nil {
				return err
			}
			if _, err := muse(ctx, run); err != nil {
				return err
			}
			if err := run.AttachValue(ctx, "retracted"); err != nil {
				return err
			}
			if err := run.Retract(ctx); err != nil {
				return err
			}
			if _, err := muse(ctx, run); err != nil {
				return err
			}
			if err := run.AttachValue(ctx, "v"); err != nil || lives.Add(1) > 1 {
				return err
			}
			if err := run.Do(ctx, "stored", nil, func(context.Context) error { return nil }); err != nil {
				return err
			}
			return s.die(ctx)
		})
		if err != nil {
			return "", err
		}
		if err := run.AttachValue(ctx, "outside"); err == nil {
			return "attached outside of a Do", nil
		}
		return "ok", nil
	})
	for _, m := range out.Messages {
		if want := map[string]string{"first": "v"}[m.Text()]; m.EncryptedValue != want {
			t.Errorf("the value of %q is %q", m.Text(), m.EncryptedValue)
		}
	}
}

// one joins two outputs into one answer.
func one(first []agui.ToolOutput, err error) func([]agui.ToolOutput, error) (string, error) {
	return func(second []agui.ToolOutput, secondErr error) (string, error) {
		if err == nil {
			err = secondErr
		}
		return summaries(append(first, second...)), err
	}
}

// withoutLast drops the message with the answer.
func withoutLast(texts []string) []string { return texts[:max(0, len(texts)-1)] }
