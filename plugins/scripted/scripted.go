// Package scripted is an agent that runs the script in the user message, for tests and benchmarks of everything that
// runs agents.
//
//	{"do": [
//		{"say": "hello world", "delayMs": 5},
//		{"tokens": 200, "size": 4, "delayMs": 0},
//		{"reason": "let me see"},
//		{"tool": "sleep", "args": {"ms": 8000}},
//		{"state": {"n": 1}},
//		{"progress": 0.5, "message": "half"},
//		{"ask": {"message": "Deploy?", "schema": {"type": "object"}}},
//		{"waitMs": 60000},
//		{"waitUntil": "2030-01-31T09:00:00Z"},
//		{"fail": "boom", "code": "x", "retryable": true, "times": 1},
//		{"panic": "boom"},
//		{"emitAfterEnd": true}
//	]}
//
// Each op is a Do named by its index ("op 0"), except that a tool is a CallTool, an ask is an Ask followed by a Do
// that writes the answer, and waitMs and waitUntil are a Sleep and a SleepUntil. say and reason write one message, a delta per word; tokens writes a message of that many
// deltas of size (4) characters; delayMs (0) is the pause between deltas. A failing tool does not end the script. fail
// fails the first times executions of the node, by default all. emitAfterEnd leaves a goroutine that continues to emit
// after the step.
//
// Messages appended during the run are run after the last op. Other text is echoed; an invalid script fails with the
// code bad_script before its first op.
package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/runtime/agui"
)

// Agent runs the script in the last user message.
type Agent struct{}

var _ plugins.Agent = Agent{}

// Info describes the agent, which is named scripted.
func (Agent) Info() plugins.Info {
	return plugins.Info{Name: "scripted", Description: "Plays the JSON script in the last user message."}
}

// Run runs run.Input.Query and then the appended messages until there are none.
func (Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if err := play(ctx, run, run.Input.Query); err != nil {
		return agui.WorkerOutput{}, err
	}
	for {
		messages, err := run.Next(ctx)
		if err != nil || len(messages) == 0 {
			return agui.WorkerOutput{}, err
		}
		for _, m := range messages {
			if err := play(ctx, run, m.Text()); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
	}
}

func play(ctx context.Context, run *plugins.Run, text string) error {
	ops, err := parse(text)
	if err != nil {
		return &plugins.Error{Code: "bad_script", Message: err.Error()}
	}
	for i := range ops {
		if err := ops[i].play(ctx, run, fmt.Sprintf("op %d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (o *op) play(ctx context.Context, run *plugins.Run, name string) error {
	switch o.kind {
	case "tool":
		_, err := run.CallTool(ctx, o.Tool, o.Args)
		return err
	case "ask":
		return o.ask(ctx, run, name)
	case "waitMs":
		return run.Sleep(ctx, time.Duration(o.WaitMS)*time.Millisecond)
	case "waitUntil":
		return run.SleepUntil(ctx, o.WaitUntil)
	case "emitAfterEnd":
		return run.Do(ctx, name, nil, func(context.Context) error {
			if o.EmitAfterEnd {
				go linger(ctx, run) // ends with the step
			}
			return nil
		})
	}
	return run.Do(ctx, name, nil, func(ctx context.Context) error { return o.do(ctx, run) })
}

func (o *op) do(ctx context.Context, run *plugins.Run) error {
	switch o.kind {
	case "say":
		return o.stream(ctx, run.Text(), o.Say)
	case "reason":
		return o.stream(ctx, run.Reason(), o.Reason)
	case "tokens":
		return o.tokens(ctx, run.Text())
	case "state":
		return run.State(o.State)
	case "progress":
		return run.Progress(o.Progress, o.Message)
	case "fail":
		if o.Times == 0 || run.Input.Execution <= o.Times {
			return &plugins.Error{Code: o.Code, Message: o.Fail, Retryable: o.Retryable}
		}
	case "panic":
		panic(o.Panic)
	}
	return nil
}

func (o *op) pause() time.Duration { return time.Duration(o.DelayMS) * time.Millisecond }

func (o *op) stream(ctx context.Context, w io.WriteCloser, text string) error {
	if err := echo.Stream(ctx, w, text, o.pause()); err != nil {
		return err
	}
	return w.Close()
}

// tokens slices its deltas from one string, so it adds no cost to that of the writer.
func (o *op) tokens(ctx context.Context, w io.WriteCloser) error {
	text := numbers(min(o.Tokens, 100, 1+64<<10/o.Size), o.Size)
	beat := echo.Beat{Every: o.pause()}
	for i, at := 0, 0; i < o.Tokens; i, at = i+1, at+o.Size {
		if i > 0 && o.DelayMS > 0 {
			if err := beat.Wait(ctx); err != nil {
				return err
			}
		}
		if at == len(text) {
			at = 0
		}
		if _, err := io.WriteString(w, text[at:at+o.Size]); err != nil {
			return err
		}
	}
	return w.Close()
}

// numbers returns the numbers below n, each cut or padded to size characters, the last of which is a space.
func numbers(n, size int) string {
	var b strings.Builder
	b.Grow(n * size)
	for i := range n {
		digits := strconv.Itoa(i)
		digits = digits[max(0, len(digits)-(size-1)):]
		b.WriteString(strings.Repeat("0", size-1-len(digits)))
		b.WriteString(digits)
		b.WriteByte(' ')
	}
	return b.String()
}

func (o *op) ask(ctx context.Context, run *plugins.Run, name string) error {
	reason := "input_required"
	if o.Ask.Schema == nil {
		reason = "confirmation"
	}
	answer, err := run.Ask(ctx, agui.Interrupt{Reason: reason, Message: o.Ask.Message, ResponseSchema: o.Ask.Schema})
	if err != nil {
		return err
	}
	text := "null"
	switch {
	case answer.Cancelled:
		text = "cancelled"
	case answer.Payload != nil:
		text = string(answer.Payload)
	}
	return run.Do(ctx, name, nil, func(ctx context.Context) error {
		return o.stream(ctx, run.Text(), "answer: "+text)
	})
}

// linger waits for the end of the step and then uses run, which workers must not do.
func linger(ctx context.Context, run *plugins.Run) {
	<-ctx.Done()
	w := run.Text()
	_, _ = io.WriteString(w, "after the end")
	_ = w.Close()
	_ = run.State(map[string]bool{"afterEnd": true})
	_ = run.Emit(agui.Custom{Name: "after-end", Value: json.RawMessage("true")})
	run.Go(func() error { return run.Progress(1, "after the end") })
}
