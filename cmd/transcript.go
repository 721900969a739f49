package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/batonrun/baton/runtime/agui"
)

// transcript writes a run for a person: its text as it comes, left to the terminal to wrap, and around it
// what is done, dimmed and cut to a line each.
type transcript struct {
	w      io.Writer
	colour bool
	began  time.Time

	open    bool              // a text is under way
	column  int               // of its last line, 0 at the start of one
	waiting []func()          // lines that come when it is complete
	calls   map[string]string // open tool calls: the tool's name and the arguments so far
	err     error             // of the first write that failed
}

// The styles, as terminals know them.
const (
	plain = "\x1b[0m"
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
)

// maxDetail is how many bytes of a call are kept for a line that shows its beginning.
const maxDetail = 16 << 10

func newTranscript(w io.Writer) *transcript {
	return &transcript{
		w: w, colour: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		began: time.Now(), calls: make(map[string]string),
	}
}

func (t *transcript) show(ev event) error {
	switch e := ev.Event.(type) {
	case agui.TextMessageStart, agui.ReasoningMessageStart:
		t.open = true
	case agui.TextMessageContent:
		t.text(e.Delta, "")
	case agui.ReasoningMessageContent:
		t.text(e.Delta, dim)
	case agui.TextMessageEnd:
		t.close()
		if e.Output != nil && e.Output.Status == agui.StatusFailed {
			t.detail("… cut short")
		}
	case agui.ReasoningMessageEnd:
		t.close()
	case agui.StepStarted:
		t.detail("▸ " + e.StepName)
	case agui.ToolCallStart:
		t.calls[e.ToolCallID] = e.ToolCallName + " "
	case agui.ToolCallArgs:
		if args := t.calls[e.ToolCallID]; len(args) < maxDetail {
			t.calls[e.ToolCallID] = args + e.Delta
		}
	case agui.ToolCallEnd:
		t.detail("→ " + t.calls[e.ToolCallID])
		delete(t.calls, e.ToolCallID)
	case agui.ToolCallResult:
		if e.Output != nil && e.Output.Status == agui.StatusFailure {
			t.line("← "+e.Content, red)
		} else {
			t.detail("← " + e.Content)
		}
	case agui.Custom:
		if p, ok := readProgress(e); ok {
			t.detail(fmt.Sprintf("▸ %s %.0f%% %s", p.NodeID, 100*p.Progress, p.Message))
		}
	}
	return t.err
}

func (t *transcript) end(o outcome) error {
	t.close()
	took := time.Since(t.began).Round(10 * time.Millisecond)
	e, failed := o.failure()
	asks, waits := o.asks()
	switch {
	case waits:
		for i := range asks {
			t.line("? "+asks[i].Message+" ("+asks[i].ID+")", "")
		}
		t.line(fmt.Sprintf("waits for an answer after %v · run %s · to answer: baton chat --thread %s", took, o.run, o.thread), dim)
	case !failed:
		t.line(fmt.Sprintf("completed in %v · run %s · thread %s", took, o.run, o.thread), dim)
	case e.Code == codeCancelled:
		t.line(fmt.Sprintf("cancelled after %v · run %s", took, o.run), red)
	default:
		t.line(fmt.Sprintf("failed after %v: %s (%s) · run %s", took, e.Message, e.Code, o.run), red)
	}
	return t.err
}

// text goes on with the text under way.
func (t *transcript) text(s, style string) {
	s = printable(s)
	t.write(s, style)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		t.column = 0
		s = s[i+1:]
	}
	t.column += utf8.RuneCountInString(s)
}

// close ends the text under way and writes the lines that have waited for it.
func (t *transcript) close() {
	t.open = false
	if t.column > 0 {
		t.write("\n", "")
		t.column = 0
	}
	for _, w := range t.waiting {
		w()
	}
	t.waiting = nil
}

// detail writes a dimmed line, or the beginning of one that is too long for the terminal.
func (t *transcript) detail(s string) {
	s = strings.Join(strings.Fields(printable(s)), " ")
	t.line(runewidth.Truncate(s, terminalWidth(t.w), "…"), dim)
}

// line writes a line of its own, when no text is under way.
func (t *transcript) line(s, style string) {
	if t.open {
		t.waiting = append(t.waiting, func() { t.line(s, style) })
		return
	}
	t.write(strings.TrimSpace(printable(s)), style)
	t.write("\n", "")
}

func (t *transcript) write(s, style string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.w, t.styled(s, style))
	}
}

func (t *transcript) styled(s, style string) string {
	if !t.colour || style == "" {
		return s
	}
	return style + s + plain
}

// printable returns s without control characters and those that reorder a line, so that no agent's text commands the
// terminal or looks like another.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0: // controls
			return -1
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // turn the direction of what follows
			return -1
		}
		return r
	}, s)
}
