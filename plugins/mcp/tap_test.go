package mcp

import (
	"log/slog"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins/problem"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func newTestTap() *tap {
	return newTap(slog.Default(), new(problem.Secrets), &tasks{of: map[*asker]string{}})
}

// Calls that ended long ago without a response are forgotten, also if nothing is asked.
func TestTap_ForgetsCalls(t *testing.T) {
	t.Parallel()
	tp := newTestTap()
	for i := range 100 {
		id, _ := jsonrpc.MakeID(float64(i))
		x := &exchange{id: id, asker: &asker{}, sent: true}
		tp.open[id] = x
		tp.leave(x)
		x.left = time.Now().Add(-time.Hour)
	}
	if n := len(tp.left); n != 1 {
		t.Errorf("%d calls that ended an hour ago are still there", n)
	}
}

// Two questions of one id, in the streams of two calls, are two questions.
func TestTap_QuestionsOfOneID(t *testing.T) {
	t.Parallel()
	tp := newTestTap()
	for range 2 {
		tp.asks(&frame{ID: []byte("1"), Params: []byte(`{}`)}, &exchange{asker: &asker{}})
	}
	if len(tp.pending) != 2 {
		t.Errorf("%d of 2 questions are there", len(tp.pending))
	}
}

// A question that names no task, outside of a call's stream, can be that of each call in flight and of each task.
func TestTap_UnnamedQuestion(t *testing.T) {
	t.Parallel()
	tp := newTestTap()
	a, b := new(asker), new(asker)
	tp.tasks.enter(a)
	tp.tasks.begun(a, "T")
	id, _ := jsonrpc.MakeID(1.0)
	tp.open[id] = &exchange{id: id, asker: b}
	for params, want := range map[string]int{`{}`: 2, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}`: 1} {
		tp.asks(&frame{ID: []byte("1"), Params: []byte(params)}, nil)
		for key, p := range tp.pending {
			if len(p.from) != want {
				t.Errorf("%s can be of %d calls, want %d", params, len(p.from), want)
			}
			delete(tp.pending, key)
		}
	}
}
