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
	// ParkedEvent says that a run waits in its span; its value is {kind, until}. WokenEvent says that it goes on; its value is {kind}.
	ParkedEvent = "parked"
	WokenEvent  = "woken"
)

// wait is the value of ParkedEvent and WokenEvent.
type wait struct {
	Kind  string    `json:"kind"`
	Until time.Time `json:"until,omitzero"`
}

// Parked returns the event of a run that waits until a time.
func Parked(agent, kind string, until time.Time) Custom {
	ev := custom(ParkedEvent, wait{kind, until})
	ev.Agent = agent
	return ev
}

// Woken returns the event of a run that goes on after a wait.
func Woken(agent, kind string) Custom {
	ev := custom(WokenEvent, wait{Kind: kind})
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
