package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// target returns the server to measure, and what ends it if it was started here.
func (o *options) target(ctx context.Context) (*target, func() error, error) {
	if o.server == "" {
		return startServer(ctx, o.database)
	}
	t, err := newTarget(o.server, o.pid)
	return t, func() error { return nil }, err
}

// startServer starts this program's serve on a free port and a database, or a new SQLite one for "".
func startServer(ctx context.Context, database string) (*target, func() error, error) {
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return nil, nil, err
	}
	if database == "" {
		database = "sqlite:" + filepath.Join(dir, "baton.db")
	}
	t, stop, err := startProcess(ctx, "serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--database", database)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return t, func() error { return errors.Join(stop(), os.RemoveAll(dir)) }, nil
}

func startProcess(ctx context.Context, args ...string) (*target, func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // if it has ended already, Wait tells why
		return cmd.Wait()
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	_, url, found := strings.Cut(line, "serving on ")
	if err != nil || !found {
		return nil, nil, fmt.Errorf("the server did not start: %w", errors.Join(err, stop()))
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // ends with the process
	t, err := newTarget(strings.Fields(url)[0], cmd.Process.Pid)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return t, stop, nil
}
