package agui

// GuardEvent is the name of the CUSTOM event that reports the verdict of a guard.
const GuardEvent = "guard"

// Ruling is a guard's decision about an agent's input, tool call or output.
type Ruling struct {
	Name    string `json:"name"`
	On      string `json:"on"`      // input, tool or output
	Verdict string `json:"verdict"` // allow, refuse, rewrite or ask
	Reason  string `json:"reason,omitempty"`
}

// Event is the event for r.
func (r Ruling) Event() Custom { return custom(GuardEvent, r) }
