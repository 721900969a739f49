package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// as restarts the server with another binary.
func (s *server) as(exe string) {
	s.t.Helper()
	s.exe = exe
	s.kill()
	s.up()
}

// build builds the real program with other flags of the linker.
func build(t *testing.T, flags string) (exe string) {
	t.Helper()
	exe = filepath.Join(t.TempDir(), "baton")
	if out, err := exec.Command("go", "build", "-o", exe, "-ldflags=-w "+flags, "github.com/batonrun/baton/cmd/baton").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

// sockets returns the number of the server's open sockets, without those of the harness's own client.
func (s *server) sockets() int {
	client.CloseIdleConnections()
	return socketsOf(strconv.Itoa(s.pid()))
}

// socketsOf returns the number of open sockets of a process.
func socketsOf(pid string) (n int) {
	names, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

func (s *server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// threads returns the number of the server's operating system threads.
func (s *server) threads() int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid()))
	_, rest, _ := strings.Cut(string(b), "\nThreads:")
	var n int
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// holds returns the number of streams for which the server has a descriptor.
func (s *server) holds(streams []*stream) (n int) {
	held := s.held()
	for _, st := range streams {
		if held[st.port()] {
			n++
		}
	}
	return n
}

// held returns the clients' ports of the connections for which the server has a descriptor.
func (s *server) held() map[int]bool {
	held := make(map[int]bool)
	_, port, _ := strings.Cut(s.addr, ":")
	b, err := os.ReadFile("/proc/net/tcp")
	must(s.t, err)
	for line := range strings.Lines(string(b)) {
		// sl local_address rem_address st queues timer retransmits uid timeout inode: 0 if no process has the socket open
		f := strings.Fields(line)
		if len(f) > 9 && f[9] != "0" && strconv.Itoa(portOf(f[1])) == port {
			held[portOf(f[2])] = true
		}
	}
	return held
}

// keeps waits until the server has all streams open. It retries because a single listing may miss some.
func (s *server) keeps(streams []*stream) {
	s.t.Helper()
	s.until("seen with all of its streams", func() bool { return s.holds(streams) == len(streams) })
}

// portOf reads the port of an address such as 0100007F:1F90.
func portOf(addr string) int {
	_, port, _ := strings.Cut(addr, ":")
	n, _ := strconv.ParseInt(port, 16, 32)
	return int(n)
}
