package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// startStep starts a step of the remote inside our node's: "writer/plan" is the remote's step plan in the node writer.
func (r *relay) startStep(b agui.Base, name string) error {
	if name == "" || r.steps[stepKey{b.SubagentRunID, name}] != "" {
		r.drop(string(agui.TypeStepStarted), errors.New("the step has no name or is already open"))
		return nil
	}
	ours := clip(r.run.Input.Node+"/"+name, 200)
	for n := 2; r.opened[ours]; n++ {
		ours = clip(r.run.Input.Node+"/"+name, 190) + "#" + strconv.Itoa(n)
	}
	err := r.emit(agui.StepStarted{Base: b, StepName: ours})
	if r.passed {
		r.steps[stepKey{b.SubagentRunID, name}], r.opened[ours] = ours, true
	}
	return err
}

func (r *relay) finishStep(b agui.Base, name string) error {
	key := stepKey{b.SubagentRunID, name}
	ours := r.steps[key]
	if ours == "" {
		r.drop(string(agui.TypeStepFinished), errUnknown)
		return nil
	}
	r.forget(key)
	return r.emit(agui.StepFinished{Base: b, StepName: ours})
}

// forget records the end of a step.
func (r *relay) forget(key stepKey) {
	delete(r.opened, r.steps[key])
	delete(r.steps, key)
}

func (r *relay) startSubagent(e agui.SubagentStarted) error {
	theirs := e.SubagentRunID
	if theirs == "" || len(theirs) > longestID || r.legal.SubagentOpen(r.subs[theirs]) {
		r.drop(string(e.Type()), errors.New("the sub-agent has no id, a long one, or is already open"))
		return nil
	}
	if e.Name = clip(e.Name, 200); e.Name == "" {
		e.Name = "agent"
	}
	id := newID()
	e.Base = agui.Base{SubagentRunID: id}
	if e.ParentSubagentRunID = r.subs[e.ParentSubagentRunID]; !r.legal.SubagentOpen(e.ParentSubagentRunID) {
		e.ParentSubagentRunID = ""
	}
	e.ParentMessageID = r.ids["text:"+e.ParentMessageID]
	if c := r.calls[e.ParentToolCallID]; c != nil && !c.held {
		e.ParentToolCallID = c.id
	} else {
		e.ParentToolCallID = ""
	}
	err := r.emit(e)
	if r.passed {
		r.subs[theirs], r.names[id] = id, e.Name
	}
	return err
}

// finishSubagent ends a sub-agent after its open parts.
func (r *relay) finishSubagent(theirs, message string, ev agui.Event) error {
	id := r.subs[theirs]
	if !r.legal.SubagentOpen(id) {
		r.drop(string(ev.Type()), errUnknown)
		return nil
	}
	for _, closer := range r.legal.Closers() {
		if b := closer.Common(); b.SubagentRunID != id || ofSubagent(closer) {
			continue
		}
		if err := r.emit(closer); err != nil {
			return err
		}
	}
	for key := range r.steps {
		if key.sub == id {
			r.forget(key)
		}
	}
	name, _ := json.Marshal(map[string]string{"name": r.names[id]})
	delete(r.names, id)
	b := agui.Base{SubagentRunID: id, Metadata: name}
	switch e := ev.(type) {
	case agui.SubagentError:
		return r.emit(agui.SubagentError{Base: b, Message: r.a.secrets.Hide(clip(message, maxMessage)), Code: clip(e.Code, 200)})
	case agui.SubagentFinished:
		return r.emit(agui.SubagentFinished{Base: b, Result: e.Result})
	}
	return nil
}

// custom passes on a CUSTOM event. Events with a meaning for Baton are translated.
func (r *relay) custom(b agui.Base, e agui.Custom) error {
	switch e.Name {
	case "on_interrupt":
		if len(r.asked) == agui.MaxOpen {
			r.drop(e.Name, errFull)
			return nil
		}
		r.asked = append(r.asked, onInterrupt(e.Value))
		return nil
	case "log-reset", agui.RetractedEvent, agui.ModelCallEvent, agui.ParkedEvent, agui.WokenEvent: // of another log
		return nil
	case agui.ProgressEvent:
		var p struct {
			Progress float64 `json:"progress"`
			Message  string  `json:"message"`
		}
		if json.Unmarshal(e.Value, &p) == nil {
			return r.run.Progress(p.Progress, p.Message)
		}
	}
	return r.emit(agui.Custom{Base: b, Name: e.Name, Value: e.Value})
}

// onInterrupt returns the question of LangGraph's and Mastra's event, whose value is text or JSON, often inside a string.
func onInterrupt(value json.RawMessage) question {
	q := question{Command: true}
	var text string
	if json.Unmarshal(value, &text) == nil {
		q.Value, q.Interrupt.Message = text, text
		value = json.RawMessage(text)
	} else {
		q.Value = string(value)
	}
	var says map[string]json.RawMessage
	if json.Unmarshal(value, &says) == nil && says != nil {
		q.Interrupt.Message = "The remote agent waits for an answer"
		for _, name := range []string{"message", "question", "prompt", "reason"} {
			if json.Unmarshal(says[name], &text) == nil && text != "" {
				q.Interrupt.Message = text
				break
			}
		}
	}
	if json.Valid(value) {
		q.Interrupt.Metadata, _ = json.Marshal(map[string]json.RawMessage{"value": value})
	}
	q.Interrupt.Message = clip(q.Interrupt.Message, maxMessage)
	return q
}

// maxMessage limits a text for people, in bytes.
const maxMessage = 8 << 10

// questions returns the questions of the run's end, or else of its on_interrupt events.
func (r *relay) questions() (list []question, err error) {
	list = r.asked
	if r.end.outcome.Type == agui.OutcomeInterrupt {
		list = make([]question, 0, len(r.end.outcome.Interrupts))
		for _, in := range r.end.outcome.Interrupts {
			list = append(list, question{ID: in.ID, Interrupt: in})
		}
	}
	for i := range list {
		in := &list[i].Interrupt
		in.ID, in.SubagentRunID = "", ""
		if in.ToolCallID, err = r.about(in.ToolCallID, cmp.Or(list[i].Value, string(in.Metadata))); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// about returns our id of the tool call that a question refers to, "" for none. It announces the call if the remote has not, and the question,
// which is JSON, names the tool.
func (r *relay) about(theirs, said string) (string, error) {
	all := object(json.RawMessage(said))
	vals := []json.RawMessage{json.RawMessage(said)}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		vals = append(vals, all[name])
	}
	var name, args string
	for _, val := range vals {
		var m struct {
			ToolCallID, ToolName, ToolCallName string
			Args, Arguments                    json.RawMessage
		}
		_ = json.Unmarshal(val, &m) // members of other types stay empty
		theirs, name = cmp.Or(theirs, m.ToolCallID), cmp.Or(name, m.ToolName, m.ToolCallName)
		args = cmp.Or(args, textOf(m.Args), textOf(m.Arguments))
	}
	if r.calls[theirs] == nil && r.before[theirs] == nil && theirs != "" && name != "" && !r.tools[name] {
		if err := r.whole(&call{theirs: theirs, name: clip(name, 200), invented: true}, string(argumentsOf(args))); err != nil {
			return "", err
		}
	}
	if c := r.calls[theirs]; c != nil && (!c.held || r.end.outcome.Type == agui.OutcomeInterrupt) {
		return c.id, nil
	}
	return "", nil
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// sortedKeys returns the names in either map.
func sortedKeys(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func encoded(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
