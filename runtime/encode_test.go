package runtime_test

import (
	"context"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A large message is copied on its way to the database, and what is encoded once more than need be is seen here.
func TestMessageIsEncodedOnceForItsRunAndOnceForItsRow(t *testing.T) {
	b := open(t, runtime.Config{}, agent{"quiet", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, nil
	}})
	b.start("warm", "quiet", "hello")
	b.log("warm")
	content := strings.Repeat("x", 4<<20)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	b.start("t", "quiet", content)
	goruntime.ReadMemStats(&after)

	const encoded = 2 // for its size and its run, and as its row
	const copied = 4  // into RUN_STARTED, into the row's text, into the packed events, into their text
	if got := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(content)); got > encoded+copied+0.5 {
		t.Errorf("a message of %d bytes took %.1f times its size, want %d", len(content), got, encoded+copied)
	}
}
