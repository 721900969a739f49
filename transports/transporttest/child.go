package transporttest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
)

// Child is a server in its own process, so that its cost is separate from its clients'.
type Child struct {
	Server *Server // of which it has only the address
	in     io.Writer
	out    *bufio.Reader
	pid    int
}

const childName = "BATON_TEST_CHILD"

// Spawn starts a child with streams configured by cfg. It runs the package's test TestChild, which must call
// BeChild.
func Spawn(tb testing.TB, cfg transports.StreamConfig) *Child {
	tb.Helper()
	raw, err := json.Marshal(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childName+"="+string(raw))
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = in.Close(); _, _ = io.Copy(io.Discard, out); _ = cmd.Wait() })
	c := &Child{&Server{TB: tb}, in, bufio.NewReader(out), cmd.Process.Pid}
	c.Server.Addr = c.line("addr ")
	c.Server.URL = "http://" + c.Server.Addr
	return c
}

// line returns the rest of the child's next line with prefix.
func (c *Child) line(prefix string) string {
	c.Server.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.Server.Fatal(err)
		}
		if said, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(said)
		}
	}
}

// Ask sends the child a command and returns its answer: "free" returns free memory to the system, "cpu" is the CPU time
// used, in µs.
func (c *Child) Ask(command string) int {
	c.Server.Helper()
	fmt.Fprintln(c.in, command)
	n, err := strconv.Atoi(c.line("done "))
	if err != nil {
		c.Server.Fatal(err)
	}
	return n
}

// Bare makes a loop in the child write size bytes to each of n new connections, times over, and returns its CPU time in µs: the
// minimum for any server.
func (c *Child) Bare(n, times, size int) int {
	c.Server.Helper()
	loop := &Server{TB: c.Server.TB, Addr: fmt.Sprint("127.0.0.1:", c.Ask("bare"))}
	for range n {
		conn := loop.Dial("")
		_ = conn.SetDeadline(time.Time{})                // it may take long
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends when conn is closed
	}
	return c.Ask(fmt.Sprintf("write %d %d %d", n, times, size))
}

// RSS is the child's resident set in bytes. It skips the test where that is unknown.
func (c *Child) RSS() int {
	c.Server.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.pid))
	if err != nil {
		c.Server.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	if err != nil {
		c.Server.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// BeChild runs the child's side until the parent closes its input. Without a parent it skips the test.
func BeChild(t *testing.T, serve func(transports.StreamConfig) *Server) {
	t.Helper()
	raw := os.Getenv(childName)
	if raw == "" {
		t.Skip("for other tests")
	}
	var cfg transports.StreamConfig
	if err := json.Unmarshal([]byte(raw), &cfg); err != nil {
		t.Fatal(err)
	}
	s := serve(cfg)
	loop := listenBare(t)
	say := func(what string, value any) { fmt.Fprintln(os.Stdout, what, value) }
	say("addr", s.Addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch command, rest, _ := strings.Cut(in.Text(), " "); command {
		case "free":
			debug.FreeOSMemory()
			say("done", 0)
		case "cpu":
			say("done", cpu())
		case "bare": // address of the bare loop
			say("done", loop.Addr().(*net.TCPAddr).Port)
		case "write":
			var conns, times, size int
			_, _ = fmt.Sscan(rest, &conns, &times, &size)
			say("done", loop.write(conns, times, size))
		}
	}
}

// cpu is the time this process has spent, in µs.
func cpu() int {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return int((u.Utime.Nano() + u.Stime.Nano()) / 1000)
}

// bare is the minimum of a server: it accepts connections and writes to them in a loop.
type bare struct {
	net.Listener
	conns chan net.Conn
	all   []net.Conn
}

func listenBare(t *testing.T) *bare {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bare{Listener: ln, conns: make(chan net.Conn, 10_000)}
	go func() { // ends when ln is closed
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.conns <- c
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		for _, c := range b.all {
			_ = c.Close()
		}
	})
	return b
}

// write writes size bytes to each of n connections, times over, and returns its CPU time in µs.
func (b *bare) write(n, times, size int) int {
	for len(b.all) < n {
		b.all = append(b.all, <-b.conns)
	}
	buf := make([]byte, size)
	start := cpu()
	for range times {
		for _, c := range b.all {
			_ = c.SetWriteDeadline(time.Now().Add(Patience))
			_, _ = c.Write(buf)
		}
	}
	return cpu() - start
}
