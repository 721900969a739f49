// Command testenv runs a command with what the tests of several packages share: a PostgreSQL cluster, the programs that they start, and a
// folder for temporary files. It is in memory if there is room, because databases sync their files all the time.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/storagetest"
)

func main() {
	log.SetFlags(0)
	code, err := run(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// run returns the command's exit code.
func run(args []string) (int, error) {
	temp, err := os.MkdirTemp(memory(), "baton-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(temp)
	if err := errors.Join(os.Setenv("GOTMPDIR", temp), os.Setenv("TMPDIR", temp), os.Chmod(temp, 0o755)); err != nil {
		return 0, err
	}
	dir, remove, err := cmdtest.Build("cmd/baton", "cmd/clients/testbaton", "cmd/examples/plugin")
	if err != nil {
		return 0, err
	}
	defer remove()
	postgres, stop, err := storagetest.Share()
	if err != nil {
		return 0, err
	}
	defer stop()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), cmdtest.Variable+"="+dir)
	if postgres != "" {
		cmd.Env = append(cmd.Env, postgres)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
