package storagetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/model"
)

// testQuestions asks in runs of several people, and lists each person's open questions.
func testQuestions(t *testing.T, f *fixture) {
	ask := func(run *model.Run, id, status string, body json.RawMessage) *model.Interrupt {
		in := &model.Interrupt{ID: id, RunKey: run.Key, Frontend: body == nil, Body: body, Status: status, CreatedAt: at(len(id))}
		f.put(t, in)
		return in
	}
	ann := f.newRun(t, f.newThread(t, "ann", "main"), "of ann", model.Waiting)
	bob := f.newRun(t, f.newThread(t, "bob", "main"), "of bob", model.Waiting)
	busy := f.newRun(t, f.newThread(t, "bob", "busy"), "not yet", model.Running)
	thread := f.threadOf(t, "ann", "elsewhere")
	thread.Project, thread.ConversationID = "other", "another conversation"
	other := f.runOf(t, thread, "elsewhere", model.Waiting)
	f.put(t, thread, other, named(other))

	first := ask(bob, "first", model.InterruptOpen, object("a"))
	second := ask(ann, "second, of a client's tool", model.InterruptOpen, nil)
	ask(ann, "answered", model.InterruptAnswered, object("a"))
	ask(busy, "of a run that does not wait yet", model.InterruptOpen, object("a"))
	ask(other, "of another project", model.InterruptOpen, object("a"))
	third := ask(ann, "third", model.InterruptOpen, object("a"))

	list := func(filter model.QuestionFilter) model.Page[model.Question] {
		t.Helper()
		filter.Project, filter.Count = "project", true
		p, err := f.Questions(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	questions := func(p model.Page[model.Question]) (list []model.Question) {
		for _, q := range p.Rows {
			q.Key = 0
			list = append(list, q)
		}
		return list
	}
	question := func(in *model.Interrupt, run *model.Run) model.Question {
		return model.Question{
			Interrupt: *in, User: run.User, RunID: run.ID, Agent: "echo", ThreadID: run.ThreadID, ConversationID: run.ConversationID,
		}
	}
	everything := list(model.QuestionFilter{})
	equal(t, "the project's", questions(everything), nil,
		[]model.Question{question(first, bob), question(second, ann), question(third, ann)})
	equal(t, "how many", everything.Total, nil, 3)
	equal(t, "ann's", questions(list(model.QuestionFilter{User: "ann"})), nil, []model.Question{question(second, ann), question(third, ann)})
	page := list(model.QuestionFilter{Limit: 1})
	equal(t, "of a first page", []bool{page.More, len(page.Rows) == 1, page.Total == 3}, nil, []bool{true, true, true})
	page = list(model.QuestionFilter{AfterKey: page.Rows[0].Key, Limit: 2})
	equal(t, "the next page", questions(page), nil, []model.Question{question(second, ann), question(third, ann)})
	equal(t, "behind the last", page.More, nil, false)
	page = list(model.QuestionFilter{AfterKey: page.Rows[1].Key})
	equal(t, "an empty page", []int{len(page.Rows), page.Total}, nil, []int{0, 3})

	busy.Status = model.Waiting
	bob.Status = model.Completed
	f.put(t, &busy.RunHead, &bob.RunHead, &model.Withdraw{RunKey: bob.Key})
	equal(t, "what waits now", len(list(model.QuestionFilter{User: "bob"}).Rows), nil, 1)
	equal(t, "and of whom", list(model.QuestionFilter{User: "bob"}).Rows[0].RunID, nil, "not yet")

	large := json.RawMessage(`"` + strings.Repeat("x", model.PageBytes) + `"`)
	ask(ann, "large", model.InterruptOpen, large)
	ask(ann, "behind it", model.InterruptOpen, large)
	page = list(model.QuestionFilter{AfterKey: everything.Rows[2].Key})
	equal(t, "a page ends once it is large", []int{len(page.Rows), page.Total}, nil, []int{1, 5})
	equal(t, "and is followed", page.More, nil, true)
}
