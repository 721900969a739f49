// Package echo is an agent that repeats its input. It needs no key and demonstrates streaming.
package echo

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"
	"unicode"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Agent streams the last user message back word by word.
type Agent struct{}

var _ plugins.Agent = Agent{}

// Info describes the agent, which is named echo.
func (Agent) Info() plugins.Info {
	return plugins.Info{Name: "echo", Description: "Streams the last user message back word by word."}
}

// Run writes run.Input.Query as one message.
func (Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	w := run.Text()
	if err := Stream(ctx, w, run.Input.Query, 0); err != nil {
		return agui.WorkerOutput{}, err
	}
	return agui.WorkerOutput{Answer: run.Input.Query}, w.Close()
}

// Stream writes text to w word by word with a pause between words. It fails with ctx's cause once ctx is done.
func Stream(ctx context.Context, w io.Writer, text string, pause time.Duration) error {
	first, beat := true, Beat{Every: pause}
	for word := range words(text) {
		if !first {
			if err := beat.Wait(ctx); err != nil {
				return err
			}
		}
		first = false
		if _, err := io.WriteString(w, word); err != nil {
			return err
		}
	}
	return nil
}

// words yields the words of text, each with its leading space. Trailing space comes alone.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			word := strings.TrimLeftFunc(text, unicode.IsSpace)
			end := len(text)
			if i := strings.IndexFunc(word, unicode.IsSpace); i >= 0 {
				end = len(text) - len(word) + i
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// Beat is a steady pause. It shortens the pause after a late timer, so that the mean is Every. The zero value does not
// pause.
type Beat struct {
	Every time.Duration

	next time.Time // when the last pause should have ended
}

// Wait pauses once, or fails with ctx's cause if ctx is done first.
func (b *Beat) Wait(ctx context.Context) error {
	if b.Every <= 0 {
		return context.Cause(ctx)
	}
	now := time.Now()
	if b.next = b.next.Add(b.Every); b.next.Before(now) { // the first pause, or very late
		b.next = now.Add(b.Every)
	}
	timer := time.NewTimer(b.next.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
