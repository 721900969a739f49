// Package natstest starts real NATS servers for tests.
package natstest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
)

// Server is a NATS server on a loopback address, which ends with the test.
type Server struct {
	URL string // without a user

	tb   testing.TB
	args []string
	cmd  *exec.Cmd
}

// Start starts a server with settings in NATS's own form, which may be empty, and waits until it accepts connections. The working
// directory must be in the module. The first call of all builds the program.
func Start(tb testing.TB, settings string) *Server {
	tb.Helper()
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		tb.Fatal(err)
	}
	tools := filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), ".ci", "tools.mod")
	exe, err := exec.Command("go", "tool", "-modfile="+tools, "-n", "nats-server").Output()
	if err != nil {
		tb.Fatalf("build nats-server: %v", err)
	}
	file := filepath.Join(tb.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		tb.Fatal(err)
	}
	addr := cmdtest.Address()
	host, port, _ := strings.Cut(addr, ":")
	s := &Server{URL: "nats://" + addr, tb: tb, args: []string{strings.TrimSpace(string(exe)), "-c", file, "-a", host, "-p", port}}
	s.Launch()
	tb.Cleanup(s.Kill)
	return s
}

// Launch starts the server on its address after Kill.
func (s *Server) Launch() {
	s.tb.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "nats://")); err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			s.tb.Fatal("nats-server does not listen")
		}
	}
}

// Kill ends the server. Calls after the first do nothing.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}
