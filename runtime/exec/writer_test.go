package exec

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/span"
)

// writing returns the writer of a run in an open span, without an engine, and emitters of workers.
func writing(t *testing.T) (*fake, *writer, func() *emitter) {
	t.Helper()
	f := new(fake)
	run := &data.Run{RunHead: data.RunHead{Key: 1, ID: "r", ThreadKey: 1, Agent: "a", WorkflowID: "a", Generation: 1, Attempt: 2}}
	w := new(writer)
	w.open(&Config{Commits: queueOn(t, f, slog.New(slog.DiscardHandler)), NoPrompts: true, RunMessages: 1 << 20}, run, func(err error) { t.Error(err) })
	w.span, w.nodes = span.Next(1<<20, &data.Thread{ThreadHead: data.ThreadHead{Key: 1, ID: "t"}}, run, 0, 0), plan.New(new(graph.Graph))
	w.span.Bounds = span.Bounds{Event: 1 << 20, Events: 100, State: 1 << 20, Messages: 1 << 20, Grow: func(int) bool { return true }}
	var it commit.Item
	if err := w.span.Started(&it, run, nil, nil, ""); err != nil {
		t.Fatal(err)
	}
	return f, w, func() *emitter {
		return &emitter{out: w, w: &span.Worker{Ctx: t.Context(), Step: 1, Agent: "a"}}
	}
}

// text emits a message's event; its id is the worker's own.
func text(em *emitter, evs ...agui.Event) (err error) {
	for _, ev := range evs {
		em.out.mu.Lock()
		if start, ok := ev.(agui.TextMessageStart); ok {
			em.out.journal.Mint(start.MessageID)
		}
		em.out.mu.Unlock()
		err = errors.Join(err, em.emit(ev, nil))
	}
	return err
}

// The end of a text in a Do is stored together with the Do's record.
func TestWriter_HoldsAnEndForTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, w, worker := writing(t)
		em := worker()
		em.dos = journal.Doings{{}}
		err := text(em, agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}, agui.TextMessageContent{MessageID: "m", Delta: "Hi"}, agui.TextMessageEnd{MessageID: "m"})
		if err == nil {
			err = w.cfg.Commits.Flush()
		}
		before := len(f.events)
		if err := errors.Join(err, em.write([]data.Row{&data.Memo{Step: 1, Place: "do:x#1", Done: true}})); err != nil || before != 2 || len(f.events) != 3 {
			t.Errorf("%d events are stored before the record and %d with it, want 2 and 3: %v", before, len(f.events), err)
		}
	})
}

// One text is open at a time: another worker waits until it has ended, or until the gate is shut.
func TestWriter_LetsTextsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w, worker := writing(t)
		one, two, three := worker(), worker(), worker()
		if err := text(one, agui.TextMessageStart{MessageID: "m1", Role: agui.RoleAssistant}); err != nil {
			t.Fatal(err)
		}
		began := make(chan error, 1)
		go func() { began <- text(two, agui.TextMessageStart{MessageID: "m2", Role: agui.RoleAssistant}) }()
		synctest.Wait()
		if len(began) > 0 {
			t.Error("two texts are open at once")
		}
		if err := errors.Join(text(one, agui.TextMessageEnd{MessageID: "m1"}), one.put(nil, nil), <-began); err != nil {
			t.Error(err)
		}
		go func() { began <- text(three, agui.TextMessageStart{MessageID: "m3", Role: agui.RoleAssistant}) }()
		synctest.Wait()
		w.mu.Lock()
		first, again := w.shut(plugins.ErrCancelled), w.shut(plugins.ErrEnded)
		w.mu.Unlock()
		if err := <-began; !first || again || !errors.Is(err, plugins.ErrCancelled) {
			t.Errorf("the gate is shut %v and again %v, and a waiting worker gets %v", first, again, err)
		}
	})
}

// Crashes and releases are counted from the last completed record.
func TestWriter_CountsFromTheLastRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, w, worker := writing(t)
		w.interruptions, w.released = 3, 4
		err := worker().write([]data.Row{&data.Memo{Step: 1, Place: "ask#1", CallID: "q"}, &data.Interrupt{ID: "q", Step: 1, Place: "ask#1"}})
		if err != nil || w.interruptions != 3 || !w.asked {
			t.Errorf("after a question %d interruptions count, it has asked: %v, %v", w.interruptions, w.asked, err)
		}
		err = worker().write([]data.Row{&data.Memo{Step: 1, Place: "do:x#1", Done: true}})
		reset := slices.ContainsFunc(f.rows, func(row data.Row) bool { c, ok := row.(*data.RunCrashes); return ok && c.Attempt == 0 })
		if err != nil || w.interruptions != 0 || w.released != 0 || w.run.Attempt != 0 || !reset {
			t.Errorf("after a record %d interruptions, %d releases and %d crashes count, written: %v, %v", w.interruptions, w.released, w.run.Attempt, reset, err)
		}
	})
}
