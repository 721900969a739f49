package journal

import (
	"encoding/json"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/data"
)

// Last segments of the places of records about a call. Places of other uses never end with them.
const (
	ApprovalPlace = "approval" // the answer of an approver
	EditedPlace   = "edited"   // the arguments that a guard has left
	KeptPlace     = "kept"     // the value that the call has stored
)

// lastSegment returns the last segment of a place.
func lastSegment(place string) string { return place[strings.LastIndexByte(place, '/')+1:] }

// IsApproval reports whether a question asks for an approval.
func IsApproval(in *data.Interrupt) bool { return lastSegment(in.Place) == ApprovalPlace }

// Approval is the answer to a request to make a call, or to run a node's agent.
type Approval struct {
	Approved   bool            `json:"approved"`
	EditedArgs json.RawMessage `json:"editedArgs"`
}

// ApprovalOf decodes an answer. A cancelled or malformed one is a refusal.
func ApprovalOf(a plugins.Answer) (given Approval) {
	if a.Cancelled || json.Unmarshal(a.Payload, &given) != nil {
		return Approval{}
	}
	return given
}

// EditedBy returns the edited arguments in an approval's answer, or nil.
func EditedBy(m *data.Memo) json.RawMessage {
	var a plugins.Answer
	if m == nil || !m.Done || json.Unmarshal(m.Output, &a) != nil {
		return nil
	}
	if given := ApprovalOf(a); given.Approved {
		return given.EditedArgs
	}
	return nil
}

// Before returns the records of a step that were done before an event. A call that was not done by then is made again: the records of
// its approval, edited arguments and questions, and of what it has kept, are left out. Verdicts of guards are too: those of now decide.
func Before(all []data.Memo, step int, event int64) (done []data.Memo) {
	isDone := func(m *data.Memo) bool { return m.Done && m.Event < event }
	again := make(map[string]bool) // the prefixes of places inside of calls that are made again
	rechecks := make(map[string]bool)
	for i := range all {
		if m := &all[i]; m.Step == step && m.Tool != "" && !isDone(m) {
			u := plugins.Use{Place: m.Place}
			again[u.Inside("")] = true
			rechecks[plugins.Use{Place: u.Inside(EditedPlace)}.Inside("")] = true
		}
	}
	isAsked := func(place string) bool {
		for i, c := range place {
			if c != '/' {
				continue
			}
			within, rest := place[:i+1], place[i+1:]
			own := rest == ApprovalPlace || rest == EditedPlace || rest == KeptPlace || strings.HasPrefix(rest, "ask:")
			if rechecks[within] || again[within] && own {
				return true
			}
		}
		return false
	}
	for i := range all {
		if m := &all[i]; m.Step == step && isDone(m) && !isAsked(m.Place) && !plugins.IsVerdict(m.Place) {
			done = append(done, *m)
		}
	}
	return done
}
