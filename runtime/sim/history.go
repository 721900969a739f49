package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// History is what happens to a server: what callers ask of it, each caller one thing after the other, and what
// goes wrong meanwhile. It holds all that is random, so that it can be run again, cut
// down and kept in a file.
type History struct {
	Seed    uint64   `json:"seed"` // of the pauses
	Callers [][]Step `json:"callers"`
	Queue   int      `json:"queue,omitempty"`  // how many runs may be QUEUED; 0 means many
	Slots   int      `json:"slots,omitempty"`  // how many runs may be RUNNING; 0 means many
	Users   int      `json:"users,omitempty"`  // how many ask; 0 means one
	Events  int      `json:"events,omitempty"` // how many events a run may emit; 0 means many
	Parts   int      `json:"parts,omitempty"`  // how many rows a deletion removes at once; 0 means many
	Room    *Room    `json:"room,omitempty"`   // bounds on bytes; nil means the usual ones
	SQLite  bool     `json:"sqlite,omitempty"` // it is played on a file, not in memory
	Faults  []Fault  `json:"faults,omitempty"`
}

// Step is one thing a caller does.
type Step struct {
	N     int      `json:"n"`     // names what it makes: run rN, message mN
	After Duration `json:"after"` // the caller's pause before
	Do    string   `json:"do"`

	Thread    int      `json:"thread,omitempty"`
	Run       int      `json:"run,omitempty"` // the number of the start whose run is meant, or of the reply that has named it
	Agent     string   `json:"agent,omitempty"`
	Script    Script   `json:"script,omitempty"`
	Multitask string   `json:"multitask,omitempty"`
	State     bool     `json:"state,omitempty"` // the request brings a state
	Rewind    bool     `json:"rewind,omitempty"`
	Pad       int      `json:"pad,omitempty"`     // the message, or the answer, is so many bytes longer
	Key       int      `json:"key,omitempty"`     // an Idempotency-Key
	Name      int      `json:"name,omitempty"`    // the run is named r and this number, as one before it
	Foreign   bool     `json:"foreign,omitempty"` // another user asks than whose run it is
	Times     int      `json:"times,omitempty"`   // so many callers ask the same at once
	Choice    int      `json:"choice,omitempty"`  // which answers are given
	By        Duration `json:"by,omitempty"`      // how far the clock moves, or how long is kept what is over
}

// The things a caller does.
const (
	doStart    = "start"
	doAppend   = "append"
	doCancel   = "cancel"
	doAnswer   = "answer" // through Resume
	doReply    = "reply"  // through StartRun
	doDelete   = "delete" // a run
	doClear    = "clear"  // delete a thread
	doWipe     = "wipe"   // delete all that a user has
	doRetire   = "retire" // what is over for long enough, or its events alone
	doSeal     = "seal"   // what is old, on a file
	doTitle    = "title"
	doRead     = "read" // follow a thread from some place on
	doLook     = "look" // at the rows of a thread
	doCrash    = "crash"
	doRestart  = "restart"
	doTakeover = "takeover"
	doClock    = "clock"
	doRelease  = "release" // what stays, where there is one caller alone
	doPass     = "pass"    // half a minute, likewise
)

// Fault is a trouble of one commit, or of one read; they are counted over all processes.
type Fault struct {
	Commit  int     `json:"commit,omitempty"`
	Read    int     `json:"read,omitempty"`
	Trouble Trouble `json:"trouble"`
}

// Duration is a time.Duration that JSON shows as text.
type Duration time.Duration

// MarshalText writes the duration as in 1.5ms.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// String writes the history as JSON with a line for each step. Parse reads it.
func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\"seed\": %d, \"queue\": %d, \"slots\": %d, \"users\": %d, \"events\": %d, \"parts\": %d, \"room\": %s, \"sqlite\": %v, \"callers\": [",
		h.Seed, h.Queue, h.Slots, h.Users, h.Events, h.Parts, mustJSON(h.Room), h.SQLite)
	for i, steps := range h.Callers {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n [")
		for j := range steps {
			if j > 0 {
				b.WriteString(",")
			}
			line, err := json.Marshal(&steps[j])
			if err != nil {
				panic(err) // a step always encodes
			}
			b.WriteString("\n  " + string(line))
		}
		b.WriteString("]")
	}
	b.WriteString("\n], \"faults\": [")
	for i := range h.Faults {
		if i > 0 {
			b.WriteString(", ")
		}
		what, n := "commit", h.Faults[i].Commit
		if h.Faults[i].Read > 0 {
			what, n = "read", h.Faults[i].Read
		}
		fmt.Fprintf(&b, "{%q: %d, \"trouble\": %q}", what, n, h.Faults[i].Trouble)
	}
	b.WriteString("]}\n")
	return b.String()
}

// Parse reads a history as String wrote it.
func Parse(text []byte) (*History, error) {
	h := new(History)
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h, nil
}

// Ops calls f for each op of the history's scripts, those inside others too.
func (h *History) Ops(f func(Op)) {
	var walk func(Script)
	walk = func(s Script) {
		for _, op := range s {
			f(op)
			walk(op.Body)
		}
	}
	for _, steps := range h.Callers {
		for i := range steps {
			walk(steps[i].Script)
		}
	}
}

// Does reports whether a caller does one of these things.
func (h *History) Does(what ...string) bool {
	for _, steps := range h.Callers {
		for i := range steps {
			if s := &steps[i]; slices.Contains(what, s.Do) || slices.Contains(what, s.Multitask) || slices.Contains(what, s.Agent) || s.Rewind && slices.Contains(what, "rewind") {
				return true
			}
		}
	}
	return false
}

// Uses counts the ops of these names.
func (h *History) Uses(names ...string) int {
	n := 0
	h.Ops(func(op Op) {
		if slices.Contains(names, op.Name) {
			n++
		}
	})
	return n
}

// Breaks reports whether a process comes to its end before the history does.
func (h *History) Breaks() bool {
	return h.Does(doCrash, doRestart, doTakeover) ||
		slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.Trouble == KillBefore || f.Trouble == KillAfter })
}

// Pads reports whether the history has messages of megabytes.
func (h *History) Pads() bool {
	return slices.ContainsFunc(h.Callers, func(steps []Step) bool {
		return slices.ContainsFunc(steps, func(s Step) bool { return s.Pad > 100_000 })
	})
}
