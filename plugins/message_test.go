package plugins_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestText_LastMessageCarriesReturnedOutput(t *testing.T) {
	res := check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "one")
		say(t, run, "two")
		return agui.WorkerOutput{Answer: "2", KeyPoints: []string{"k"}}, nil
	}, plugintest.Config{}, `+1 "one" -1(success one) +2 "two" -2(success 2)`)
	end := res.Events[len(res.Events)-2].(agui.TextMessageEnd)
	if len(end.Output.KeyPoints) != 1 {
		t.Errorf("END carries %+v, want the returned output", end.Output)
	}
}

func TestExecute_EmptyAnswerIsLastText(t *testing.T) {
	res := check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "one")
		say(t, run, "two")
		return agui.WorkerOutput{}, run.Progress(1, "done")
	}, plugintest.Config{}, `+1 "one" -1(success one) +2 "two" -2(success two) CUSTOM`)
	if res.Output.Answer != "two" || res.Output.Status != agui.StatusSuccess {
		t.Errorf("output %+v, want success and two", res.Output)
	}
}

func TestText_EndPrecedesNextEvent(t *testing.T) {
	check(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "text")
		return agui.WorkerOutput{Answer: "a"}, run.State(map[string]int{"n": 1})
	}, plugintest.Config{}, `+1 "text" -1(success text) STATE_DELTA +2 "a" -2(success a)`)
}

// Viewers of the thread see the answer after any earlier text.
func TestExecute_WritesMissingAnswer(t *testing.T) {
	in := func(answer string, text ...string) agent {
		return func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{Answer: answer, KeyPoints: []string{"k"}}, run.Do(ctx, "d", nil, func(context.Context) error {
				for _, s := range text {
					say(t, run, s)
				}
				return nil
			})
		}
	}
	res := check(t, in("42", "thinking"), plugintest.Config{}, `+1 "thinking" -1(success thinking) +2 "42" -2(success 42)`)
	end := res.Events[len(res.Events)-2].(agui.TextMessageEnd)
	if len(end.Output.KeyPoints) != 1 {
		t.Errorf("END carries %+v, want the returned output", end.Output)
	}
	check(t, in("42", "thinking", " 42\n"), plugintest.Config{}, "+1 \"thinking\" -1(success thinking) +2 \" 42\\n\" -2(success  42\n)")
	check(t, in("", "thinking"), plugintest.Config{}, `+1 "thinking" -1(success thinking)`)
	check(t, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "asking")
		out, err := run.CallAgent(ctx, "child", "q")
		return out, err
	}, plugintest.Config{Agents: []plugins.Agent{answers{"found"}}}, `+1 "asking" -1(success asking) SUBAGENT_STARTED +2 "found" -2(success found) SUBAGENT_FINISHED +3 "found" -3(success found)`)
	plugintest.Replay(t, in("42", "thinking"), plugintest.Config{})
}

// answers is an agent that only returns an answer.
type answers struct{ answer string }

func (answers) Info() plugins.Info { return plugins.Info{Name: "child"} }

func (a answers) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{Answer: a.answer}, nil
}

func TestExecute_WritesAnswerWithoutText(t *testing.T) {
	check(t, func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "42"}, nil
	}, plugintest.Config{}, `+1 "42" -1(success 42)`)
	check(t, func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{KeyPoints: []string{"k"}}, nil
	}, plugintest.Config{}, `+1 -1(success )`)
	check(t, func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, nil
	}, plugintest.Config{}, ``)
}

func TestText_EmptyMessageIsOmitted(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "")
		w := run.Reason()
		return agui.WorkerOutput{Answer: "a"}, w.Close()
	}, plugintest.Config{}, `+1 "a" -1(success a)`)
}

func TestText_DeltasAreWholeCharacters(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		for _, b := range []byte("a€😀") {
			if n, err := w.Write([]byte{b}); n != 1 || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
		}
		if n, err := w.Write(nil); n != 0 || err != nil {
			t.Errorf("empty Write = %d, %v", n, err)
		}
		return agui.WorkerOutput{}, w.Close()
	}, plugintest.Config{}, `+1 "a" "€" "😀" -1(success a€😀)`)
}

func TestText_LongWriteIsSeveralDeltas(t *testing.T) {
	text := "a" + strings.Repeat("€", 1_000_000)
	for _, writer := range []func(*plugins.Run) io.WriteCloser{
		func(run *plugins.Run) io.WriteCloser { return run.Text() },
		func(run *plugins.Run) io.WriteCloser { return run.Reason() },
	} {
		res := plugintest.Run(t, plugins.AgentFunc("long", func(_ context.Context, run *plugins.Run) error {
			w := writer(run)
			n, err := io.WriteString(w, text)
			if n != len(text) {
				t.Errorf("wrote %d of %d bytes", n, len(text))
			}
			return errors.Join(err, w.Close())
		}), plugintest.Config{})
		var got strings.Builder
		for _, ev := range res.Events {
			delta := ""
			switch e := ev.(type) {
			case agui.TextMessageContent:
				delta = e.Delta
			case agui.ReasoningMessageContent:
				delta = e.Delta
			}
			if got.WriteString(delta); len(delta) > 1<<20 || !utf8.ValidString(delta) {
				t.Errorf("a delta has %d bytes, valid %t", len(delta), utf8.ValidString(delta))
			}
		}
		if res.Err != nil || got.String() != text {
			t.Errorf("%d bytes are shown, want %d; %v", got.Len(), len(text), res.Err)
		}
	}
}

func TestText_ReplacesIncompleteCharacter(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "a\xe2\x82")
		return agui.WorkerOutput{}, nil
	}, plugintest.Config{}, "+1 \"a\" \"\uFFFD\" -1(success a\uFFFD)")
}

func TestText_ClosedWriterFails(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		_, _ = io.WriteString(w, "a")
		if err := errors.Join(w.Close(), w.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := io.WriteString(w, "b"); err == nil {
			t.Error("a write after Close succeeds")
		}
		return agui.WorkerOutput{}, nil
	}, plugintest.Config{}, `+1 "a" -1(success a)`)
}

func TestText_OneMessageIsOpen(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		a, b, r := run.Text(), run.Text(), run.Reason()
		for _, w := range []io.WriteCloser{a, b, a, r, a} {
			_, _ = io.WriteString(w, "x")
		}
		return agui.WorkerOutput{}, errors.Join(b.Close(), r.Close(), a.Close())
	}, plugintest.Config{}, `+1 "x" -1(success x) +2 "x" -2(success x) +3 "x" -3(success x) `+
		`+r4 "x" -r4 +5 "x" -5(success x)`)
}

func TestReason_EndsAtClose(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Reason()
		_, _ = io.WriteString(w, "hm")
		if err := w.Close(); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, run.Progress(0.5, "")
	}, plugintest.Config{}, `+r1 "hm" -r1 CUSTOM`)
}

func TestMessage_OtherRolesCarryTheirText(t *testing.T) {
	res := check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Message(agui.RoleSystem, "notice")
		_, _ = io.WriteString(w, "note")
		return agui.WorkerOutput{Answer: "a"}, w.Close()
	}, plugintest.Config{}, `+1 "note" -1(success note) +2 "a" -2(success a)`)
	if start := res.Events[1].(agui.TextMessageStart); start.Stage != "notice" || start.Role != agui.RoleSystem {
		t.Errorf("started as %+v", start)
	}
}

func TestEmit_TextMessageCounts(t *testing.T) {
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		_, _ = io.WriteString(w, "own")
		return agui.WorkerOutput{Answer: "done"}, errors.Join(
			run.Emit(agui.TextMessageStart{MessageID: "x", Role: agui.RoleAssistant}),
			run.Emit(agui.TextMessageContent{MessageID: "x", Delta: "raw"}),
			run.Emit(agui.TextMessageEnd{MessageID: "x"}),
			run.Emit(agui.TextMessageStart{MessageID: "y", Role: agui.RoleAssistant}),
			run.Emit(agui.TextMessageEnd{MessageID: "y", Output: &agui.WorkerOutput{Status: "failed"}}),
			run.Emit(agui.TextMessageStart{MessageID: "z", Role: agui.RoleAssistant}),
			run.Emit(agui.TextMessageEnd{MessageID: "z"}),
		)
	}, plugintest.Config{}, `+1 "own" -1(success own) +x "raw" -x(success raw) +y -y(failed ) +z -z(success done)`)
}

func TestEmit_RefusesIllegalEvent(t *testing.T) {
	var refused error
	_, err := plugintest.Execute(t.Context(), agent(func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		refused = run.Emit(agui.TextMessageContent{MessageID: "nobody", Delta: "x"})
		return agui.WorkerOutput{}, nil
	}), plugintest.Config{})
	if refused == nil || err == nil {
		t.Errorf("Emit = %v, Execute = %v, want two errors", refused, err)
	}
}

func TestExecute_FailureEndsOnlyCompleteMessage(t *testing.T) {
	boom := errors.New("boom")
	check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, _ = io.WriteString(run.Text(), "half")
		return agui.WorkerOutput{}, boom
	}, plugintest.Config{}, `+1 "half" -1(failed half)`)
	res := check(t, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		say(t, run, "whole")
		return agui.WorkerOutput{}, boom
	}, plugintest.Config{}, `+1 "whole" -1(success whole)`)
	if !errors.Is(res.Err, boom) {
		t.Errorf("ended with %v", res.Err)
	}
}
