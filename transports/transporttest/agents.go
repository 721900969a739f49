package transporttest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Typist is an agent that writes the keys of a test, one delta each, until Keys is closed. It fails on the key Fail, and asks
// a question on the key Ask.
type Typist struct{ Keys chan string }

// The keys on which a Typist fails, and asks whether to go on.
const (
	Fail = "fail"
	Ask  = "ask"
)

// Info names the agent typist.
func (Typist) Info() plugins.Info { return plugins.Info{Name: "typist"} }

// Run writes until there are no more keys.
func (a Typist) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	text := run.Text()
	for {
		select {
		case key, ok := <-a.Keys:
			switch {
			case !ok:
				return agui.WorkerOutput{}, text.Close()
			case key == Fail:
				return agui.WorkerOutput{}, errors.New("told to")
			case key == Ask:
				if err := text.Close(); err != nil {
					return agui.WorkerOutput{}, err
				}
				if _, err := run.Ask(ctx, agui.Interrupt{Message: "Go on?"}); err != nil {
					return agui.WorkerOutput{}, err
				}
				text = run.Text()
				continue
			}
			if _, err := io.WriteString(text, key); err != nil {
				return agui.WorkerOutput{}, err
			}
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}
}

// Drummer is an agent that writes in bursts. Its input is {"bursts": …, "size": …, "pauseMs": …}: the number of bursts, the deltas
// of each, and the pause after it.
type Drummer struct{}

// Info names the agent drummer.
func (Drummer) Info() plugins.Info { return plugins.Info{Name: "drummer"} }

// Run writes the bursts.
func (Drummer) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	var beat struct{ Bursts, Size, PauseMs int }
	if err := json.Unmarshal([]byte(run.Input.Query), &beat); err != nil {
		return agui.WorkerOutput{}, err
	}
	text := run.Text()
	for range beat.Bursts {
		for range beat.Size {
			if _, err := io.WriteString(text, "beat "); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		select {
		case <-time.After(time.Duration(beat.PauseMs) * time.Millisecond):
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}
	return agui.WorkerOutput{}, text.Close()
}
