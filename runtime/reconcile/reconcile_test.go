package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// listed reads a list of messages: "u1=text" and "=text" are the user's, with and without an id; "a1" is the agent's.
func listed(list string) (msgs []agui.Message) {
	for word := range strings.FieldsSeq(list) {
		id, text, user := strings.Cut(word, "=")
		m := agui.Message{ID: id, Role: agui.RoleAssistant, Content: "answer"}
		if user {
			m.Role, m.Content = agui.RoleUser, text
		}
		msgs = append(msgs, m)
	}
	return msgs
}

// threadOf reads a thread: its messages as listed has them, with a minus for hidden ones, and their seqs from 1. Each
// user's message begins a run with the key of its seq.
func threadOf(messages string, ids map[string]bool) Thread {
	have := Thread{New: messages == "", Read: true, Whole: true}
	run := int64(0)
	for i, m := range listed(messages) {
		row := data.MessageHead{Seq: int64(i + 1), State: data.MessageConsumed, ID: m.ID, Hash: data.ContentHash(&m)}
		if id, ok := strings.CutPrefix(m.ID, "-"); ok {
			row.ID, row.State = id, data.MessageHidden
		}
		if row.Hash != 0 {
			run = row.Seq
		}
		row.RunKey, have.LastSeq = run, row.Seq
		if ids[row.ID] {
			have.ByID = append(have.ByID, row)
		}
		if row.State == data.MessageConsumed {
			have.Shown = append(have.Shown, row)
		}
	}
	return have
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	const two = "u1=one a1 u2=two a2"
	edits := Request{Edits: true}
	for _, test := range []struct {
		name, thread string
		req          Request
		list         string
		want         string // the ids of the messages that are taken, then other facts of the plan
	}{
		{"the first list is taken whole", "", edits, "u1=one a1 u2=two", "u1 a1 u2"},
		{"a new message", two, edits, "u1=one a1 u2=two a2 u3=three", "u3"},
		{"only the new message", two, edits, "u3=three", "u3"},
		{"the agent's messages are the thread's own", two, edits, "u1=one x u2=two y u3=three", "u3"},
		{"nothing new", two, edits, "u1=one a1 u2=two a2", ""},
		{"a list without the last answer", two, edits, "u1=one a1 u2=two u3=three", "u3"},
		{"another answer", two, edits, "u1=one a1 u2=two", " hides 4"},
		{"another answer to the first message", two, edits, "u1=one", " hides 2"},
		{"an edit of the last message", two, edits, "u1=one a1 u2=other", " edits 2 hides 3"},
		{"an edit of the first message", two, edits, "u1=other", " edits 0 hides 1"},
		{"an edit under a new id", two, edits, "u1=one a1 u3=other", "u3 hides 3"},
		{"no edit unless the front end edits", two, Request{}, "u1=one a1 u2=other", "u2 renames 2"},
		{"no edit without the first message", two, edits, "u2=other", "u2 renames 0"},
		{"no edit in another order", two, edits, "u2=two a2 u1=one", ""},
		{"no edit by a list without ids", two, edits, "=one =three", "(1)"},
		{"no edit by an answer", two, Request{Edits: true, Resumes: true}, "u1=other", ""},
		{"messages without ids, said before", two, Request{}, "=one x =two y =three", "(4)"},
		{"messages without ids in another order", two, Request{}, "=two =one =three", "(1) (2)"},
		{"a message without an id, said again", two, Request{}, "=one =two =two", "(2)"},
		{"a rewind", two, Request{RewindTo: "a1"}, "u3=three", "u3"},
		{"a rewind before the last message", two, Request{RewindTo: "a1"}, "u1=one u2=two", "u2 renames 1"},
		{"a rewind behind it", two, Request{RewindTo: "a2"}, "u1=one u2=two", ""},
		{"a rewind to no message", two, Request{RewindTo: "x"}, "u3=three", "u3 lost"},
		{"a rewind to a hidden message", "u1=one -a1", Request{RewindTo: "a1"}, "u3=three", "u3 lost"},
		{"a rewind of a new thread", "", Request{RewindTo: "u1"}, "u1=one", "u1 lost"},
		{"a hidden message, said again", "u1=one -u2=two", Request{}, "u1=one u2=two", "u2 renames 1"},
		{"another text under a known id", two, Request{}, "u1=one u2=other", "u2 renames 1"},
		{"a rollback of the message's run", two, Request{RollsBack: true}, "u1=one u2=two", "u2 renames 1"},
		{"a rollback of another run", two, Request{RollsBack: true}, "u1=one", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.req.Messages = listed(test.list)
			have := threadOf(test.thread, test.req.Named())
			if test.req.RollsBack {
				have.Open = []data.RunHead{{Key: 3}} // that of u2
			}
			if p, _ := Compare(&test.req, &have); p.describe(test.req.Messages) != test.want {
				t.Errorf("got %q, want %q", p.describe(test.req.Messages), test.want)
			}
			have.Read, have.Shown, have.Open = false, nil, nil
			if q, _ := Compare(&test.req, &have); !q.NeedsThread && q.describe(test.req.Messages) != test.want {
				t.Errorf("without the thread's messages: %q", q.describe(test.req.Messages))
			}
		})
	}
}

// describe returns the plan in words.
func (p *Plan) describe(msgs []agui.Message) string {
	var taken []string
	for _, i := range p.fresh {
		if msgs[i].ID == "" {
			taken = append(taken, fmt.Sprintf("(%d)", i))
		} else {
			taken = append(taken, msgs[i].ID)
		}
	}
	out := strings.Join(taken, " ")
	if p.renamed >= 0 {
		out += fmt.Sprint(" renames ", p.renamed)
	}
	if p.edit >= 0 {
		out += fmt.Sprint(" edits ", p.edit)
	}
	if p.HideFrom > 0 {
		out += fmt.Sprint(" hides ", p.HideFrom)
	}
	if p.Lost {
		out += " lost"
	}
	return out
}

// A thread whose beginning is not read is never edited, and its unnamed messages are never taken twice.
func TestReconcile_KnowsOnlyTheNewestMessages(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"u1=other":   "u1 renames 0",
		"=old =new":  "(1)",
		"=two =new":  "(1)",
		"u1=one a1":  "",
		"u1=one =xx": "(1)",
	} {
		req := Request{Edits: true, Messages: listed(list)}
		have := threadOf("u1=one a1 u2=two a2", req.Named())
		have.Shown, have.Whole = have.Shown[2:], false
		if p, _ := Compare(&req, &have); p.describe(req.Messages) != want {
			t.Errorf("%s: got %q, want %q", list, p.describe(req.Messages), want)
		}
	}
}

// An open run's thread is not edited.
func TestReconcile_LeavesOpenRuns(t *testing.T) {
	t.Parallel()
	req := Request{Edits: true, Messages: listed("u1=other")}
	have := threadOf("u1=one a1", req.Named())
	have.Open = []data.RunHead{{Key: 9}}
	if p, _ := Compare(&req, &have); p.describe(req.Messages) != "u1 renames 0" {
		t.Errorf("got %q", p.describe(req.Messages))
	}
}
