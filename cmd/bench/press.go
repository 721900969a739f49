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

// crowd is a set of users that request many times more runs than they may start, in a separate process.
type crowd struct {
	Addr   string
	Key    []byte // signs their tokens
	Script string // of their runs
	Users  int
	Times  int // multiple of the limit that each requests
	Limit  int // requests per second
}

// pressed counts the crowd's accepted and refused runs since its bursts were spent.
type pressed struct {
	Taken, Refused int64
	Took           time.Duration
}

// start starts the process and returns when the bursts are spent. stop ends it.
func (w *crowd) start(ctx context.Context) (stop func() (pressed, error), err error) {
	p, err := background(ctx, "press", w)
	if err != nil {
		return nil, err
	}
	return p.stop, nil
}

// process is a process of this program with low priority, so that its CPU time does not distort the measurement on a shared machine.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
}

// background starts a process with its command and its options, and returns when it is ready.
func background(ctx context.Context, command string, options any) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, command)
	if nice, err := exec.LookPath("nice"); err == nil { // not on Windows
		cmd = exec.CommandContext(ctx, nice, "-n", "19", self, command)
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
	p := &process{cmd, in, json.NewDecoder(out)}
	var ready bool
	if err = errors.Join(json.NewEncoder(in).Encode(options), p.answers.Decode(&ready)); err != nil {
		_ = in.Close()
		return nil, fmt.Errorf("%s did not start: %w", command, errors.Join(err, cmd.Wait()))
	}
	return p, nil
}

// stop ends the process.
func (p *process) stop() (counts pressed, err error) {
	err = errors.Join(p.in.Close(), p.answers.Decode(&counts))
	return counts, errors.Join(err, p.cmd.Wait())
}

// press is the crowd's process. It reads a crowd from in, reports on out when the bursts are spent, and writes the counts when in
// ends.
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
		_, err = lines.ReadByte() // waits for the end of in
	}
	p := pressed{taken.Load() - before.Taken, refused.Load() - before.Refused, time.Since(began)}
	cancel()
	if failed := group.Wait(); failed != nil || !errors.Is(err, io.EOF) {
		return errors.Join(failed, err)
	}
	return json.NewEncoder(out).Encode(p)
}

// ask requests runs of one user until ctx ends.
func (w *crowd) ask(ctx context.Context, user int, taken, refused *atomic.Int64) error {
	token, err := tokenOf(w.Key, fmt.Sprintf("crowd-%d", user), "default")
	if err != nil {
		return err
	}
	c, err := dial(w.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	gap, turn := time.Second/time.Duration(w.Times*w.Limit), time.Second/time.Duration(w.Limit)
	// The rate limit accepts a user's requests at fixed intervals from the first one. Users that all begin within one gap would
	// stay in step: each interval, all their runs would be accepted within one gap.
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
