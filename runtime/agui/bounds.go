package agui

import (
	"errors"
	"fmt"
)

// Bounds on open entities and ids of one run. The end of a run closes all open entities in one transaction, and a cancel waits for it.
const (
	MaxOpen       = 1000     // sub-agents, steps, messages, spans of reasoning, and calls without their result, which count twice, open at once
	MaxOperations = 1000     // of a patch
	maxID         = 1 << 10  // bytes of an id, and of a step's name
	maxNamed      = 32 << 20 // bytes of names in a run: the ids of ended entities stay known
	perName       = 64       // the overhead of a name
)

var errFull = fmt.Errorf("the run has %d things open, which is all that it may", MaxOpen)

// room returns an error if the run may not open another entity with that id.
func (v *Verifier) room(id string) error {
	if len(v.scopes)+2*len(v.pending)+len(v.spans)+len(v.reason) >= MaxOpen { // closing a call takes two events
		return errFull
	}
	return v.names(id)
}

// names returns an error if the run may not introduce that id or name.
func (v *Verifier) names(id string) error {
	switch {
	case len(id) > maxID:
		return fmt.Errorf("an id or a name may hold %d bytes", maxID)
	case v.named > maxNamed:
		return errors.New("the run has named all that it may")
	}
	return nil
}

// remember records the owner of the entity with that id.
func (v *Verifier) remember(owners map[string]string, id, owner string) {
	if _, known := owners[id]; !known {
		v.named += len(id) + perName
	}
	owners[id] = owner
}
