package journal

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Last segments of the places of records about a call. Places of other uses never end with them.
const (
	ApprovalPlace = "approval" // the answer of an approver
	EditedPlace   = "edited"   // the arguments that a guard has left
	KeptPlace     = "kept"     // the value that the call has stored
)

// Places of the wait and the question of a node itself. Those of its worker are counted from 1.
const (
	WaitPlace = "wait#0"
	AskPlace  = "ask#0"
)

// Given is the record of the answer to the question of a node.
type Given struct {
	plugins.Answer
	By string `json:"by,omitempty"` // its user
}

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

// Before returns the records of a step that were done before an event. A call that was not done by then is made again, so the
// records inside it are left out: its approval, edited arguments, questions and stored values. Verdicts of guards are left out, too: guards judge again.
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

// Doing is a Do with a running function. Its memo names the messages that the function has begun. If the process dies
// meanwhile, they are retracted: the function is called again and emits all of them again.
type Doing struct {
	Outer *Doing // the enclosing Do, nil outside of any
	Memo  data.Memo
	shown []string // ids of the messages it has begun
	known int      // how many of them the memo names
	full  int      // how many memos have reached their limit of ids
}

// idsPerMemo limits the message ids in one memo of a Do, because each new id rewrites its memo. Further ids go into further memos.
const idsPerMemo = 100

// at returns memo number n of the Do, which names its latest messages. Number 0 is the memo of the Do itself.
func (d *Doing) at(n int) data.Memo {
	row := d.Memo
	if n > 0 {
		row.Place += "+" + strconv.Itoa(n)
	}
	return row
}

// Over returns the further memos as done: they are not needed once the Do has its record.
func (d *Doing) Over() (rows []data.Row) {
	for n := 1; n <= d.full; n++ {
		row := d.at(n)
		row.Done = true
		rows = append(rows, &row)
	}
	return rows
}

// Doings are a step's Dos with running functions. The run's mutex guards them.
type Doings []*Doing

// inner returns the innermost running Do. It returns nil when there is none, or when several run side by side, so that the
// owner of a message is unknown.
func (ds Doings) inner() *Doing {
	var inner *Doing
	for _, d := range ds {
		if d.Outer != inner {
			return nil
		}
		inner = d
	}
	return inner
}

// Showing adds the message that ev begins to the running Do. It returns the memo that must be stored with ev: when ev ends a
// message, or begins a message of calls, which a crash does not cut.
func (ds Doings) Showing(ev agui.Event, isBegun func(message string) bool) []data.Row {
	d := ds.inner()
	if d == nil {
		return nil
	}
	switch e := ev.(type) {
	case agui.TextMessageStart:
		d.shown = append(d.shown, e.MessageID)
	case agui.ReasoningMessageStart:
		d.shown = append(d.shown, e.MessageID)
	case agui.ToolCallStart:
		if id := cmp.Or(e.ParentMessageID, e.ToolCallID); !isBegun(id) {
			d.shown = append(d.shown, id)
			return ds.Shown()
		}
	case agui.TextMessageEnd, agui.ReasoningMessageEnd:
		return ds.Shown()
	}
	return nil
}

// Shown returns the memo of the running Do if the Do has begun messages that the memo does not name. It is stored with the
// held event that ends one of them.
func (ds Doings) Shown() []data.Row {
	d := ds.inner()
	if d == nil || d.known == len(d.shown) {
		return nil
	}
	d.known = len(d.shown)
	row := d.at(d.full)
	row.Output = data.MustJSON(d.shown)
	if d.known >= idsPerMemo {
		d.shown, d.known, d.full = nil, 0, d.full+1
	}
	return []data.Row{&row}
}
