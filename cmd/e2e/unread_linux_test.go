package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// fullPipe returns a pipe that has no room, which nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	must(t, syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK))
	for err := error(nil); !errors.Is(err, syscall.EAGAIN); {
		_, err = syscall.Write(fds[1], make([]byte, 4096))
	}
	must(t, syscall.SetNonblock(fds[1], false))
	t.Cleanup(func() { _ = syscall.Close(fds[0]) })
	return os.NewFile(uintptr(fds[1]), "full")
}

// closedPipe returns a pipe whose reader has gone.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	_ = r.Close()
	return w
}

// A server works and stops as ever when what it prints cannot be written.
func TestServe_DoesNotDependOnOutput(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *os.File{
		"a pipe that nobody reads": fullPipe,
		"a closed pipe":            closedPipe,
		"a full disk": func(t *testing.T) *os.File {
			t.Helper()
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			must(t, err)
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := open(t)
			s := &server{t: t, db: database{url: "sqlite:" + sqlitetest.New(t)}, addr: cmdtest.Address()}
			s.cmd = exec.Command(binary, "serve", "--listen", s.addr, "--database", s.db.url, "--log-level", "debug")
			s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = t.TempDir(), out, out
			must(t, s.cmd.Start())
			_ = out.Close()
			s.done = make(chan struct{})
			go func() { _ = s.cmd.Wait(); close(s.done) }() // ends with the process
			t.Cleanup(s.kill)
			s.whileUp("ready", s.ready)
			for i := range 20 {
				s.ended(s.run(fmt.Sprint("t", i), `{"do":[{"say":"hello"}]}`))
			}
			slow := s.run("slow", `{"do":[{"say":"slowly said","delayMs":200}]}`)
			s.stop()
			if code := s.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("the server ended with %v", s.cmd.ProcessState)
			}
			again := start(t, s.db)
			if status := again.get(slow)["status"]; status != "COMPLETED" {
				t.Errorf("the run that was draining is %v", status)
			}
		})
	}
}
