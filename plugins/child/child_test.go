//go:build unix

package child_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg child.Config) *child.Child {
	t.Helper()
	c, err := child.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// Find and Start agree.
func TestFind_AgreesWithStart(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("sub/bin", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"here", "sub/bin/there"} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\nread x\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []struct {
		program, dir string
		found        bool
	}{
		{"sh", "", true},
		{"sh", "sub", true},
		{"no-such-program", "", false},
		{"here", "", false},
		{"./here", "", true},
		{"./here", "sub", false},
		{"bin/there", "sub", true},
		{"bin/there", "./sub", true},
		{"./bin/there", "", false},
		{"sub/bin/there", "", true},
		{"../here", "sub", true},
	} {
		if err := child.Find([]string{w.program}, w.dir); (err == nil) != w.found {
			t.Errorf("%s in %q: %v", w.program, w.dir, err)
		}
		c, err := child.Start(child.Config{Command: []string{w.program}, Dir: w.dir})
		if (err == nil) != w.found {
			t.Errorf("%s in %q starts: %v", w.program, w.dir, err)
		}
		if err == nil {
			_ = c.Close(t.Context())
		}
	}
}

func TestChild_Pipes(t *testing.T) {
	t.Parallel()
	c := start(t, child.Config{Command: []string{"cat"}})
	fmt.Fprintln(c.Input, "hello")
	line, err := bufio.NewReader(c.Output).ReadString('\n')
	if err != nil || line != "hello\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	if err := c.Close(t.Context()); err != nil || c.Err() != nil {
		t.Fatalf("Close: %v, Err: %v", err, c.Err())
	}
}

func TestChild_EnvironmentIsMinimal(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	t.Setenv("LANG", "C.UTF-8")
	c := start(t, child.Config{Command: []string{"env"}, Env: map[string]string{"TOKEN": "given", "HOME": "/nowhere", "BATON_PROGRAM": "forged"}})
	out, err := io.ReadAll(c.Output)
	if err != nil {
		t.Fatal(err)
	}
	mark, rest, _ := strings.Cut(string(out), "\n")
	want := "HOME=/nowhere\nLANG=C.UTF-8\nPATH=" + os.Getenv("PATH") + "\nTOKEN=given\n"
	if rest != want || !strings.HasPrefix(mark, "BATON_PROGRAM=") || strings.Contains(mark, "forged") {
		t.Errorf("environment:\n%swant the mark and:\n%s", out, want)
	}
}

func TestChild_OutputIsReadableAfterEnd(t *testing.T) {
	t.Parallel()
	c := start(t, child.Config{Command: sh("head -c 60000 /dev/zero; exit 3")})
	<-c.Done()
	out, err := io.ReadAll(c.Output)
	if err != nil || len(out) != 60000 {
		t.Errorf("read %d bytes, %v", len(out), err)
	}
	var exit *exec.ExitError
	if !errors.As(c.Err(), &exit) || exit.ExitCode() != 3 {
		t.Errorf("Err: %v", c.Err())
	}
}

func TestStandardError_IsLogged(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	c := start(t, child.Config{
		Name: "scorer", Log: slog.New(slog.NewTextHandler(&out, nil)),
		Command: sh("echo careful >&2; head -c 20000 /dev/zero | tr '\\0' x >&2; echo >&2; echo behind >&2"),
	})
	<-c.Done()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], "msg=careful program=scorer") || !strings.Contains(lines[2], "msg=behind") ||
		!strings.Contains(lines[3], "lines=0 bytes=11808") {
		t.Fatalf("log: %.300s", out.String())
	}
	if n := strings.Count(lines[1], "x"); n > 8<<10 || n < 1000 {
		t.Errorf("a line of 20000 bytes is logged with %d", n)
	}
}

// Logging does not slow down a program that writes as fast as it can, and the log stays small.
func TestStandardError_IsBounded(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"lines":      "yes careful | head -c 6000000 >&2",
		"empty ones": "yes '' | head -c 1000000 >&2",
		"one line":   "head -c 6000000 /dev/zero | tr '\\0' x >&2",
		"long lines": "yes $(head -c 100000 /dev/zero | tr '\\0' x) | head -c 6000000 >&2",
	} {
		t.Run(name, func(t *testing.T) {
			var out lockedBuffer
			c := start(t, child.Config{Log: slog.New(slog.NewTextHandler(&out, nil)), Command: sh(script)})
			<-c.Done()
			if n := len(out.String()); n > 4<<20 {
				t.Errorf("the log has %d bytes", n)
			}
			if !strings.Contains(out.String(), "standard error is not all logged") {
				t.Errorf("the log does not say that it lacks something: %.300s", out.String())
			}
		})
	}
}

// put makes an empty file.
func put(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClose_KillsDescendants(t *testing.T) {
	for name, script := range map[string]string{
		"ends by itself":      "sleep 1000 & echo $!; cat",
		"ignores its input":   "sleep 1000 & echo $!; wait",
		"ignores being asked": "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1000; done",
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, child.Config{Command: sh(script), Grace: 50 * time.Millisecond})
			line, err := bufio.NewReader(c.Output).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close(t.Context())
			gone(t, pid)
		})
	}
}

// A program that is stopped takes no signal but the last one, which the end of the context sends.
func TestClose_KillsAtTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	c := start(t, child.Config{Command: sh("echo; kill -STOP $$"), Grace: time.Hour})
	if _, err := bufio.NewReader(c.Output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_ = c.Close(ctx)
	if c.Status() != "signal: killed" {
		t.Errorf("it ended with %s", c.Status())
	}
}

// gone waits until a process has ended or is a zombie of init.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}

// The descendant has left its environment too, so it cannot be found.
func TestClose_IgnoresEscapedDescendant(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Fatal(err)
	}
	c := start(t, child.Config{Command: sh("env -i setsid sleep 30 & echo $!")})
	line, err := bufio.NewReader(c.Output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
		defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	}
	<-c.Done()
}

func TestStart_NamesMissingProgram(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{nil, {""}, {"no-such-program"}} {
		if _, err := child.Start(child.Config{Command: command}); err == nil {
			t.Errorf("%q starts", command)
		} else if len(command) == 1 && command[0] != "" && !strings.Contains(err.Error(), command[0]) {
			t.Errorf("%q: %v", command, err)
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
