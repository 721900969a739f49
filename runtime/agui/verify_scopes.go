package agui

import (
	"errors"
	"fmt"
	"slices"
)

func (v *Verifier) startSubagent(e SubagentStarted) error {
	id := e.SubagentRunID
	switch {
	case id == "":
		return errors.New("subagentRunId is empty")
	case e.Name == "":
		return errors.New("name is empty")
	case v.subagent(id) != nil:
		return fmt.Errorf("sub-agent %q is open already", id)
	case v.closed[id]:
		return fmt.Errorf("sub-agent %q has ended in this span", id)
	case e.ParentSubagentRunID != "" && v.subagent(e.ParentSubagentRunID) == nil:
		return fmt.Errorf("parent sub-agent %q is not open", e.ParentSubagentRunID)
	}
	if err := v.room(id); err != nil {
		return err
	}
	if err := v.names(e.Name); err != nil {
		return err
	}
	v.named += len(id) + perName // closed will have it
	v.scopes = append(v.scopes, scope{
		stream: stream{id: id, agent: e.Agent, owner: e.ParentSubagentRunID},
		name:   e.Name,
	})
	return nil
}

func (v *Verifier) finishSubagent(b Base) error {
	id := b.SubagentRunID
	s := v.subagent(id)
	if s == nil {
		return fmt.Errorf("sub-agent %q is not open", id)
	}
	if memberOf(b.Metadata, "name") != s.name {
		return fmt.Errorf("metadata.name must be %q: clients of dialect 0.0 know the sub-agent by it", s.name)
	}
	if err := v.checkClosed(id); err != nil {
		return err
	}
	i := v.scope(func(s *scope) bool { return s.step == "" && s.id == id })
	v.scopes = slices.Delete(v.scopes, i, i+1)
	for i := range v.models {
		if v.models[i].owner == id { // it ends as the run's own
			v.models[i].tag, v.models[i].owner = "", ""
		}
	}
	v.closed[id] = true
	return nil
}

// subagent returns the open sub-agent of that id, nil for none.
func (v *Verifier) subagent(id string) *scope {
	if i := v.scope(func(s *scope) bool { return s.step == "" && s.id == id }); i >= 0 {
		return &v.scopes[i]
	}
	return nil
}

// scope returns the index of the innermost scope for which is returns true, or -1. Most lookups are for the innermost one.
func (v *Verifier) scope(is func(*scope) bool) int {
	for i := len(v.scopes) - 1; i >= 0; i-- {
		if is(&v.scopes[i]) {
			return i
		}
	}
	return -1
}

func (v *Verifier) startStep(e StepStarted) error {
	if e.StepName == "" {
		return errors.New("stepName is empty")
	}
	if v.step(e.StepName, e.SubagentRunID) >= 0 {
		return fmt.Errorf("step %q is open already", e.StepName)
	}
	if err := v.room(e.StepName); err != nil {
		return err
	}
	v.scopes = append(v.scopes, scope{
		stream: stream{agent: e.Agent, tag: e.SubagentRunID, owner: e.SubagentRunID},
		step:   e.StepName,
	})
	return nil
}

func (v *Verifier) finishStep(e StepFinished) error {
	i := v.step(e.StepName, e.SubagentRunID)
	if i < 0 {
		return fmt.Errorf("step %q is not open", e.StepName)
	}
	v.scopes = slices.Delete(v.scopes, i, i+1)
	return nil
}

// step returns the index of the open step of that name and owner, -1 for none.
func (v *Verifier) step(name, owner string) int {
	return v.scope(func(s *scope) bool { return s.step != "" && s.step == name && s.owner == owner })
}

// checkClosed reports the first open entity: of one sub-agent, or of the whole run if owner is "".
func (v *Verifier) checkClosed(owner string) error {
	of := func(s stream) bool { return owner == "" || s.owner == owner }
	if v.text != nil && of(*v.text) {
		return fmt.Errorf("text message %q is still open", v.text.id)
	}
	if i := slices.IndexFunc(v.reason, of); i >= 0 {
		return fmt.Errorf("reasoning message %q is still open", v.reason[i].id)
	}
	if i := slices.IndexFunc(v.spans, of); i >= 0 {
		return fmt.Errorf("reasoning span %q is still open", v.spans[i].id)
	}
	for _, c := range v.pending {
		if c.open && of(c.stream) {
			return fmt.Errorf("tool call %q is still open", c.id)
		}
	}
	for i := range v.scopes {
		switch s := &v.scopes[i]; {
		case !of(s.stream):
		case s.step != "":
			return fmt.Errorf("step %q is still open", s.step)
		default:
			return fmt.Errorf("sub-agent %q is still open", s.id)
		}
	}
	return nil
}
