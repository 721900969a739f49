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

// A run at work keeps what it was asked once, for its worker, and not as it was stored, too.
func TestRunsAtWorkKeepNoRequests(t *testing.T) {
	const runs, size = 8, 4 << 20
	begun, on := make(chan struct{}), make(chan struct{})
	b := open(t, runtime.Config{}, agent{"waits", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		begun <- struct{}{}
		<-on
		return agui.WorkerOutput{}, nil
	}})
	text := strings.Repeat("x", size) // of which all runs have the same bytes
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

// Each reader that is stuck has a page of its own in memory, and an event may be large: of those there are only so many at a time.
func TestLargePagesOfReadersAreBounded(t *testing.T) {
	b := open(t, runtime.Config{PagesBytes: 20 << 20}, tokens)
	b.wait(b.start("main", "tokens", strings.Repeat("x", 2<<20)).RunID, runtime.Completed)
	th, err := b.Thread(t.Context(), local, "main")
	if err != nil {
		t.Fatal(err)
	}
	var readers [4]*runtime.Cursor
	for i := range readers {
		if readers[i], err = b.Read(t.Context(), th, 0, true); err != nil {
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
	// What follows is small: with it a reader lets go of what it had.
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

// stuck has some readers of a log behind an event get a page each, and take nothing more. One more gets none.
func (b *bench) stuck(who runtime.Caller, thread string, after int64, most int) {
	b.t.Helper()
	for n := range most + 1 {
		th, err := b.Thread(b.t.Context(), who, thread)
		if err != nil {
			b.t.Fatal(err)
		}
		cur, err := b.Read(b.t.Context(), th, after, true)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(cur.Close)
		patience, want := 30*time.Second, error(nil)
		if n == most {
			patience, want = 2*time.Second, context.DeadlineExceeded
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), patience)
		defer cancel()
		if _, err := cur.Next(ctx); !errors.Is(err, want) {
			b.t.Errorf("reader %d of %s: %v, want %v", n, who.User(), err, want)
		}
	}
}

// With accounts the readers of one user leave room for those of others of the project.
func TestLargePagesAreTheirUsersOwn(t *testing.T) {
	b := open(t, runtime.Config{PagesBytes: 40 << 20, Accounts: true}, tokens)
	users := make(map[string]runtime.Caller)
	for _, name := range []string{"ann", "ben"} {
		users[name] = runtime.MustCaller("p", name, runtime.RoleUser)
		s, err := b.StartRun(t.Context(), users[name], runtime.StartRequest{
			Agent: "tokens", ThreadID: "main", Messages: []agui.Message{{Role: agui.RoleUser, Content: strings.Repeat("x", 2<<20)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.waitAs(users[name], s.RunID, runtime.Completed)
	}
	for _, name := range []string{"ann", "ben"} {
		b.stuck(users[name], "main", 0, 2)
	}
}

// What stands for events that were removed takes room as any large page.
func TestReadersAtAGapTakeRoom(t *testing.T) {
	b := open(t, runtime.Config{PagesBytes: 20 << 20}, tokens)
	b.wait(b.start("main", "tokens", strings.Repeat("x", 2<<20)).RunID, runtime.Completed)
	recs := b.log("main")
	gone := b.start("main", "tokens", "x")
	b.wait(gone.RunID, runtime.Completed)
	b.wait(b.start("main", "tokens", "y").RunID, runtime.Completed)
	if err := b.Delete(t.Context(), local, gone.RunID); err != nil {
		t.Fatal(err)
	}
	b.stuck(local, "main", recs[len(recs)-1].ID, 2)
}

// heap is how much is in use.
func heap() int64 {
	goruntime.GC()
	goruntime.GC() // what pools held
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
