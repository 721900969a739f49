// Package cmd is the command: it gives package baton the settings of a configuration, and
// holds the commands around it. Import it to build your own binary with your own plugins:
//
//	func main() { cmd.Main(append(builtin.Plugins(), myAgent{})...) }
//
// Nothing but wiring and what a person sees in a terminal belongs here.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
)

// Main runs the command line of this process with the plugins given, and ends the process with the
// command's exit code.
func Main(list ...plugins.Plugin) {
	p := Program{Plugins: list, Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	os.Exit(p.Run(context.Background()))
}

// Program is one execution of the command. Tests run it in process.
type Program struct {
	Plugins []plugins.Plugin
	Args    []string  // without the program's name
	Stdin   io.Reader // default os.Stdin
	Stdout  io.Writer
	Stderr  io.Writer
}

// The exit codes beside 0.
const (
	exitFailure     = 1   // what was asked for went wrong; for run: the run failed
	exitUsage       = 2   // the command line or the configuration is wrong
	exitFenced      = 3   // for serve: another server has the database now
	exitInterrupted = 130 // a person has pressed Ctrl-C, as shells have it
)

// Run executes the command and returns its exit code. When ctx ends the command does what it does at the
// first SIGINT or SIGTERM: serve drains, run cancels its run.
func (p *Program) Run(ctx context.Context) int {
	root, entered := p.command()
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(p.Stderr, "%s: %s\n", root.Name(), printable(strings.TrimRight(line, "\n"))) // a server may have said it
	}
	if usage := (*usageError)(nil); !*entered || errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// command builds the tree of commands. Until entered is true, what goes wrong is the command line's fault.
func (p *Program) command() (root *cobra.Command, entered *bool) {
	entered = new(bool)
	root = &cobra.Command{
		Use:               "baton",
		Short:             "Baton runs agents and workflows and keeps every event of them",
		Version:           versionText(),
		Args:              knownCommand,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { *entered = true },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("baton {{.Version}}\n")
	root.SetArgs(append([]string{}, p.Args...)) // not nil, for which cobra takes the process's own
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.AddCommand(
		p.serveCommand(),
		p.runCommand(),
		p.chatCommand(),
		p.mcpCommand(),
		runsCommand(),
		cancelCommand(),
		p.answerCommand(),
		keysCommand(),
		retentionCommand(),
		migrateCommand(),
		backupCommand(),
		restoreCommand(),
		vacuumCommand(),
		healthCommand(),
		p.checkCommand(),
		p.doctorCommand(),
		initCommand(),
		schemaCommand(),
		configCommand(),
		versionCommand(),
	)
	return root, entered
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "; see " + cmd.Name() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + near[0] + "?"
	}
	return fmt.Errorf("there is no command %q%s", args[0], hint)
}

// load reads the configuration of a command that has config's flags.
func load(cmd *cobra.Command) (config.Config, error) {
	cfg, err := config.Load(cmd.Flags())
	if err != nil {
		return cfg, &usageError{err}
	}
	return cfg, nil
}

// usageError is what a person has to correct on the command line or in the configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitCode ends the command with this code and without a word: what there is to say was said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }
