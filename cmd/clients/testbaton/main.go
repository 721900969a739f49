// Command testbaton is Baton with agents that emit whatever they are told to, also what no built-in plugin has a
// use for, with a tool that a person has to approve, and with the agent far, which is the AG-UI endpoint that REMOTE_URL names.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

func main() {
	list := append(builtin.Plugins(), puppet("outer"), puppet("inner"), deploy{})
	if url := os.Getenv("REMOTE_URL"); url != "" {
		far, err := remote.New(remote.Config{Name: "far", Description: "Is elsewhere.", URL: url})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		list = append(list, far)
	}
	cmd.Main(list...)
}

// puppet is an agent that does what the query tells it to: {"pauseMs": 5, "do": […]}, where what to do is an
// event, which it emits, or a move. pauseMs is how long it rests before each.
type puppet string

// move is what a puppet does beside emitting.
type move struct {
	Call string            `json:"call"` // the agent that does Do
	Once []json.RawMessage `json:"once"` // events, which are emitted once, however often the agent is called
	Both []json.RawMessage `json:"both"` // moves to do at the same time
	Tool string            `json:"tool"` // to call with Args
	Ask  string            `json:"ask"`
	Fail string            `json:"fail"`
	Args json.RawMessage   `json:"args"`
	Do   []json.RawMessage `json:"do"`
}

type script struct {
	PauseMS int               `json:"pauseMs"`
	Do      []json.RawMessage `json:"do"`
}

// Info names the agent.
func (p puppet) Info() plugins.Info {
	return plugins.Info{Name: string(p), Description: "Emits what it is told to."}
}

// Run does what the query says.
func (p puppet) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	var s script
	if err := json.Unmarshal([]byte(run.Input.Query), &s); err != nil {
		return agui.WorkerOutput{}, shown(err)
	}
	for _, do := range s.Do {
		select {
		case <-time.After(time.Duration(s.PauseMS) * time.Millisecond):
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
		if err := s.do(ctx, run, do); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{Answer: "done by " + string(p)}, nil
}

func (s *script) do(ctx context.Context, run *plugins.Run, raw json.RawMessage) error {
	var m move
	if err := json.Unmarshal(raw, &m); err != nil {
		return shown(err)
	}
	switch {
	case m.Call != "":
		query, err := json.Marshal(script{s.PauseMS, m.Do})
		if err != nil {
			return err
		}
		_, err = run.CallAgent(ctx, m.Call, string(query))
		if failed := (*plugins.Error)(nil); errors.As(err, &failed) && failed.Code == "told" {
			return nil // it was to fail
		}
		return err
	case m.Tool != "":
		_, err := run.CallTool(ctx, m.Tool, m.Args)
		return err
	case m.Ask != "":
		_, err := run.Ask(ctx, agui.Interrupt{Message: m.Ask})
		return err
	case m.Fail != "":
		return &plugins.Error{Code: "told", Message: m.Fail}
	case m.Both != nil:
		for _, do := range m.Both {
			run.Go(func() error { return s.do(ctx, run, do) })
		}
		return nil
	case m.Once != nil:
		return run.Do(ctx, "once", nil, func(context.Context) error {
			for _, ev := range m.Once {
				if err := emit(run, ev); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return emit(run, raw)
}

func emit(run *plugins.Run, raw json.RawMessage) error {
	ev, err := agui.Decode(raw)
	if err != nil {
		return shown(err)
	}
	if err := run.Emit(ev); err != nil {
		return fmt.Errorf("emit %s: %w", ev.Type(), err)
	}
	return nil
}

// deploy is a tool that a person approves. It returns the arguments that it was called with.
type deploy struct{}

// Info names the tool.
func (deploy) Info() plugins.Info {
	return plugins.Info{
		Name: "deploy", Description: "Returns its arguments.", Approval: true,
		Parameters: json.RawMessage(`{"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}`),
	}
}

// Call returns its arguments.
func (deploy) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) { //nolint:unparam // a Tool may fail
	return agui.ToolOutput{ResultSummary: "deployed " + string(call.Args)}, nil
}

func shown(err error) error { return &plugins.Error{Code: "bad_script", Message: err.Error()} }
