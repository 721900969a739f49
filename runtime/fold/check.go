package fold

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// maxAmended limits the size of a complete message that may still change: each change rewrites its row. maxMetadata limits the merged
// metadata of a message's or call's fragments: each fragment merges all of it again.
const (
	maxAmended  = 1 << 20
	maxMetadata = 64 << 10
)

// Check returns an error if Apply would refuse ev or do unbounded work. It changes nothing.
func (f *Fold) Check(ev agui.Event) error {
	more := ev.Common().Metadata
	switch e := ev.(type) {
	case agui.TextMessageContent:
		return f.checkFragment(f.byID[e.MessageID], more)
	case agui.ReasoningMessageContent:
		return f.checkFragment(f.byID[e.MessageID], more)
	case agui.ToolCallArgs:
		if c := f.calls[e.ToolCallID]; c != nil && more != nil {
			return checkMetadata(c.call().Metadata, more)
		}
	case agui.TextMessageStart:
		return f.checkAmended(f.byID[e.MessageID])
	case agui.ReasoningMessageStart:
		return f.checkAmended(f.byID[e.MessageID])
	case agui.ToolCallStart:
		return f.checkAmended(f.byID[e.ParentMessageID])
	case agui.ReasoningEncryptedValue:
		m := f.byID[e.EntityID]
		if c := f.calls[e.EntityID]; e.Subtype == "tool-call" && c != nil {
			m = c.owner
		}
		return f.checkAmended(m)
	case agui.ActivityDelta:
		return f.checkAmended(f.byID[e.MessageID])
	case agui.ActivitySnapshot:
		if e.Replace != nil && !*e.Replace {
			return f.checkAmended(f.byID[e.MessageID])
		}
	case agui.ToolCallResult:
		return f.checkResult(e)
	}
	return nil
}

func (f *Fold) checkResult(e agui.ToolCallResult) error {
	if f.byID[e.MessageID] != nil {
		return fmt.Errorf("there is a message %q already", e.MessageID)
	}
	return nil
}

func (f *Fold) checkAmended(m *message) error {
	if m != nil && m.counts > maxAmended {
		return fmt.Errorf("message %q has %d bytes, and may not go on with more than %d", m.ID, m.counts, maxAmended)
	}
	return nil
}

func (f *Fold) checkFragment(m *message, more json.RawMessage) error {
	if m == nil || more == nil {
		return nil
	}
	return checkMetadata(m.Metadata, more)
}

func checkMetadata(has, more json.RawMessage) error {
	if len(has)+len(more) > maxMetadata {
		return fmt.Errorf("the metadata of fragments may hold %d bytes in all", maxMetadata)
	}
	return nil
}
