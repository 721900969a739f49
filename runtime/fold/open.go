package fold

import (
	"encoding/json"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

// Open returns events that open the open entities again under their ids, outermost first: sub-agents, steps, reasoning,
// text, and tool calls with their arguments so far. A client that applies them to Messages has the state of the log.
func (f *Fold) Open() []agui.Event {
	var list []agui.Event
	for _, ev := range f.open {
		switch e := ev.(type) {
		case agui.TextMessageStart:
			if m := f.list.byID[e.MessageID]; m != nil {
				e.Agent, e.Stage = still(m.Metadata, "agent", e.Agent), still(m.Metadata, "stage", e.Stage)
			}
			list = append(list, e)
		case agui.ToolCallStart:
			c := f.list.calls[e.ToolCallID]
			if c == nil {
				list = append(list, e)
				continue
			}
			e.Agent = still(c.call().Metadata, "agent", e.Agent)
			list = append(list, e)
			for args := range chunks(c.args) {
				list = append(list, agui.ToolCallArgs{Base: e.Base, ToolCallID: e.ToolCallID, Delta: args})
			}
		default:
			list = append(list, ev)
		}
	}
	slices.SortStableFunc(list, func(a, b agui.Event) int { return rank(a) - rank(b) })
	return list
}

// still returns val, or "" if the member name of metadata has changed since: a reopening event must not revert it.
func still(metadata json.RawMessage, name, val string) string {
	if val != "" && string(members(metadata)[name]) != string(quote(val)) {
		return ""
	}
	return val
}

// maxDelta keeps a reopening event within the size limit of events, even if its text is escaped.
const maxDelta = 1 << 20

// chunks splits text into deltas at character boundaries.
func chunks(text []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(len(text), maxDelta)
			for range utf8.UTFMax - 1 {
				if n < len(text) && !utf8.RuneStart(text[n]) {
					n--
				}
			}
			if !yield(string(text[:n])) {
				return
			}
			text = text[n:]
		}
	}
}

func rank(ev agui.Event) int {
	switch ev.(type) {
	case agui.SubagentStarted, agui.StepStarted:
		return 0
	case agui.ReasoningStart:
		return 1
	case agui.ReasoningMessageStart:
		return 2
	case agui.TextMessageStart:
		return 3
	}
	return 4
}

// opener returns b without the members of a single event.
func opener(b agui.Base) agui.Base {
	return agui.Base{ThreadID: b.ThreadID, RunID: b.RunID, Agent: b.Agent, SubagentRunID: b.SubagentRunID}
}

// opens adds an opener.
func (f *Fold) opens(ev agui.Event) {
	f.open = append(f.open, ev)
	f.list.grown += opening(ev)
}

// opening returns the memory of an opener beside its message.
func opening(ev agui.Event) int {
	b := ev.Common()
	n := each + len(b.SubagentRunID) + len(b.Metadata) + len(b.RawEvent) + len(b.Extra)
	switch e := ev.(type) {
	case agui.StepStarted:
		n += len(e.StepName)
	case agui.ReasoningStart:
		n += len(e.MessageID)
	case agui.SubagentStarted:
		n += len(e.Name) + len(e.Description) + len(e.ParentSubagentRunID) + len(e.ParentToolCallID) + len(e.ParentMessageID)
	}
	return n
}

// close removes the opener of the entity that ev closes.
func (f *Fold) close(ev agui.Event) {
	id := opened(ev)
	for i, o := range slices.Backward(f.open) { // the entity opened last usually closes first
		if opened(o) == id {
			f.list.grown -= opening(o)
			f.open = slices.Delete(f.open, i, i+1)
			return
		}
	}
}

// entity identifies something that opens and closes.
type entity struct {
	kind      agui.Type // type of its opener
	id, owner string
}

// opened returns the entity that ev opens or closes.
func opened(ev agui.Event) entity {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		return entity{kind: e.Type(), id: e.MessageID}
	case agui.TextMessageEnd:
		return entity{kind: agui.TypeTextMessageStart, id: e.MessageID}
	case agui.ReasoningStart:
		return entity{kind: e.Type(), id: e.MessageID}
	case agui.ReasoningEnd:
		return entity{kind: agui.TypeReasoningStart, id: e.MessageID}
	case agui.ReasoningMessageStart:
		return entity{kind: e.Type(), id: e.MessageID}
	case agui.ReasoningMessageEnd:
		return entity{kind: agui.TypeReasoningMessageStart, id: e.MessageID}
	case agui.ToolCallStart:
		return entity{kind: e.Type(), id: e.ToolCallID}
	case agui.ToolCallEnd:
		return entity{kind: agui.TypeToolCallStart, id: e.ToolCallID}
	case agui.StepStarted:
		return entity{kind: e.Type(), id: e.StepName, owner: e.SubagentRunID}
	case agui.StepFinished:
		return entity{kind: agui.TypeStepStarted, id: e.StepName, owner: e.SubagentRunID}
	}
	return entity{kind: agui.TypeSubagentStarted, id: ev.Common().SubagentRunID}
}

// startRun adds messages of the run's input that are new to the thread.
func (f *Fold) startRun(e agui.RunStarted) []string {
	changed := f.closeAll()
	if e.Input == nil {
		return changed
	}
	for _, m := range e.Input.Messages {
		if f.list.byID[m.ID] == nil {
			f.list.bring(m)
			changed = append(changed, m.ID)
		}
	}
	return changed
}

// closeAll closes everything that a span left open, and returns the completed messages.
func (f *Fold) closeAll() (changed []string) {
	for _, ev := range f.open {
		f.list.grown -= opening(ev)
		id := opened(ev).id
		switch ev.(type) {
		case agui.TextMessageStart, agui.ReasoningMessageStart:
			if m := f.list.byID[id]; m != nil {
				f.list.changing(m, m.settle)
				changed = append(changed, m.changed()...)
			}
		case agui.ToolCallStart:
			if c := f.list.calls[id]; c != nil {
				f.list.changing(c.owner, c.end)
				changed = append(changed, c.owner.changed()...)
			}
		}
	}
	f.open = nil
	return changed
}

// reopen restores open entities in the messages of a snapshot. The openers must not add agent or stage to their
// metadata.
func (f *Fold) reopen() {
	for i, ev := range f.open {
		id := opened(ev).id
		switch e := ev.(type) {
		case agui.TextMessageStart:
			e.Agent, e.Stage = "", ""
			f.open[i] = e
			f.reopenText(id)
		case agui.ReasoningMessageStart:
			f.reopenText(id)
		case agui.ToolCallStart:
			if c := f.list.calls[id]; c != nil {
				f.list.changing(c.owner, c.start)
				e.Agent, e.ParentMessageID = "", c.owner.ID
				f.open[i] = e
			}
		}
	}
}

// reopenText reopens a message's text.
func (f *Fold) reopenText(id string) {
	if m := f.list.byID[id]; m != nil {
		f.list.changing(m, m.stream)
	}
}
