package ws_test

import (
	"bufio"
	"context"
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

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
)

// child is a server in a process of its own, so that what it costs can be told from what its clients cost.
type child struct {
	*server // of which it has only the address
	in      io.Writer
	out     *bufio.Reader
	pid     int
}

const childName = "BATON_WS_CHILD"

// spawn starts a child whose streams are configured by cfg.
func spawn(tb testing.TB, cfg transports.StreamConfig) *child {
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
	c := &child{&server{TB: tb}, in, bufio.NewReader(out), cmd.Process.Pid}
	c.addr = c.line("addr ")
	return c
}

// line returns what the child says behind prefix.
func (c *child) line(prefix string) string {
	c.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.Fatal(err)
		}
		if said, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(said)
		}
	}
}

// ask has the child do something and returns its answer.
func (c *child) ask(command string) int {
	c.Helper()
	fmt.Fprintln(c.in, command)
	n, err := strconv.Atoi(c.line("done "))
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// rss is the child's resident set in bytes.
func (c *child) rss() int {
	c.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.pid))
	if err != nil {
		c.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	if err != nil {
		c.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestChild is the child, when there is a parent.
func TestChild(t *testing.T) {
	raw := os.Getenv(childName)
	if raw == "" {
		t.Skip("for other tests")
	}
	var cfg transports.StreamConfig
	if err := json.Unmarshal([]byte(raw), &cfg); err != nil {
		t.Fatal(err)
	}
	s := serve(t, cfg)
	loop := listenBare(t)
	fmt.Println("addr " + s.addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch command, rest, _ := strings.Cut(in.Text(), " "); command {
		case "free":
			debug.FreeOSMemory()
			fmt.Println("done 0")
		case "cpu":
			fmt.Println("done", cpu())
		case "bare": // address of the bare loop
			fmt.Println("done", loop.Addr().(*net.TCPAddr).Port)
		case "write":
			var conns, times, size int
			_, _ = fmt.Sscan(rest, &conns, &times, &size)
			fmt.Println("done", loop.write(conns, times, size))
		}
	}
}

// cpu is the time this process has spent, in µs.
func cpu() int {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return int((u.Utime.Nano() + u.Stime.Nano()) / 1000)
}

// bare is what a server cannot do without: it accepts connections and writes to them in a loop.
type bare struct {
	net.Listener
	conns chan net.Conn
	all   []net.Conn
}

func listenBare(t *testing.T) *bare {
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

// write writes size bytes to each of n connections, times over, and returns the µs that took.
func (b *bare) write(n, times, size int) int {
	for len(b.all) < n {
		b.all = append(b.all, <-b.conns)
	}
	buf := make([]byte, size)
	start := cpu()
	for range times {
		for _, c := range b.all {
			_ = c.SetWriteDeadline(time.Now().Add(patience))
			_, _ = c.Write(buf)
		}
	}
	return cpu() - start
}

// drummer is an agent that writes in bursts.
type drummer struct{}

func (drummer) Info() plugins.Info { return plugins.Info{Name: "drummer"} }

func (drummer) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	var beat struct{ Bursts, Size, PauseMs int }
	if err := json.Unmarshal([]byte(run.Input.Query), &beat); err != nil {
		return agui.WorkerOutput{}, err
	}
	text := run.Text("", "")
	for range beat.Bursts {
		for range beat.Size {
			if _, err := io.WriteString(text, "beat "); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		select {
		case <-time.After(time.Duration(beat.PauseMs) * time.Millisecond):
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}
	return agui.WorkerOutput{}, text.Close()
}
