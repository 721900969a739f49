// Package cmd is the command line: serve, which runs package baton with the settings of package config, and the commands
// around it. Import it to build a binary with your own plugins:
//
//	func main() { cmd.Main(append(builtin.Plugins(), myAgent{})...) }
//
// It contains only wiring and terminal output.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	_ "time/tzdata" // the zones of expressions, where the system has none

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
)

// Main runs the command line of this process with the given plugins, and exits with the command's exit code.
func Main(list ...plugins.Plugin) {
	p := Program{Plugins: list, Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	os.Exit(p.Run(context.Background()))
}

// Program is one execution of the command line. Tests run it in process.
type Program struct {
	Plugins []plugins.Plugin
	Args    []string  // without the program's name
	Stdin   io.Reader // default os.Stdin
	Stdout  io.Writer
	Stderr  io.Writer
}

// The exit codes besides 0.
const (
	exitFailure     = 1   // the command failed; for run: the run failed
	exitUsage       = 2   // the command line or the configuration is wrong
	exitFenced      = 3   // for serve: others have fenced the server, or its database was restored to an earlier state
	exitInterrupted = 130 // Ctrl-C, with the code that shells use
)

// Run executes the command and returns its exit code. The end of ctx has the effect of a first SIGINT or SIGTERM: serve drains,
// run cancels its run.
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
	stderr := newPrinter(p.Stderr)
	defer stderr.close()
	for line := range strings.Lines(withCure(err)) {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), printable(strings.TrimRight(line, "\n"))) // the text may come from a server
	}
	if usage := (*usageError)(nil); !*entered || errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// command builds the tree of commands. Errors before entered is true are errors in the command line.
func (p *Program) command() (root *cobra.Command, entered *bool) {
	entered = new(bool)
	root = &cobra.Command{
		Use:              "baton",
		Short:            "A durable runtime for AI agents and workflows: every event is stored, streamed and resumable",
		Version:          versionText(),
		Args:             knownCommand,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { *entered = true },
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("baton {{.Version}}\n")
	root.SetArgs(append([]string{}, p.Args...)) // never nil: cobra would use the process's arguments
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.AddCommand(
		p.serveCommand(),
		p.runCommand(),
		p.chatCommand(),
		p.mcpCommand(),
		p.agentsCommand(),
		p.workflowsCommand(),
		runsCommand(),
		watchCommand(),
		p.answerCommand(),
		cancelCommand(),
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
	showUse(root)
	return root, entered
}

// showUse adds to the errors about a command's arguments which ones it takes.
func showUse(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		showUse(sub)
		if _, takes, ok := strings.Cut(sub.Use, " "); ok && sub.Args != nil {
			check := sub.Args
			sub.Args = func(cmd *cobra.Command, args []string) error {
				if check(cmd, args) == nil {
					return nil
				}
				return fmt.Errorf("%s takes %s; see %s --help", cmd.Name(), takes, cmd.CommandPath())
			}
		}
	}
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := "; see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + near[0] + "?"
	}
	return fmt.Errorf("there is no command %q%s", args[0], hint)
}

// load reads the configuration for a command with config's flags.
func load(cmd *cobra.Command) (config.Config, error) {
	cfg, err := config.Load(cmd.Flags())
	if err != nil {
		return cfg, &usageError{err}
	}
	return cfg, nil
}

// usageError is an error in the command line or the configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitCode ends the command with this code, without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }
