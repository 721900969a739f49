package cmd

import (
	"fmt"
	"io"
)

// newView returns the view that --output names.
func newView(w io.Writer, output string) (view, error) {
	switch {
	case output == "json" || output == "auto" && !isTerminal(w):
		return lines{w}, nil
	case output == "text" || output == "auto":
		return newTranscript(w), nil
	}
	return nil, &usageError{fmt.Errorf("--output: want text, json or auto, got %q", output)}
}

// lines writes each event as a line of JSON.
type lines struct{ w io.Writer }

func (v lines) show(ev event) error {
	_, err := v.w.Write(ev.line())
	return err
}

func (v lines) end(outcome) error { return nil }
