package agui

// CompactedEvent is the name of the CUSTOM event that reports the omissions of a model's prompt.
const CompactedEvent = "context-compacted"

// Compaction has the omissions of a model call's prompt: the numbers of shortened results of tools and of dropped turns, and
// whether a summary stands for these.
type Compaction struct {
	CallID     string `json:"callId,omitempty"` // see ModelCall
	Shortened  int    `json:"shortened"`
	Dropped    int    `json:"dropped"`
	Summarised bool   `json:"summarised"`
}

// Event is the event for c.
func (c Compaction) Event() Custom { return custom(CompactedEvent, c) }
