package runtime_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A running run holds its input once, for its worker, and not also in its stored form.
func TestRunsAtWorkKeepNoRequests(t *testing.T) {
	const runs, size = 8, 4 << 20
	begun, on := make(chan struct{}), make(chan struct{})
	b := open(t, runtime.Config{}, agent{"waits", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		begun <- struct{}{}
		<-on
		return agui.WorkerOutput{}, nil
	}})
	text := strings.Repeat("x", size) // all runs share its bytes
	before := heap()
	for i := range runs {
		b.start(fmt.Sprint("t", i), "waits", text)
		<-begun
	}
	if held := heap() - before; held > runs*size/2 {
		t.Errorf("%d runs that were asked %d bytes each keep %d more", runs, size, held)
	}
	close(on)
}

// Each stuck reader holds a page of its own in memory, and an event may be large, so the number of large pages is
// limited.
func TestLargePagesOfReadersAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{PagesBytes: 20 << 20}, tokens)
	b.wait(b.start("main", "tokens", strings.Repeat("x", 2<<20)).RunID, runtime.Completed)
	th := b.found("main")
	var readers [4]*runtime.Cursor
	for i := range readers {
		var err error
		if readers[i], err = b.Logs.Read(t.Context(), th, 0, true); err != nil {
			t.Fatal(err)
		}
		defer readers[i].Close()
	}
	next := func(i int) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if i < 2 {
			ctx = t.Context()
		}
		_, err := readers[i].Next(ctx)
		return err
	}
	for i := range 2 {
		if err := next(i); err != nil {
			t.Fatal(err)
		}
	}
	for i := 2; i < 4; i++ {
		if err := next(i); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reader %d got its page beside two others: %v", i, err)
		}
	}
	// The following events are small, so a reader releases its large page.
	for i := range 2 {
		if err := next(i); err != nil {
			t.Fatal(err)
		}
	}
	for i := 2; i < 4; i++ {
		if recs, err := readers[i].Next(t.Context()); err != nil || recs[0].ID != 1 {
			t.Fatal(err)
		}
		readers[i].Forget()
	}
}

// heap returns the bytes in use on the heap.
func heap() int64 {
	goruntime.GC()
	goruntime.GC() // clears the pools
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
