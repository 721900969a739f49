// Package child runs an external program, such as an agent or a tool server, and connects to its standard input and output.
// Of our environment the program inherits only PATH, HOME and LANG. Its standard error is logged up to a limit. When it
// ends, the rest of its process group is killed, and on Linux also descendants that left the group, unless they removed
// the variable BATON_PROGRAM from their environment.
package child

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Config describes the program to run.
type Config struct {
	Name    string            // its name in the log; default the command's first word
	Command []string          // the program, looked up in our PATH, and its arguments
	Dir     string            // its working directory; default ours
	Env     map[string]string // added to PATH, HOME, LANG, which it can override, and BATON_PROGRAM
	Grace   time.Duration     // Close waits so long for it to end, and again after SIGTERM; default 2s
	Log     *slog.Logger      // receives the lines of its standard error, up to 256 KiB in ten seconds; default slog.Default
}

// Child is a running program.
type Child struct {
	Input  io.WriteCloser // its standard input
	Output io.ReadCloser  // its standard output; the rest can be read for a second after its end

	cmd     *exec.Cmd
	mark    string // the value of BATON_PROGRAM
	grace   time.Duration
	words   words
	done    chan struct{} // closed after it has ended and its standard error is logged
	err     error         // its exit error; set before done is closed
	closing sync.Once
}

// linger limits the wait for the remaining output and descendants of an ended program.
const linger = time.Second

// markName is an environment variable with a random value that the program's descendants inherit.
const markName = "BATON_PROGRAM"

// inherited lists the environment variables that programs inherit.
var inherited = [...]string{"PATH", "HOME", "LANG"}

// Start starts the program. The caller must Close it.
func Start(cfg Config) (*Child, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("the command is empty")
	}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	mark := rand.Text()
	cmd.Dir, cmd.Env = cfg.Dir, environment(cfg.Env, mark)
	ownGroup(cmd)
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	c := &Child{
		Input: p.stdin, Output: p.stdout,
		cmd: cmd, mark: mark, grace: cmp.Or(cfg.Grace, 2*time.Second), done: make(chan struct{}),
	}
	log := cmp.Or(cfg.Log, slog.Default()).With("program", cmp.Or(cfg.Name, cfg.Command[0]))
	go c.reap(p, log) // ends with the program
	return c, nil
}

// Find fails if the program of a command that runs in dir does not exist.
func Find(command []string, dir string) error {
	name := command[0]
	if filepath.Base(name) != name && !filepath.IsAbs(name) { // a path relative to dir
		name = filepath.Join(cmp.Or(dir, "."), name)
		if !filepath.IsAbs(name) {
			name = "." + string(filepath.Separator) + name
		}
	}
	_, err := exec.LookPath(name)
	return err
}

// pipes are our ends of a program's pipes.
type pipes struct{ stdin, stdout, stderr *os.File }

// start starts cmd with pipes that, unlike those of exec, stay open after its end.
func start(cmd *exec.Cmd) (ours pipes, err error) {
	var theirs []*os.File
	defer func() {
		closeAll(theirs...)
		if err != nil {
			closeAll(ours.stdin, ours.stdout, ours.stderr)
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	stdin, ourIn := pipe()
	ourOut, stdout := pipe()
	ourErr, stderr := pipe()
	theirs, ours = []*os.File{stdin, stdout, stderr}, pipes{ourIn, ourOut, ourErr}
	if err != nil {
		return ours, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	return ours, cmd.Start()
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// environment returns the program's environment: inherited variables, env and the mark, sorted.
func environment(env map[string]string, mark string) []string {
	all := map[string]string{}
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			all[name] = v
		}
	}
	maps.Copy(all, env)
	all[markName] = mark
	list := make([]string, 0, len(all))
	for name, v := range all {
		list = append(list, name+"="+v)
	}
	slices.Sort(list)
	return list
}

// reap waits for the program's end, kills its remaining processes, and closes done.
func (c *Child) reap(p pipes, log *slog.Logger) {
	var logged sync.WaitGroup
	logged.Go(func() { logLines(p.stderr, &c.words, log) })
	c.err = c.cmd.Wait()
	killGroup(c.cmd)
	killKin(c.mark)
	// A descendant without the mark can keep the pipes open.
	until := time.Now().Add(linger)
	_ = p.stdout.SetReadDeadline(until)
	_ = p.stderr.SetReadDeadline(until)
	logged.Wait()
	closeAll(p.stdin, p.stderr)
	close(c.done)
}

// Done is closed when the program has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns the program's exit error, nil for the exit code 0. Call it after Done is closed.
func (c *Child) Err() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.cmd.Args[0], c.err)
}

// Status returns how the program has ended, such as "exit status 1" or "signal: killed". Call it after Done is closed.
func (c *Child) Status() string { return c.cmd.ProcessState.String() }

// Terminated reports whether a signal ended the program by which systems and people stop programs. Call it after Done is closed.
func (c *Child) Terminated() bool { return terminated(c.cmd.ProcessState) }

// PID returns the program's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// LastWords returns the last lines that the program wrote to its standard error, in one line. Stack frames are left out.
func (c *Child) LastWords() string { return c.words.String() }

// Close ends the program and its descendants and waits for the end. It closes the standard input, sends SIGTERM after
// the grace period, and SIGKILL after another or once ctx is done.
func (c *Child) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.Kill)()
	c.closing.Do(func() {
		_ = c.Input.Close()
		if !c.endsWithin(c.grace) {
			terminateGroup(c.cmd)
			if !c.endsWithin(c.grace) {
				killGroup(c.cmd)
			}
		}
		<-c.done
		_ = c.Output.Close()
	})
	return nil
}

// Kill sends SIGKILL to the program and its process group. It does not wait.
func (c *Child) Kill() {
	select {
	case <-c.done: // its process id can be that of another program
	default:
		killGroup(c.cmd)
	}
}

func (c *Child) endsWithin(d time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(d):
		return false
	}
}
