package fold

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// maxAmended limits the size of a complete message that may still change: each change rewrites its row. maxMetadata limits the merged
// metadata of a message's or call's fragments: each fragment merges all of it again. maxPart limits all incomplete
// messages together: a run's end completes them at once, and the event that ends a text repeats it.
const (
	maxAmended  = 1 << 20
	maxPart     = 16 << 20
	maxMetadata = 64 << 10
)

// Check returns an error if Apply would refuse ev or do unbounded work. It changes nothing.
func (f *Fold) Check(ev agui.Event) error {
	more := ev.Common().Metadata
	switch e := ev.(type) {
	case agui.TextMessageContent:
		if m := f.list.byID[e.MessageID]; m != nil {
			return f.checkFragment(e.Delta, m.Metadata, more)
		}
	case agui.ReasoningMessageContent:
		if m := f.list.byID[e.MessageID]; m != nil {
			return f.checkFragment(e.Delta, m.Metadata, more)
		}
	case agui.ToolCallArgs:
		if c := f.list.calls[e.ToolCallID]; c != nil {
			return f.checkFragment(e.Delta, c.call().Metadata, more)
		}
	case agui.TextMessageStart:
		return f.checkAmended(f.list.byID[e.MessageID])
	case agui.ReasoningMessageStart:
		return f.checkAmended(f.list.byID[e.MessageID])
	case agui.ToolCallStart:
		return f.checkAmended(f.list.byID[e.ParentMessageID])
	case agui.ReasoningEncryptedValue:
		m := f.list.byID[e.EntityID]
		if c := f.list.calls[e.EntityID]; e.Subtype == "tool-call" && c != nil {
			m = c.owner
		}
		return f.checkAmended(m)
	case agui.ActivityDelta:
		return f.checkAmended(f.list.byID[e.MessageID])
	case agui.ActivitySnapshot:
		if e.Replace != nil && !*e.Replace {
			return f.checkAmended(f.list.byID[e.MessageID])
		}
	case agui.ToolCallResult:
		return f.checkResult(e)
	}
	return nil
}

func (f *Fold) checkResult(e agui.ToolCallResult) error {
	if f.list.byID[e.MessageID] != nil {
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

// checkFragment reports why a fragment may not add delta, and more to metadata.
func (f *Fold) checkFragment(delta string, metadata, more json.RawMessage) error {
	if f.list.part+len(delta)+len(more) > maxPart {
		return fmt.Errorf("messages that are not complete may hold %d bytes in all", maxPart)
	}
	if more != nil && len(metadata)+len(more) > maxMetadata {
		return fmt.Errorf("the metadata of fragments may hold %d bytes in all", maxMetadata)
	}
	return nil
}
