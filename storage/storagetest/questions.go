package storagetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/data"
)

// testQuestions asks in runs of several people, and lists each person's open questions.
func testQuestions(t *testing.T, f *fixture) {
	ask := func(run *data.Run, id, status string, body json.RawMessage) *data.Interrupt {
		in := &data.Interrupt{ID: id, RunKey: run.Key, Frontend: body == nil, Body: body, Status: status, CreatedAt: at(len(id))}
		f.put(t, in)
		return in
	}
	ann := f.newRun(t, f.newThread(t, "ann", "main"), "of ann", data.Waiting)
	bob := f.newRun(t, f.newThread(t, "bob", "main"), "of bob", data.Waiting)
	thread := f.threadOf(t, "ann", "elsewhere")
	thread.Project, thread.ConversationID = "other", "another conversation"
	other := f.runOf(t, thread, "elsewhere", data.Waiting)
	f.put(t, thread, other, named(other))

	first := ask(bob, "first", data.InterruptOpen, object("a"))
	second := ask(ann, "second, of a client's tool", data.InterruptOpen, nil)
	ask(ann, "answered", data.InterruptAnswered, object("a"))
	ask(other, "of another project", data.InterruptOpen, object("a"))
	third := ask(ann, "third", data.InterruptOpen, object("a"))

	list := func(filter data.QuestionFilter) data.Page[data.Question] {
		t.Helper()
		filter.Project, filter.Count = "project", true
		p, err := f.ByProject().Questions(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	questions := func(p data.Page[data.Question]) (list []data.Question) {
		for _, q := range p.Rows {
			q.Key = 0
			list = append(list, q)
		}
		return list
	}
	question := func(in *data.Interrupt, run *data.Run) data.Question {
		return data.Question{
			Interrupt: *in, User: run.User, RunID: run.ID, Agent: "echo", ThreadID: run.ThreadID, ConversationID: run.ConversationID,
		}
	}
	everything := list(data.QuestionFilter{})
	equal(t, "the project's", questions(everything), nil,
		[]data.Question{question(first, bob), question(second, ann), question(third, ann)})
	equal(t, "how many", everything.Total, nil, 3)
	equal(t, "ann's", questions(list(data.QuestionFilter{User: "ann"})), nil, []data.Question{question(second, ann), question(third, ann)})
	page := list(data.QuestionFilter{Limit: 1})
	equal(t, "of a first page", []bool{page.More, len(page.Rows) == 1, page.Total == 3}, nil, []bool{true, true, true})
	page = list(data.QuestionFilter{AfterKey: page.Rows[0].Key, Limit: 2})
	equal(t, "the next page", questions(page), nil, []data.Question{question(second, ann), question(third, ann)})
	equal(t, "behind the last", page.More, nil, false)
	page = list(data.QuestionFilter{AfterKey: page.Rows[1].Key})
	equal(t, "an empty page", []int{len(page.Rows), page.Total}, nil, []int{0, 3})

	bob.Status = data.Running // with an earlier answer
	f.put(t, &bob.RunHead)
	equal(t, "of a run that goes on", len(list(data.QuestionFilter{User: "bob"}).Rows), nil, 1)
	bob.Status = data.Completed
	f.put(t, &bob.RunHead, &data.Withdraw{RunKey: bob.Key})
	equal(t, "of a run that has ended", len(list(data.QuestionFilter{User: "bob"}).Rows), nil, 0)

	large := json.RawMessage(`"` + strings.Repeat("x", data.PageBytes) + `"`)
	ask(ann, "large", data.InterruptOpen, large)
	ask(ann, "behind it", data.InterruptOpen, large)
	page = list(data.QuestionFilter{AfterKey: everything.Rows[2].Key})
	equal(t, "a page ends once it is large", []int{len(page.Rows), page.Total}, nil, []int{1, 4})
	equal(t, "and is followed", page.More, nil, true)
}
