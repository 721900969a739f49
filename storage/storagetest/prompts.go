package storagetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func testPrompt(t *testing.T, f *fixture) {
	ctx := t.Context()
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	begun := data.Prompt{
		PromptResult: data.PromptResult{Status: agui.ModelStarted, Provider: "p", Model: "m", Changes: object("c")},
		RunKey:       run.Key, ID: "a", Step: 2, Sent: "m1-3", StartedAt: at(1),
	}
	end := data.PromptEnd{RunKey: run.Key, ID: "a", PromptResult: data.PromptResult{
		Status: agui.ModelFailed, FinishReason: "stop", Usage: agui.TokenUsage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3},
		Error: &agui.OutputError{Code: "e", Message: "E"}, Answer: "m4", FirstToken: time.Millisecond, Took: time.Second,
	}}
	check := func(want ...data.Prompt) {
		t.Helper()
		p, err := f.ByProject().Prompts(ctx, "project", run.Key, "", 10)
		equal(t, "Prompts", p.Rows, err, want)
		one, err := f.ByProject().Prompt(ctx, "project", run.Key, "a")
		equal(t, "Prompt", one, err, want[0])
	}
	f.put(t, &begun)
	check(begun)
	f.put(t, &end)
	ended := begun
	ended.End(&end)
	check(ended)
	again, endAgain := begun, end
	again.ID, endAgain.ID = "b", "b"
	f.put(t, &again, &endAgain) // in one batch
	both := ended
	both.ID = "b"
	check(ended, both)
	p, err := f.ByProject().Prompts(ctx, "project", run.Key, "a", 10)
	equal(t, "Prompts behind the first", p.Rows, err, []data.Prompt{both})
	if _, err := f.ByProject().Prompt(ctx, "other", run.Key, "a"); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("another project's prompt: %v", err)
	}
}

func testPieces(t *testing.T, f *fixture) {
	ctx := t.Context()
	thread := f.newThread(t, "ann", "main")
	first, second := f.newRun(t, thread, "first", data.Completed), f.newRun(t, thread, "second", data.Completed)
	ids := []string{"shared"}
	f.put(t, &data.PromptPiece{RunKey: first.Key, ID: "shared", Body: object("s")}, &data.PromptPiece{RunKey: second.Key, ID: "shared", Body: object("s")})
	for i := range 9 { // more than a part of the deletion
		id := fmt.Sprint("own", i)
		ids = append(ids, id)
		f.put(t, &data.PromptPiece{RunKey: first.Key, ID: id, Body: object("o")})
	}
	left := func(want int) {
		t.Helper()
		p, err := f.ByProject().PromptPieces(ctx, "project", thread.Key, ids)
		equal(t, "pieces", len(p.Rows), err, want)
	}
	left(10)
	p, err := f.ByProject().PromptPieces(ctx, "other", thread.Key, ids)
	equal(t, "pieces of another project", len(p.Rows), err, 0)
	remove := func(run *data.Run) {
		part := &data.Delete{ThreadKey: thread.Key, RunKey: run.Key, Limit: 4}
		for f.put(t, part); part.Left; {
			f.put(t, part)
		}
	}
	remove(first)
	left(1)
	remove(second)
	left(0)
	third, fourth := f.newRun(t, thread, "third", data.Completed), f.newRun(t, thread, "fourth", data.Completed)
	f.put(t, &data.PromptPiece{RunKey: third.Key, ID: "own1", Body: object("new")}) // would be the old one if that had stayed
	p, err = f.ByProject().PromptPieces(ctx, "project", thread.Key, []string{"own1"})
	equal(t, "a piece after its deletion", p.Rows, err, []data.PromptPiece{{ID: "own1", Body: object("new")}})

	f.put(t, &data.PromptPiece{RunKey: third.Key, ID: "late", Body: object("l")}, &data.PromptPiece{RunKey: first.Key, ID: "late", Body: object("l")})
	f.put(t, &data.PromptPiece{RunKey: first.Key, ID: "later", Body: object("l")}) // of a run that is gone
	remove(third)
	for _, id := range []string{"late", "later"} {
		f.put(t, &data.PromptPiece{RunKey: fourth.Key, ID: id, Body: object("new")})
	}
	p, err = f.ByProject().PromptPieces(ctx, "project", thread.Key, []string{"late", "later"})
	equal(t, "pieces of a run that is gone", p.Rows, err, []data.PromptPiece{{ID: "late", Body: object("new")}, {ID: "later", Body: object("new")}})

	f.put(t, message(fourth, "m", 7, data.MessageConsumed), message(fourth, "n", 8, data.MessageHidden))
	msgs, err := f.ByProject().MessagesBySeq(ctx, "project", thread.Key, []int64{7, 8, 9})
	if err == nil && (len(msgs.Rows) != 2 || msgs.Rows[0].ID != "n") {
		err = fmt.Errorf("%d messages", len(msgs.Rows))
	}
	if err != nil {
		t.Error("MessagesBySeq:", err)
	}
}
