package agui

import (
	"encoding/json"
	"time"
)

// Names of CUSTOM events that Baton writes; see also ModelCallEvent.
const (
	// ProgressEvent reports a node's progress; its value is {nodeId, progress, message}.
	ProgressEvent = "node-progress"
	// RetractedEvent retracts messages of its run; its value is {messageIds}. They stay in the log, and prompts and the
	// history omit them.
	RetractedEvent = "messages-retracted"
	// ParkedEvent says that a run waits in its span; its value is {kind, name, until}. WokenEvent says that it goes on; its value
	// is {kind, by}.
	ParkedEvent = "parked"
	WokenEvent  = "woken"
)

// wait is the value of ParkedEvent and WokenEvent.
type wait struct {
	Kind  string    `json:"kind"`
	Name  string    `json:"name,omitempty"`
	By    string    `json:"by,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// Parked returns the event of a run that waits until a time, or for an event of a name until then.
func Parked(agent, kind, name string, until time.Time) Custom {
	ev := custom(ParkedEvent, wait{Kind: kind, Name: name, Until: until})
	ev.Agent = agent
	return ev
}

// Woken returns the event of a run that goes on after a wait, because of the event of that name or, without one, because its time has come.
func Woken(agent, by string) Custom {
	w := wait{Kind: "time"}
	if by != "" {
		w = wait{Kind: "event", By: by}
	}
	ev := custom(WokenEvent, w)
	ev.Agent = agent
	return ev
}

// Progress returns the event with a node's progress from 0 to 1. NaN counts as 0.
func Progress(node string, fraction float64, message string) Custom {
	if fraction != fraction {
		fraction = 0
	}
	return custom(ProgressEvent, struct {
		NodeID   string  `json:"nodeId"`
		Progress float64 `json:"progress"`
		Message  string  `json:"message"`
	}{node, min(max(fraction, 0), 1), message})
}

type retracted struct {
	MessageIDs []string `json:"messageIds"`
}

// Retracted returns the event that retracts messages.
func Retracted(messages []string) Custom { return custom(RetractedEvent, retracted{messages}) }

// RetractedBy returns the ids of the messages that ev retracts, nil for other events.
func RetractedBy(ev Custom) []string {
	var r retracted
	if ev.Name != RetractedEvent || json.Unmarshal(ev.Value, &r) != nil {
		return nil
	}
	return r.MessageIDs
}

func custom(name string, v any) Custom {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own structs always marshal
	}
	return Custom{Name: name, Value: value}
}
