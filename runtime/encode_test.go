package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// least returns how many bytes one of several rounds allocates: the least of them, because other goroutines allocate
// meanwhile and buffer pools may have been emptied before a round.
func least(do func(i int)) uint64 {
	took := uint64(math.MaxUint64)
	for i := range 8 {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		do(i)
		goruntime.ReadMemStats(&after)
		took = min(took, after.TotalAlloc-before.TotalAlloc)
	}
	return took
}

// A large message is copied on its way to the database; this test detects superfluous encoding.
func TestMessageIsEncodedOnceForItsRunAndOnceForItsRow(t *testing.T) {
	b := open(t, runtime.Config{}, agent{"quiet", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, nil
	}})
	b.start("warm", "quiet", "hello")
	b.log("warm")
	content := strings.Repeat("x", 1<<20)
	took := least(func(i int) { b.start(fmt.Sprint("t", i), "quiet", content) })

	const encoded = 2 // for its size and its run, and as its row
	const copied = 4  // into RUN_STARTED, into the row's text, into the packed events, into their text
	if got := float64(took) / float64(len(content)); got > encoded+copied+0.5 {
		t.Errorf("a message of %d bytes took %.1f times its size, want %d", len(content), got, encoded+copied)
	}
}

// The result of a tool is encoded once for its record and its event.
func TestToolOutputIsEncodedOnce(t *testing.T) {
	hints := []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	large := tool{plugins.Info{Name: "large"}, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		if string(call.Args) == `{"small":true}` {
			return agui.ToolOutput{}, nil
		}
		return agui.ToolOutput{ResultSummary: "fine", UIHints: hints}, nil
	}}
	var took uint64
	caller := agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := run.CallTool(ctx, "large", json.RawMessage(`{"small":true}`)); err != nil {
			return agui.WorkerOutput{}, err
		}
		var failed error
		took = least(func(i int) {
			_, err := run.CallTool(ctx, "large", fmt.Appendf(nil, `{"n":%d}`, i))
			failed = errors.Join(failed, err)
		})
		return agui.WorkerOutput{}, failed
	}}
	b := open(t, runtime.Config{}, large, caller)
	run := b.start("t", "caller", "go")
	b.wait(run.RunID, runtime.Completed)

	const encoded = 1 // for its record, its event and its message
	const copied = 7  // into the event, the packed events and their text; into the record's; into the message, its row and that one's text
	if got := float64(took) / float64(len(hints)); got > encoded+copied+0.5 {
		t.Errorf("an output of %d bytes took %.1f times its size, want %d", len(hints), got, encoded+copied)
	}
}
