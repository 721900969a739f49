// Command testbaton is Baton with agents that emit any scripted events, with a tool that needs approval, and with the agent far, which
// is the AG-UI endpoint in REMOTE_URL.
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

// puppet is an agent that executes the query: {"pauseMs": 5, "do": […]}. Each element of do is an event, which it emits, or a move. It
// waits pauseMs before each.
type puppet string

// move is an action of a puppet other than emitting.
type move struct {
	Call string            `json:"call"` // the agent that executes Do
	Once []json.RawMessage `json:"once"` // events to emit once, even if the agent is called again
	Lost []json.RawMessage `json:"lost"` // events to emit and to retract
	Both []json.RawMessage `json:"both"` // moves to execute concurrently
	Tool string            `json:"tool"` // the tool to call with Args
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

// Run executes the query.
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
			return nil // the script expects the failure
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
	case m.Once != nil, m.Lost != nil:
		return run.Do(ctx, "once", nil, func(ctx context.Context) error {
			for _, ev := range append(m.Once, m.Lost...) {
				if err := emit(run, ev); err != nil {
					return err
				}
			}
			if m.Lost != nil {
				return run.Retract(ctx)
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

// deploy is a tool that needs approval. It returns its arguments.
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
