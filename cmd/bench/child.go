package main

import (
	"bufio"
	"cmp"
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

// serve starts a server with a settings file and environment variables, on a free port and on the database in the options, or
// else on a new SQLite database, and measures it.
func (o *options) serve(
	ctx context.Context, settings string, env []string, measure func(context.Context, *target) ([]report, error),
) (_ []report, err error) {
	if o.server != "" {
		return nil, errors.New("server: this bench needs special settings, so it starts a server itself")
	}
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "baton.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	t, stop, err := startServer(ctx, env, "--config", file, "--database", cmp.Or(o.database, "sqlite:"+filepath.Join(dir, "baton.db")))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return measure(ctx, t)
}

// startServer runs this program's serve command. The returned function stops it.
func startServer(ctx context.Context, env []string, args ...string) (*target, func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-level", "warn"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // if it has ended already, Wait returns the reason
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
