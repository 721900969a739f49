package agui_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/transports"
)

// walker is an agent that writes of everything an event at a time, and rests before each.
type walker struct {
	name  string
	rests chan struct{} // it rests; closed when it is done
	on    chan struct{} // it may go on
}

func (w walker) Info() plugins.Info { return plugins.Info{Name: w.name} }

func (w walker) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	steps := w.inner(run)
	if w.name == "walker" {
		defer close(w.rests)
		steps = w.outer(ctx, run)
	}
	for _, step := range steps {
		w.rests <- struct{}{}
		<-w.on
		if err := step(); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{Answer: "done by " + w.name}, nil
}

func emits(run *plugins.Run, evs ...agui.Event) (steps []func() error) {
	for _, ev := range evs {
		steps = append(steps, func() error { return run.Emit(ev) })
	}
	return steps
}

func (w walker) outer(ctx context.Context, run *plugins.Run) []func() error {
	steps := emits(run,
		agui.ReasoningStart{MessageID: "r"},
		agui.ReasoningMessageStart{MessageID: "r"},
		agui.ReasoningMessageContent{MessageID: "r", Delta: "let me "},
		agui.ReasoningMessageContent{MessageID: "r", Delta: "see"},
		agui.ReasoningMessageEnd{MessageID: "r"},
		agui.ReasoningEnd{MessageID: "r"},
		agui.StepStarted{StepName: "look"},
		agui.TextMessageStart{MessageID: "m1", Role: agui.RoleAssistant},
		agui.TextMessageContent{MessageID: "m1", Delta: "hello "},
		agui.TextMessageContent{MessageID: "m1", Delta: "world"},
		agui.ToolCallStart{ToolCallID: "c1", ToolCallName: "search", ParentMessageID: "m1"},
		agui.ToolCallArgs{ToolCallID: "c1", Delta: `{"q":`},
		agui.ToolCallArgs{ToolCallID: "c1", Delta: `"x"}`},
		agui.ToolCallStart{ToolCallID: "c2", ToolCallName: "search", ParentMessageID: "m1"},
		agui.ToolCallEnd{ToolCallID: "c1"},
		agui.ToolCallArgs{ToolCallID: "c2", Delta: `{}`},
		agui.ToolCallEnd{ToolCallID: "c2"},
		agui.TextMessageEnd{MessageID: "m1"},
		agui.ToolCallResult{MessageID: "t1", ToolCallID: "c1", Content: "found"},
		agui.ToolCallResult{MessageID: "t2", ToolCallID: "c2", Content: "nothing"},
		agui.StepFinished{StepName: "look"},
		agui.ActivitySnapshot{MessageID: "a", ActivityType: "PLAN", Content: []byte(`{"done":0}`)},
		agui.ActivityDelta{MessageID: "a", ActivityType: "PLAN", Patch: []byte(`[{"op":"replace","path":"/done","value":1}]`)},
		agui.Custom{Name: "note", Value: []byte(`1`)},
	)
	steps = append(steps,
		func() error { return run.State(map[string]any{"n": 1}) },
		func() error { _, err := run.CallAgent(ctx, "stroller", "walk"); return err },
		func() error { return run.State(map[string]any{"n": 2, "list": []int{1}}) },
		func() error {
			_, err := run.CallTool(ctx, "calculator", map[string]string{"expression": "6*7"})
			return err
		})
	return append(steps, emits(run,
		agui.TextMessageStart{MessageID: "m2", Role: agui.RoleAssistant},
		agui.TextMessageContent{MessageID: "m2", Delta: "bye"},
	)...)
}

func (w walker) inner(run *plugins.Run) []func() error {
	steps := emits(run,
		agui.StepStarted{StepName: "look"},
		agui.ReasoningStart{MessageID: "ri"},
		agui.ReasoningMessageStart{MessageID: "ri"},
		agui.ReasoningMessageContent{MessageID: "ri", Delta: "inside"},
		agui.ReasoningMessageEnd{MessageID: "ri"},
		agui.ReasoningEnd{MessageID: "ri"},
		agui.TextMessageStart{MessageID: "mi", Role: agui.RoleAssistant},
		agui.TextMessageContent{MessageID: "mi", Delta: "from "},
		agui.TextMessageContent{MessageID: "mi", Delta: "below"},
		agui.StepFinished{StepName: "look"},
	)
	return append(steps, func() error { return run.State(map[string]any{"deep": true}) })
}

// events parses a stream's frames.
func events(t *testing.T, stream string) (evs []agui.Event) {
	t.Helper()
	for block := range strings.SplitSeq(stream, "\n\n") {
		_, data, ok := strings.Cut(block, "\ndata: ")
		if !ok {
			continue
		}
		ev, err := agui.Decode([]byte(data))
		if err != nil {
			t.Fatalf("%v in %s", err, block)
		}
		evs = append(evs, ev)
	}
	return evs
}

// thread is a client's state after it has read a stream.
type thread struct {
	State    string
	Messages []string
}

// verify adds ev, one of evs, to v. A call that a snapshot brings may get its result later; one that is opened
// again behind the snapshot is made there, as far as v knows: clients take it as the one they have, but in a
// log nobody may make a call twice, and v cannot tell the two apart.
func verify(v *agui.Verifier, ev agui.Event, evs []agui.Event) error {
	snapshot, ok := ev.(agui.MessagesSnapshot)
	if !ok {
		return v.Add(ev)
	}
	again := func(c agui.ToolCall) bool {
		return slices.ContainsFunc(evs, func(ev agui.Event) bool {
			start, ok := ev.(agui.ToolCallStart)
			return ok && start.ToolCallID == c.ID
		})
	}
	snapshot.Messages = slices.Clone(snapshot.Messages)
	for i := range snapshot.Messages {
		m := &snapshot.Messages[i]
		m.ToolCalls = slices.DeleteFunc(slices.Clone(m.ToolCalls), again)
		for _, c := range m.ToolCalls {
			v.Owe(c.ID)
		}
	}
	return v.Add(snapshot)
}

// folded feeds a stream to a client that enforces the order of events.
func folded(t *testing.T, stream string) thread {
	t.Helper()
	var v agui.Verifier
	f := fold.New(nil, nil)
	evs := events(t, stream)
	for i, ev := range evs {
		if err := verify(&v, ev, evs); err != nil {
			t.Fatalf("event %d, %s: %v in\n%s", i+1, ev.Type(), err, stream)
		}
		if _, err := f.Apply(ev); err != nil {
			t.Fatalf("event %d, %s: %v in\n%s", i+1, ev.Type(), err, stream)
		}
	}
	th := thread{State: string(f.State())}
	for _, m := range f.Messages() {
		th.Messages = append(th.Messages, string(m.AppendJSON(nil, agui.AGUI1)))
	}
	return th
}

// TestViewersWhoJoinAtAnyPointEndUpAlike cuts a run at every event: what a client folds from where it joined
// must be what one folds that was there from the start.
func TestViewersWhoJoinAtAnyPointEndUpAlike(t *testing.T) {
	t.Parallel()
	for name, dialect := range map[string]string{"1.0": modern, "0.0": ""} {
		t.Run(name, func(t *testing.T) {
			w := walker{"walker", make(chan struct{}), make(chan struct{})}
			child := w
			child.name = "stroller"
			s := serve(t, transports.StreamConfig{}, w, child)
			if got := s.run("scripted", "main", "before", script(`{"say": "earlier"}, {"state": {"old": 1}}`), dialect).All(); !strings.Contains(got, "RUN_FINISHED") {
				t.Fatal(got)
			}
			early := s.connect(dialect).All()
			whole := s.run("walker", "main", "walk", "go", dialect)
			queued := s.run("echo", "main", "after", "and then", dialect)
			var joined []*response
			for range w.rests {
				joined = append(joined, s.connect(dialect))
				w.on <- struct{}{}
			}
			joined = append(joined, s.connect(dialect))
			all := early + whole.All() + queued.All()
			want := folded(t, all)
			if len(want.Messages) < 10 || want.State != `{"old":1,"n":2,"deep":true,"list":[1]}` {
				t.Errorf("the run came to %+v", want)
			}
			for i, r := range joined {
				stream := r.All()
				if diff := cmp.Diff(want, folded(t, stream)); diff != "" {
					t.Errorf("joined at rest %d of %d:\n%s\n%s", i+1, len(joined), diff, stream)
				}
			}
		})
	}
}

// A client that was cut off at any event, and resumes behind it, ends with the same messages, also around a retraction.
func TestRetraction_ResumedStreamEndsAlike(t *testing.T) {
	t.Parallel()
	tries := plugins.AgentFunc("tries", func(ctx context.Context, run *plugins.Run) error {
		return run.Do(ctx, "model", nil, func(ctx context.Context) error {
			for _, s := range []string{"half", "half again"} {
				if err := errors.Join(say(run, s), run.Retract(ctx)); err != nil {
					return err
				}
			}
			return say(run, "whole")
		})
	})
	s := serve(t, transports.StreamConfig{}, tries)
	key := []string{"Idempotency-Key", "k"}
	whole := s.run("tries", "main", "a", "go", modern, key...).All()
	want := folded(t, whole)
	if all := strings.Join(want.Messages, "\n"); len(want.Messages) != 2 || !strings.Contains(all, `"whole"`) {
		t.Fatalf("the client has %s of\n%s", all, whole)
	}
	frames := strings.SplitAfter(whole, "\n\n")
	for i, frame := range frames {
		_, rest, ok := strings.Cut(frame, "id: ")
		if id, _, _ := strings.Cut(rest, "\n"); ok {
			before := strings.Join(frames[:i+1], "")
			for door, resumed := range map[string]string{
				"repeated POST": s.run("tries", "main", "a", "go", modern, append(key, "Last-Event-ID", id)...).All(),
				"GET":           s.Do("GET", "/api/v1/agui/tries?runId=a&offset="+id, "").All(),
			} {
				if i == len(frames)-2 {
					resumed = "" // it repeats the end
				}
				if diff := cmp.Diff(want, folded(t, before+resumed)); diff != "" {
					t.Errorf("%s behind %s:\n%s\n%s", door, id, diff, resumed)
				}
			}
		}
	}
}

// say writes a text.
func say(run *plugins.Run, text string) error {
	_, err := io.WriteString(run.Text(), text)
	return err
}
