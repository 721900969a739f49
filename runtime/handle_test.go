package runtime_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// TestOnlyWhatACallerWasGivenReads passes invalid values to every method without a Caller: zero values, rows that
// were filled in by hand, and rows that a Caller obtained but that have other keys now.
func TestOnlyWhatACallerWasGivenReads(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	s := b.start("main", "echo", "secret")
	b.wait(s.RunID, runtime.Completed)
	other := b.start("other", "echo", "x")
	b.wait(other.RunID, runtime.Completed)
	th := b.found("main")
	run, err := b.Runs.Get(t.Context(), local, s.RunID)
	must(t, err)
	h, err := b.Threads.History(t.Context(), local, "main", nil)
	must(t, err)

	builtThread, builtRun, builtStarted := runtime.Thread{Thread: th.Thread}, runtime.Run{Run: run.Run}, runtime.Started{Started: s.Started}
	otherThread, otherRun, otherStarted := th, run, s
	otherThread.Key, otherRun.Key, otherStarted.RunKey = other.ThreadKey, other.RunKey, other.RunKey
	elsewhere := th
	elsewhere.Project = "p2"
	moved, movedStarted := run, s
	moved.ThreadKey, movedStarted.ThreadKey = other.ThreadKey, other.ThreadKey
	day := h
	day.Thread = otherThread
	bare := h
	bare.Thread = builtThread

	logs := map[string]runtime.Log{
		"zero": runtime.Thread{}, "built": builtThread, "of another key": otherThread, "of another project": elsewhere,
		"zero handle": runtime.Handle{}, "handle of zero": runtime.Thread{}.Handle(), "handle of built": builtThread.Handle(),
		"handle of another key": otherThread.Handle(),
	}
	for name, l := range logs {
		_, read := b.Logs.Read(t.Context(), l, 0, false)
		_, snapshot := b.Logs.Snapshot(t.Context(), l)
		_, messages := b.Logs.Messages(t.Context(), l, runtime.MessageFilter{Hidden: true})
		for what, err := range map[string]error{"read": read, "snapshot": snapshot, "messages": messages} {
			if !errors.Is(err, runtime.ErrThreadNotFound) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	for name, th := range map[string]runtime.Thread{"zero": {}, "built": builtThread, "of another key": otherThread} {
		if _, err := b.Runs.Of(t.Context(), &th, s.RunID); !errors.Is(err, runtime.ErrThreadNotFound) {
			t.Errorf("%s, run: %v", name, err)
		}
	}
	all := func(*runtime.Record) bool { return true }
	for name, r := range map[string]*runtime.Run{"zero": {}, "built": &builtRun, "of another key": &otherRun, "of another thread": &moved} {
		_, asks := b.Runs.InterruptsOf(t.Context(), local, r)
		_, snapshot := b.Logs.RunSnapshot(t.Context(), r)
		_, _, events := b.Logs.RunEvents(t.Context(), r, runtime.EventQuery{Limit: 10, Admit: all})
		_, last := b.Logs.LastEventOf(t.Context(), r)
		for what, err := range map[string]error{"asks": asks, "snapshot": snapshot, "events": events, "last event": last} {
			if !errors.Is(err, runtime.ErrRunNotFound) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	for name, s := range map[string]runtime.Started{"zero": {}, "built": builtStarted, "of another key": otherStarted, "of another thread": movedStarted} {
		if _, err := b.Logs.ReadRun(t.Context(), s); !errors.Is(err, runtime.ErrRunNotFound) {
			t.Errorf("%s, run: %v", name, err)
		}
	}
	for name, h := range map[string]runtime.History{"of another key": day, "built": bare} {
		if msgs, err := b.Threads.HistoryMessages(t.Context(), h, 0, 10); len(msgs.Rows) > 0 || !errors.Is(err, runtime.ErrThreadNotFound) {
			t.Errorf("%s, history: %d messages, %v", name, len(msgs.Rows), err)
		}
	}

	// A row that a Caller obtained can be read.
	for name, l := range map[string]runtime.Log{"thread": th, "handle": th.Handle()} {
		cur, err := b.Logs.Read(t.Context(), l, 0, false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cur.Close()
	}
}
