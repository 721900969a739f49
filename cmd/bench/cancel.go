package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// cancelOptions are the options of bench cancel.
type cancelOptions struct {
	runs  int
	sleep time.Duration // of the tool, which ignores the cancellation
}

func defaultCancels() *cancelOptions { return &cancelOptions{runs: 100, sleep: 2 * time.Second} }

func cancelCommand(o *options) *cobra.Command {
	co := defaultCancels()
	cmd := o.command("cancel", "Cancel runs with a tool that ignores it", served(co.bench))
	cmd.Flags().IntVar(&co.runs, "runs", co.runs, "runs, one after the other")
	cmd.Flags().DurationVar(&co.sleep, "sleep", co.sleep, "how long the tool sleeps")
	return cmd
}

func (o *cancelOptions) bench(ctx context.Context, t *target) ([]report, error) {
	var answered, ended []time.Duration
	for i := range o.runs {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		a, e, err := o.one(t)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		answered, ended = append(answered, a), append(ended, e)
	}
	r := report{name: fmt.Sprintf("%d runs cancelled while a tool ignores it", o.runs)}
	r.times("POST cancel to 200", answered)
	r.times("POST cancel to the terminal event at a viewer", ended)
	return []report{r}, nil
}

// one cancels a run and returns how long the answer and the terminal event took.
func (o *cancelOptions) one(t *target) (answered, ended time.Duration, err error) {
	c, err := dial(t.addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	viewer, err := dial(t.addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = viewer.Close() }()

	thread := newThread()
	script := fmt.Sprintf(`{"do": [{"say": "going to sleep"}, {"tool": "stubborn", "args": {"ms": %d}}]}`, o.sleep.Milliseconds())
	run, err := start(c, thread, script)
	if err != nil {
		return 0, 0, err
	}
	if err := viewer.stream(events(thread)); err != nil {
		return 0, 0, err
	}
	if _, err := viewer.until(toolCallEnd); err != nil {
		return 0, 0, err
	}
	type end struct {
		at  time.Time
		err error
	}
	terminal := make(chan end, 1)
	go func() { // ends with the stream
		at, err := viewer.until(runError)
		if err == nil {
			_, err = viewer.frame()
			err = onlyEOF(err)
		}
		terminal <- end{at, err}
	}()

	posted := time.Now()
	if err := c.send("POST", "/api/projects/default/agent-runs/"+run+"/cancel", "", []byte("{}")); err != nil {
		return 0, 0, err
	}
	text, err := c.answer(200)
	if err != nil {
		return 0, 0, err
	}
	answered = time.Since(posted)
	var is struct{ Status string }
	if err := json.Unmarshal(text, &is); err != nil || is.Status != "CANCELLED" {
		return 0, 0, fmt.Errorf("want a cancelled run, got %s", text)
	}
	e := <-terminal
	return answered, e.at.Sub(posted), e.err
}

// until reads up to the next event of a type and returns the time of its arrival.
func (c *conn) until(kind string) (time.Time, error) {
	for {
		f, err := c.frame()
		if err != nil {
			return time.Time{}, fmt.Errorf("waiting for %s: %w", kind, cut(err))
		}
		switch f.kind {
		case kind:
			return time.Now(), nil
		case runFinished, runError:
			return time.Time{}, fmt.Errorf("waiting for %s: the run has ended: %s", kind, f.raw)
		}
	}
}

// onlyEOF returns nil for io.EOF.
func onlyEOF(err error) error {
	switch {
	case err == nil:
		return errors.New("the terminal event is not the last one")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}
