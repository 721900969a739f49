package cmd

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// event is an event of a run in the seed projection, and its JSON.
type event struct {
	agui.Event
	id   int64 // 0 if it has none
	json []byte
}

// line returns the event in the format of baton run in a pipe, which is also that of the WebSocket mirror.
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

// ends reports whether the event is the last one of its span.
func (e event) ends() bool {
	t := e.Type()
	return t == agui.TypeRunFinished || t == agui.TypeRunError
}

// progress is the progress of a node.
type progress struct {
	NodeID   string
	Progress float64
	Message  string
}

func readProgress(e agui.Custom) (p progress, ok bool) {
	ok = e.Name == "node-progress" && json.Unmarshal(e.Value, &p) == nil
	return p, ok
}

// outcome is the result of a run, computed from its events.
type outcome struct {
	thread, run string
	began       int64      // milliseconds since 1970, 0 for a run that was cancelled before it started
	last        agui.Event // the terminal event; nil for a run that was cancelled before it started
	cancelling  bool       // the user has cancelled the run
}

func (o *outcome) add(e event) {
	base := e.Common()
	o.thread, o.run = base.ThreadID, base.RunID
	if e.Type() == agui.TypeRunStarted && o.began == 0 {
		o.began = base.Timestamp
	}
	if e.ends() {
		o.last = e.Event
	}
}

// took returns how long the run has taken until its last event.
func (o *outcome) took() time.Duration {
	if o.last == nil {
		return 0
	}
	return time.Duration(o.last.Common().Timestamp-o.began) * time.Millisecond
}

// failure returns the run's error. A cancelled run has one, too.
func (o *outcome) failure() (e agui.RunError, failed bool) {
	if o.last == nil {
		return agui.RunError{Message: "Run cancelled", Code: codeCancelled}, true
	}
	e, failed = o.last.(agui.RunError)
	return e, failed
}

// interrupts returns the open interrupts, and reports whether the run waits for answers to them.
func (o *outcome) interrupts() ([]agui.Interrupt, bool) {
	e, _ := o.last.(agui.RunFinished)
	return e.Outcome.Interrupts, e.Outcome.Type == agui.OutcomeInterrupt
}

// codeCancelled is the error code of a cancelled run.
const codeCancelled = "CANCELLED"

// exit returns the exit code as an error. A run that ended before Ctrl-C could cancel it keeps its own code.
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
