package agui

import "encoding/json"

// Names of CUSTOM events that Baton writes; see also ModelCallEvent.
const (
	// ProgressEvent reports a node's progress; its value is {nodeId, progress, message}.
	ProgressEvent = "node-progress"
	// RetractedEvent retracts messages of its run; its value is {messageIds}. They stay in the log, and prompts and the
	// history omit them.
	RetractedEvent = "messages-retracted"
)

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
