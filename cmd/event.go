package cmd

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// event is an event of a run in the seed projection, and its JSON.
type event struct {
	agui.Event
	id   int64 // 0 when it has none
	json []byte
}

// line returns the event as run writes it into a pipe, and as the WebSocket mirror sends it.
func (e event) line() []byte {
	line := []byte(`{`)
	if e.id != 0 {
		line = fmt.Appendf(line, `"id":%d,`, e.id)
	}
	return append(append(append(line, `"event":`...), e.json...), "}\n"...)
}

func decodeEvent(id int64, data []byte) (event, error) {
	ev, err := agui.Decode(data)
	if err != nil {
		return event{}, fmt.Errorf("event %d: %w", id, err)
	}
	return event{ev, id, data}, nil
}

// ends reports whether nothing follows the event in its span.
func (e event) ends() bool {
	t := e.Type()
	return t == agui.TypeRunFinished || t == agui.TypeRunError
}

// progress is what a node tells of how far it is.
type progress struct {
	NodeID   string
	Progress float64
	Message  string
}

func readProgress(e agui.Custom) (p progress, ok bool) {
	ok = e.Name == "node-progress" && json.Unmarshal(e.Value, &p) == nil
	return p, ok
}

// outcome is how a run has ended, as its events tell.
type outcome struct {
	thread, run string
	last        agui.Event // the terminal event, nil for a run that was cancelled before it began
	cancelling  bool       // a person has asked for it
}

func (o *outcome) note(e event) {
	base := e.Common()
	o.thread, o.run = base.ThreadID, base.RunID
	if e.ends() {
		o.last = e.Event
	}
}

// failure returns what made the run fail, if it failed. A run that was cancelled did so too.
func (o *outcome) failure() (e agui.RunError, failed bool) {
	if o.last == nil {
		return agui.RunError{Message: "Run cancelled", Code: codeCancelled}, true
	}
	e, failed = o.last.(agui.RunError)
	return e, failed
}

// asks returns what the run waits for.
func (o *outcome) asks() ([]agui.Interrupt, bool) {
	e, _ := o.last.(agui.RunFinished)
	return e.Outcome.Interrupts, e.Outcome.Type == agui.OutcomeInterrupt
}

// codeCancelled is the code of a run's error that says that it was cancelled.
const codeCancelled = "CANCELLED"

// exit returns the exit code as an error. A run that was over before Ctrl-C could cancel it keeps its own.
func (o *outcome) exit(interrupted bool) error {
	e, failed := o.failure()
	switch {
	case interrupted && failed && e.Code == codeCancelled:
		return exitCode(exitInterrupted)
	case failed:
		return exitCode(exitFailure)
	}
	return nil
}
