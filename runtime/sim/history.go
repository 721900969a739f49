package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// History is a server's input: the requests of its callers, and the faults meanwhile. It has everything random, so that
// it can be repeated, shrunk and stored.
type History struct {
	Seed    uint64   `json:"seed"` // of the pauses
	Callers [][]Step `json:"callers"`
	Servers int      `json:"servers,omitempty"` // processes that serve at the same time; 0 means one
	Queue   int      `json:"queue,omitempty"`   // limit of QUEUED runs; 0 means many
	Slots   int      `json:"slots,omitempty"`   // limit of RUNNING runs; 0 means many
	Users   int      `json:"users,omitempty"`   // number of users; 0 means one

	PerProject int `json:"per_project,omitempty"` // limit of a project's RUNNING runs on all processes; 0 means many
	PerUser    int `json:"per_user,omitempty"`    // limit of a user's

	Events int     `json:"events,omitempty"` // limit of a run's events; 0 means many
	Parts  int     `json:"parts,omitempty"`  // rows that a deletion removes at once; 0 means many
	Room   *Room   `json:"room,omitempty"`   // limits on bytes; nil means the defaults
	SQLite bool    `json:"sqlite,omitempty"` // play on a file, not in memory
	Faults []Fault `json:"faults,omitempty"`
}

// Step is one action of a caller.
type Step struct {
	N     int      `json:"n"`     // names its objects: run rN, message mN
	After Duration `json:"after"` // pause before the step
	Do    string   `json:"do"`

	Thread    int      `json:"thread,omitempty"`
	Run       int      `json:"run,omitempty"` // number of the start or renaming reply of the run
	Agent     string   `json:"agent,omitempty"`
	Script    Script   `json:"script,omitempty"`
	Multitask string   `json:"multitask,omitempty"`
	State     bool     `json:"state,omitempty"` // the request has a state
	Rewind    bool     `json:"rewind,omitempty"`
	Pad       int      `json:"pad,omitempty"`     // bytes added to the message or answer
	Key       int      `json:"key,omitempty"`     // an Idempotency-Key
	Name      int      `json:"name,omitempty"`    // the run gets the name r and this number, like an earlier run
	Foreign   bool     `json:"foreign,omitempty"` // another user makes the request
	Times     int      `json:"times,omitempty"`   // number of callers that make the request at once
	Apart     bool     `json:"apart,omitempty"`   // the request names no thread: the server of each of the callers gives it one
	Choice    int      `json:"choice,omitempty"`  // selects the answers
	By        Duration `json:"by,omitempty"`      // of the clock's step, the retention, or how long a process stands still
}

// Actions.
const (
	doStart    = "start"
	doAppend   = "append"
	doCancel   = "cancel"
	doAnswer   = "answer" // by Resume
	doReply    = "reply"  // by StartRun
	doEvent    = "event"  // send one to a run
	doDelete   = "delete" // a run
	doClear    = "clear"  // delete a thread
	doWipe     = "wipe"   // delete all of a user's data
	doRetire   = "retire" // remove old runs, or only their events
	doSeal     = "seal"   // seal old events, on a file
	doTitle    = "title"
	doRead     = "read" // follow a thread from some event on
	doLook     = "look" // check the rows of a thread
	doSnapshot = "snapshot"
	doCrash    = "crash"
	doRestart  = "restart"
	doStop     = "stop" // a process for a time, beside others
	doClock    = "clock"
	doRelease  = "release" // release staying workers, with a single caller
	doPass     = "pass"    // wait half a minute, with a single caller
)

// Fault is a trouble of one commit or read, counted over all processes.
type Fault struct {
	Commit  int     `json:"commit,omitempty"`
	Read    int     `json:"read,omitempty"`
	Take    int     `json:"take,omitempty"` // a commit that takes a run over, or ends one in another process's name
	Row     int     `json:"row,omitempty"`  // a look that has taken rows of the queue, whose runs are not claimed yet
	Trouble Trouble `json:"trouble"`
}

// Duration is a time.Duration that JSON encodes as text.
type Duration time.Duration

// MarshalText encodes the duration, for example as 1.5ms.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText decodes the duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// String encodes the history as JSON with one line per step. Parse decodes it.
func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\"seed\": %d, \"servers\": %d, \"queue\": %d, \"slots\": %d, \"users\": %d, \"per_project\": %d, \"per_user\": %d, \"events\": %d, \"parts\": %d, \"room\": %s, \"sqlite\": %v, \"callers\": [",
		h.Seed, h.Servers, h.Queue, h.Slots, h.Users, h.PerProject, h.PerUser, h.Events, h.Parts, mustJSON(h.Room), h.SQLite)
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
				panic(err) // steps always encode
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
		fault, err := json.Marshal(&h.Faults[i])
		if err != nil {
			panic(err) // faults always encode
		}
		b.Write(fault)
	}
	b.WriteString("]}\n")
	return b.String()
}

// Parse decodes the result of String.
func Parse(text []byte) (*History, error) {
	h := new(History)
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h, nil
}

// several reports whether processes serve at the same time.
func (h *History) several() bool { return h.Servers > 1 }

// troubled reports whether the history has a trouble.
func (h *History) troubled(t Trouble) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.Trouble == t })
}

// sleeps counts the sleeps and waits for events in the scripts.
func (h *History) sleeps() (n int) {
	for _, steps := range h.Callers {
		for i := range steps {
			n += steps[i].Script.count(func(op Op) bool { return op.Name == "sleep" || op.Name == "await" })
		}
	}
	return n
}

// events counts the events that are sent.
func (h *History) events() (n int) {
	for _, steps := range h.Callers {
		for i := range steps {
			if steps[i].Do == doEvent {
				n += max(steps[i].Times, 1)
			}
		}
	}
	return n
}

// Does reports whether the history has one of these actions.
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

// Uses counts the ops with these names.
func (h *History) Uses(names ...string) (n int) {
	for _, steps := range h.Callers {
		for i := range steps {
			n += steps[i].Script.count(func(op Op) bool { return slices.Contains(names, op.Name) })
		}
	}
	return n
}

// reusesNames reports whether the history gives a run the name of an earlier one.
func (h *History) reusesNames() bool {
	return slices.ContainsFunc(h.Callers, func(steps []Step) bool {
		return slices.ContainsFunc(steps, func(s Step) bool { return s.Name > 0 })
	})
}

// Pads reports whether the history has messages of megabytes.
func (h *History) Pads() bool {
	return slices.ContainsFunc(h.Callers, func(steps []Step) bool {
		return slices.ContainsFunc(steps, func(s Step) bool { return s.Pad > 100_000 })
	})
}
