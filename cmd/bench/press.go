package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// crowd is users who ask for runs, many times as many as they may start. They do so from a process of their own, which comes
// after the server and whoever is measured where the three share their cores: what they cost themselves is not measured.
type crowd struct {
	Addr   string
	Key    []byte // that their tokens are signed with
	Script string // of their runs
	Users  int
	Times  int // their limit
	Limit  int // requests per second
}

// pressed is what a crowd has got since its bursts were spent.
type pressed struct {
	Taken, Refused int64
	Took           time.Duration
}

// start starts the process and returns when the bursts are spent. stop ends it.
func (w *crowd) start(ctx context.Context) (stop func() (pressed, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "press")
	if nice, err := exec.LookPath("nice"); err == nil { // there is none on Windows
		cmd = exec.CommandContext(ctx, nice, "-n", "19", self, "press")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	answers := json.NewDecoder(out)
	var spent bool
	err = errors.Join(json.NewEncoder(in).Encode(w), answers.Decode(&spent))
	stop = func() (p pressed, err error) {
		err = errors.Join(in.Close(), answers.Decode(&p))
		return p, errors.Join(err, cmd.Wait())
	}
	if err != nil {
		_ = in.Close()
		return nil, fmt.Errorf("the crowd did not start: %w", errors.Join(err, cmd.Wait()))
	}
	return stop, nil
}

// press is the process: it reads a crowd from in, says on out when its bursts are spent, and what it has got since when in ends.
func press(in io.Reader, out io.Writer) error {
	var w crowd
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &w); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var taken, refused atomic.Int64
	for i := range w.Users {
		group.Go(func() error { return w.ask(ctx, i, &taken, &refused) })
	}
	err = pause(ctx, time.Second+6*time.Second/time.Duration(w.Limit)) // until their bursts are spent
	began, before := time.Now(), pressed{Taken: taken.Load(), Refused: refused.Load()}
	if err == nil {
		err = json.NewEncoder(out).Encode(true)
	}
	if err == nil {
		_, err = lines.ReadByte() // which nobody sends
	}
	p := pressed{taken.Load() - before.Taken, refused.Load() - before.Refused, time.Since(began)}
	cancel()
	if failed := group.Wait(); failed != nil || !errors.Is(err, io.EOF) {
		return errors.Join(failed, err)
	}
	return json.NewEncoder(out).Encode(p)
}

// ask asks for runs of one of the users until ctx ends.
func (w *crowd) ask(ctx context.Context, user int, taken, refused *atomic.Int64) error {
	token, err := tokenOf(w.Key, fmt.Sprintf("crowd-%d", user))
	if err != nil {
		return err
	}
	c, err := dial(w.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	gap, turn := time.Second/time.Duration(w.Times*w.Limit), time.Second/time.Duration(w.Limit)
	// What is taken of a user comes once a turn, counted from the first request: users who all began within one gap would
	// stay in step and have all their runs taken within one gap of each turn.
	if pause(ctx, turn*time.Duration(user)/time.Duration(w.Users)) != nil {
		return nil
	}
	ticks := time.NewTicker(gap)
	defer ticks.Stop()
	for {
		if err := c.send("POST", "/api/v1/agent/runs", "Accept: application/json\r\n"+token, body(newThread(), w.Script)); err != nil {
			return err
		}
		status, err := c.receive()
		if err != nil {
			return err
		}
		text, err := c.text()
		switch {
		case err != nil:
			return err
		case status == 202:
			taken.Add(1)
		case status == 429:
			refused.Add(1)
		default:
			return fmt.Errorf("status %d: %s", status, text)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}
