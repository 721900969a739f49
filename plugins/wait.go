package plugins

import (
	"context"
	"encoding/json"
	"regexp"
	"time"
)

// LongestWait is the longest wait of a run.
const LongestWait = 365 * 24 * time.Hour

// Wait is a wait for a time, or for an event until a time.
type Wait struct {
	Event string        // the event's name; empty for the time alone
	Until time.Time     // zero to wait for For
	For   time.Duration // from the first call on
}

// Sleep waits for a time, which the first call fixes: a replayed worker waits for the rest of it. A wait of two seconds or more does not keep
// the run at work: Sleep returns ErrWaiting, which the worker must return, and once nothing else of the run can go on, the run is parked. It
// is WAITING, its streams stay open, and it has no slot and no memory. When the time has come, the worker is called again from its start with
// its records. No timeout counts the wait. Sleep ends the open message first.
func (r *Run) Sleep(ctx context.Context, d time.Duration) error {
	_, err := r.wait(ctx, "wait", Wait{For: max(d, time.Nanosecond)})
	return err
}

// SleepUntil is Sleep for a time of the database's clock.
func (r *Run) SleepUntil(ctx context.Context, t time.Time) error {
	_, err := r.wait(ctx, "wait", Wait{Until: t})
	return err
}

// Within is how long WaitFor waits at most, from its first call on.
type Within time.Duration

// Received is the end of a WaitFor: an event, or that its time is over.
type Received struct {
	Expired bool            `json:"expired,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"` // the event's, any JSON value; nil if Expired
}

// Decode decodes the payload of the event into v. It changes nothing if the time is over.
func (r Received) Decode(v any) error {
	if r.Expired {
		return nil
	}
	return json.Unmarshal(r.Payload, v)
}

var eventName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$`)

// EventNames says which names events can have.
const EventNames = "The name of an event has 1 to 100 letters, digits and _ - . : and begins with a letter, a digit or _"

// IsEventName reports whether an event can have a name: see EventNames.
func IsEventName(name string) bool { return eventName.MatchString(name) }

// WaitFor waits for an event of that name from outside: see the server's POST …/agent-runs/{runId}/events/{name}. An event that came before is
// kept for the run, in order, and each is received once. Like Sleep, WaitFor returns ErrWaiting until an event has come or its time is over;
// without within, that is LongestWait.
func (r *Run) WaitFor(ctx context.Context, name string, within ...Within) (Received, error) {
	w := Wait{Event: name, For: LongestWait}
	if len(within) > 0 {
		w.For = max(time.Duration(within[0]), time.Nanosecond)
	}
	if !IsEventName(name) {
		return Received{}, &Error{Code: "bad_event", Message: EventNames}
	}
	return r.wait(ctx, "event", w)
}

func (r *Run) wait(ctx context.Context, kind string, w Wait) (Received, error) {
	u, _, err := r.use(ctx, r.close, kind, w.Event, nil)
	if err != nil {
		return Received{}, err
	}
	got, err := r.host.Wait(ctx, u, w)
	return got, r.noteWaiting(err)
}
