package mcp

import (
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func newTestTap() *tap {
	return newTap(slog.Default(), func(s string) string { return s }, &tasks{of: map[*asker]string{}})
}

// Calls that ended long ago without a response are forgotten, also if nothing is asked.
func TestTap_ForgetsCalls(t *testing.T) {
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
	tp := newTestTap()
	for range 2 {
		tp.asks(&frame{ID: []byte("1"), Params: []byte(`{}`)}, &exchange{asker: &asker{}})
	}
	if len(tp.pending) != 2 {
		t.Errorf("%d of 2 questions are there", len(tp.pending))
	}
}
