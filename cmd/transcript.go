package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/batonrun/baton/runtime/agui"
)

// transcript writes a run as text. The terminal wraps the run's own text; steps and tool calls are dimmed and cut to one line
// each.
type transcript struct {
	w      io.Writer
	colour bool

	text    markdown          // the message so far
	open    bool              // a message has started and not ended
	midline bool              // the last line of the output has not ended
	waiting []func()          // lines to write after the message
	calls   map[string]string // open tool calls: the tool's name and the arguments so far
	err     error             // the first failed write
}

// Styles, as ANSI escape sequences.
const (
	plain = "\x1b[0m"
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
)

// maxDetail bounds the bytes of a call's arguments that are kept for its line.
const maxDetail = 16 << 10

func newTranscript(w io.Writer) *transcript {
	return &transcript{
		w: w, colour: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		calls: make(map[string]string),
	}
}

func (t *transcript) show(ev event) error {
	switch e := ev.Event.(type) {
	case agui.TextMessageStart, agui.ReasoningMessageStart:
		t.open = true
	case agui.TextMessageContent:
		t.write(t.rendered(e.Delta), "")
	case agui.ReasoningMessageContent:
		t.write(printable(e.Delta), dim)
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
	took := o.took().Round(10 * time.Millisecond)
	e, failed := o.failure()
	asks, waits := o.interrupts()
	switch {
	case waits:
		for i := range asks {
			t.question(&asks[i])
		}
		t.line(fmt.Sprintf("waiting for an answer after %v · run %s · to answer: baton chat --thread %s", took, o.run, o.thread), dim)
	case !failed:
		t.line(fmt.Sprintf("completed in %v · run %s · thread %s", took, o.run, o.thread), dim)
	case e.Code == codeCancelled:
		t.line(fmt.Sprintf("cancelled after %v · run %s", took, o.run), red)
	default:
		t.line(fmt.Sprintf("failed after %v: %s (%s) · run %s", took, e.Message, e.Code, o.run), red)
	}
	return t.err
}

// rendered returns the next text of a message with its Markdown styled, on a terminal.
func (t *transcript) rendered(s string) string {
	if s = printable(s); t.colour {
		return t.text.render(s)
	}
	return s
}

// close ends the open message and writes the waiting lines.
func (t *transcript) close() {
	t.open = false
	t.write(t.text.flush(), "")
	if t.midline {
		t.write("\n", "")
	}
	for _, w := range t.waiting {
		w()
	}
	t.waiting = nil
}

// detail writes a dimmed line, cut to the width of the terminal.
func (t *transcript) detail(s string) {
	s = strings.Join(strings.Fields(printable(s)), " ")
	t.line(runewidth.Truncate(s, terminalWidth(t.w), "…"), dim)
}

// line writes a line, after the open message if there is one.
func (t *transcript) line(s, style string) {
	if t.open {
		t.waiting = append(t.waiting, func() { t.line(s, style) })
		return
	}
	t.write(strings.TrimRight(strings.TrimLeft(printable(s), "\n"), " \t\n"), style)
	t.write("\n", "")
}

func (t *transcript) write(s, style string) {
	if t.err == nil && s != "" {
		t.midline = !strings.HasSuffix(s, "\n")
		_, t.err = io.WriteString(t.w, t.styled(s, style))
	}
}

func (t *transcript) styled(s, style string) string {
	if !t.colour || style == "" {
		return s
	}
	return style + s + plain
}

// printable removes control characters and those that change the direction of text, so that an agent's text can neither control
// the terminal nor disguise itself.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0: // controls
			return -1
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // change the direction of text
			return -1
		}
		return r
	}, s)
}
