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

// unraced has the server run without the race detector, which multiplies memory.
func (s *server) unraced() {
	s.t.Helper()
	s.as(build(s.t))
}

// as has the server go on as another program.
func (s *server) as(exe string) {
	s.t.Helper()
	s.exe = exe
	s.kill()
	s.up()
}

// build builds the real program in another way.
func build(t *testing.T, flags ...string) (exe string) {
	t.Helper()
	exe = filepath.Join(t.TempDir(), "baton")
	args := append([]string{"build", "-o", exe}, flags...)
	if out, err := exec.Command("go", append(args, "github.com/batonrun/baton/cmd/baton")...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

// sockets is how many sockets the server has open, those of the harness's own client apart.
func (s *server) sockets() int {
	client.CloseIdleConnections()
	return socketsOf(strconv.Itoa(s.pid()))
}

// socketsOf is how many sockets a process has open.
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

// threads is how many threads of the operating system the server has.
func (s *server) threads() int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid()))
	_, rest, _ := strings.Cut(string(b), "\nThreads:")
	var n int
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// holds is how many of the streams the server has a descriptor for.
func (s *server) holds(streams []*stream) (n int) {
	ours := make(map[int]bool)
	for _, st := range streams {
		ours[st.port()] = true
	}
	_, port, _ := strings.Cut(s.addr, ":")
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		// sl local_address rem_address st queues timer retransmits uid timeout inode: 0 of a socket nobody has open
		f := strings.Fields(line)
		if len(f) > 9 && f[9] != "0" && strconv.Itoa(portOf(f[1])) == port && ours[portOf(f[2])] {
			delete(ours, portOf(f[2])) // the list may name it twice
			n++
		}
	}
	return n
}

// keeps waits until the server is seen to have all of the streams: one look may miss some.
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
