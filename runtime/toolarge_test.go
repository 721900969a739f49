package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// roomGivenBack waits until all runs have released their output, which happens just after the commit of a run's end.
func (b *bench) roomGivenBack() {
	b.t.Helper()
	for deadline := time.Now().Add(patience); b.Stats().Said != 0; <-tick() {
		if time.Now().After(deadline) {
			b.t.Fatalf("%d bytes count on", b.Stats().Said)
		}
	}
}

// The results that close a run's calls can fill the run: then the run fails, without an error of the server.
func TestRunThatIsFullAtItsCloseFails(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	log := slog.New(slog.NewTextHandler(&errs, &slog.HandlerOptions{Level: slog.LevelError}))
	b := open(t, runtime.Config{Limits: runtime.Limits{RunMessages: 64 << 10}, Log: log}, agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Emit(agui.ToolCallStart{ToolCallID: run.Input.RunID, ToolCallName: "add.up"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		if _, err := io.WriteString(run.Text(), run.Input.Query); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, errors.New("with a call open")
	}})
	codes := make(map[string]int)
	for i := range 30 {
		run := b.wait(b.start("main", "caller", strings.Repeat("x", 1+i*2<<10)).RunID, runtime.Failed)
		codes[run.Error.Code]++
	}
	if codes["messages_too_large"] == 0 || codes["messages_too_large"] == 30 {
		t.Errorf("the runs failed with %v", codes)
	}
	b.down()
	if errs.Len() > 0 {
		t.Error(&errs)
	}
}

// An operator configures the limits of events, of threads' states and of appended messages, within the limits of
// clients and of events.
func TestSizesAreSettings(t *testing.T) {
	t.Parallel()
	errs := make(chan error, 8)
	said := strings.Repeat("x", 100<<10)
	sizes := agent{"sizes", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		value := func(n int) json.RawMessage { return json.RawMessage(`"` + said[:n] + `"`) }
		errs <- run.Emit(agui.Custom{Name: "large", Value: value(70 << 10)})
		errs <- run.Emit(agui.Custom{Name: "small", Value: value(60 << 10)})
		errs <- run.Emit(agui.StateSnapshot{Snapshot: json.RawMessage(`{"x":` + string(value(2000)) + `}`)})
		errs <- run.Emit(agui.StateSnapshot{Snapshot: json.RawMessage(`{"x":` + string(value(900)) + `}`)})
		errs <- run.Emit(agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"/y","value":` + string(value(200)) + `}]`)})
		w := run.Text()
		for i := range 20 { // more than its end has room for
			if _, err := io.WriteString(w, said[:10<<10+i]); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{KeyPoints: []string{said}}, w.Close()
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{EventBytes: 1, StateBytes: 1000}, AppendBytes: 10}, sizes)
	run := b.wait(b.start("main", "sizes", "x").RunID, runtime.Completed)
	for i, want := range []string{"event_too_large", "", "state_too_large", "", "state_too_large"} {
		err := <-errs
		if want == "" && err == nil {
			continue
		}
		if refusal, ok := errors.AsType[*plugins.Error](err); !ok || refusal.Code != want {
			t.Errorf("event %d: %v, want %q", i+1, err, want)
		}
	}
	for _, rec := range b.log("main") {
		if end, ok := rec.Event.(agui.TextMessageEnd); ok && (end.Output == nil || end.Output.Answer == "" || len(end.Output.KeyPoints) > 0 || rec.Size() > 64<<10) {
			t.Errorf("the end of a text has %d bytes", rec.Size())
		}
	}
	if _, err := b.Append(t.Context(), local, run.ID, runtime.AppendRequest{Content: "eleven chars"}); code(err) != "content_too_large" {
		t.Errorf("a long message: %v", err)
	}
	if _, err := b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "sizes", Messages: user("go"), State: json.RawMessage(`{"x":"` + said[:1000] + `"}`)}); code(err) != "state_too_large" {
		t.Errorf("a large state: %v", err)
	}
	if _, err := b.Append(t.Context(), local, run.ID, runtime.AppendRequest{Content: "ten chars"}); err != nil {
		t.Error(err)
	}
	b.wait(run.ID, runtime.Completed)
	if s, err := b.Standing(t.Context(), local); err != nil || s.EventBytes != 64<<10 || s.StateBytes != 1000 || s.AppendBytes != 10 {
		t.Errorf("%+v, %v", s, err)
	}
}

// answerAs answers the one question of a run.
func (b *bench) answerAs(who runtime.Caller, id string) {
	b.t.Helper()
	asked, err := b.Runs.Interrupts(b.t.Context(), who, id)
	if err != nil || len(asked) != 1 {
		b.t.Fatal(asked, err)
	}
	if _, err := b.Resume(b.t.Context(), who, id, []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved", Payload: []byte("true")}}); err != nil {
		b.t.Fatal(err)
	}
}

// Metadata that repeats a message's content takes no room from the shown part of its thread.
func TestLongAnswerIsShown(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40<<10) // fits into a frame, but not twice
	b := open(t, runtime.Config{Limits: runtime.Limits{FrameBytes: 64 << 10}}, agent{"says", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := io.WriteString(run.Text(), long)
		return agui.WorkerOutput{}, err
	}})
	b.wait(b.start("main", "says", "one").RunID, runtime.Completed)
	b.wait(b.start("main", "says", "two").RunID, runtime.Completed)
	th := b.found("main")
	before := ""
	for _, question := range []string{"two", "one"} {
		s, err := b.Logs.Messages(t.Context(), th, runtime.MessageFilter{Before: before})
		if err != nil || len(s.Messages) != 2 || s.Messages[0].Content != question || s.Messages[1].Content != long {
			t.Fatalf("before %q there are %d messages, not those of %s, %v", before, len(s.Messages), question, err)
		}
		before = s.Messages[0].ID
	}
}

// An answer that does not fit into an event with the other members is cut at the run's end; its message has all of
// it.
func TestLongAnswerIsCutAtTheEnd(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Limits: runtime.Limits{FrameBytes: 64 << 10}}, agent{"says", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var size int
		if _, err := fmt.Sscan(run.Input.Query, &size); err != nil {
			return agui.WorkerOutput{}, err
		}
		text := run.Text()
		for range 4 {
			if _, err := io.WriteString(text, strings.Repeat("x", size/4)); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}})
	for size := 8 << 10; size < 128<<10; size += 8 << 10 {
		run := b.wait(b.start("main", "says", fmt.Sprint(size)).RunID, runtime.Completed, runtime.Failed)
		said, err := b.Runs.Messages(t.Context(), local, run.ID, 0, 10)
		if err != nil || run.Error != nil || len(said.Rows) != 2 || len(said.Rows[1].Content) != size {
			t.Errorf("with an answer of %d bytes the run has failed with %v and has %d messages, %v", size, run.Error, len(said.Rows), err)
		}
	}
}
