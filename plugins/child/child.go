// Package child runs a program that is talked to over its standard input and output: an agent in another language, a
// server of tools. The program gets none of our environment but PATH, HOME and LANG, what it writes to its standard
// error is logged, within bounds, and neither it nor what it has started is left behind when it has ended: all of its process group,
// and on Linux what has left that, too, unless it has dropped the variable BATON_PROGRAM from its environment.
package child

import (
	"cmp"
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

// Config says which program to run.
type Config struct {
	Name    string            // what the log calls it; default the command's first word
	Command []string          // the program, looked up in our PATH, and its arguments
	Dir     string            // where it runs; default where we do
	Env     map[string]string // its environment beside PATH, HOME, LANG, which it may replace, and BATON_PROGRAM
	Grace   time.Duration     // how long Close waits for it to end by itself, and again after SIGTERM; default 2s
	Log     *slog.Logger      // takes its standard error, each line a record, of 256 KiB in ten seconds; default slog.Default
}

// Child is a running program.
type Child struct {
	Input  io.WriteCloser // its standard input
	Output io.ReadCloser  // its standard output; what is left in it can be read for a second after its end

	cmd     *exec.Cmd
	mark    string // in its environment
	grace   time.Duration
	done    chan struct{} // closed when it has ended and its standard error is logged
	err     error         // how it ended; set before done is closed
	closing sync.Once
}

// linger limits the wait for the output and the descendants that an ended program has left.
const linger = time.Second

// markName is an environment variable with a random value that the program's descendants inherit.
const markName = "BATON_PROGRAM"

// inherited is what a program is told of our environment.
var inherited = [...]string{"PATH", "HOME", "LANG"}

// Start starts the program. The caller closes it.
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

// Find fails when there is no program for a command that runs in dir.
func Find(command []string, dir string) error {
	name := command[0]
	if filepath.Base(name) != name && !filepath.IsAbs(name) { // a path, which is below where it runs
		name = filepath.Join(cmp.Or(dir, "."), name)
		if !filepath.IsAbs(name) {
			name = "." + string(filepath.Separator) + name
		}
	}
	_, err := exec.LookPath(name)
	return err
}

// pipes are our ends of a program's.
type pipes struct{ stdin, stdout, stderr *os.File }

// start gives cmd pipes of its own, which unlike those of exec outlive its end, and starts it.
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

// environment returns the program's environment: the inherited variables, env and the mark, sorted.
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

// reap waits for the program's end, ends what it has left running, and closes done.
func (c *Child) reap(p pipes, log *slog.Logger) {
	var logged sync.WaitGroup
	logged.Go(func() { logLines(p.stderr, log) })
	c.err = c.cmd.Wait()
	killGroup(c.cmd)
	killKin(c.mark)
	// A descendant that dropped the mark may hold the pipes open.
	until := time.Now().Add(linger)
	_ = p.stdout.SetReadDeadline(until)
	_ = p.stderr.SetReadDeadline(until)
	logged.Wait()
	closeAll(p.stdin, p.stderr)
	close(c.done)
}

// Done is closed when the program has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err says how the program ended: nil for an exit code of 0. It is called after Done is closed.
func (c *Child) Err() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.cmd.Args[0], c.err)
}

// Close ends the program and what it has started, and waits for its end: first by closing its standard
// input, after the grace by SIGTERM, after another by SIGKILL.
func (c *Child) Close() error {
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

func (c *Child) endsWithin(d time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(d):
		return false
	}
}
