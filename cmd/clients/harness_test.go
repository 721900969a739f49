package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// The programs, built by TestMain: the real one, and the one with the agents of testbaton as well.
var binary, testBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "baton-clients")
	if err != nil {
		panic(err)
	}
	binary, testBinary = filepath.Join(dir, "baton"), filepath.Join(dir, "testbaton")
	build := exec.Command("go", "build", "-race", "-o", dir,
		"github.com/batonrun/baton/cmd/baton", "github.com/batonrun/baton/cmd/clients/testbaton")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// missing ends a test whose client .ci/setup has not installed: it may be skipped, but not in CI.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: run .ci/setup", what)
	}
	t.Skipf("skipped: %s is missing; .ci/setup installs it", what)
}

// needs ends the test unless the client in that folder is installed as its package-lock.json says.
func needs(t *testing.T, folder string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		missing(t, "node")
	}
	want, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "node_modules", ".installed"))
	if err != nil || !bytes.Equal(got, want) {
		missing(t, "what the client "+folder+" depends on")
	}
}

// judge runs a client's script in its folder and fails with what it printed unless it exits with 0.
func judge(t *testing.T, folder, script string, stdin io.Reader, env ...string) {
	t.Helper()
	needs(t, folder)
	cmd := exec.CommandContext(t.Context(), "node", "--test-reporter=spec", script)
	cmd.Dir, cmd.Stdin, cmd.Env = folder, stdin, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s in %s: %v\n%s", script, folder, err, out)
	}
}

// soaks says that there is time for all.
var soaks = os.Getenv("BATON_SOAK") != ""

// The kinds of databases.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// on runs a test with the setting of a new database of a kind, and in a soak with the other's too: that both tell the same is what
// storagetest and transporttest are for, and clients of either kind see to the rest.
func on(t *testing.T, kind string, test func(t *testing.T, database string)) {
	for other, database := range map[string]func(testing.TB) string{
		sqlite: func(tb testing.TB) string {
			tb.Helper()
			return "sqlite:" + sqlitetest.New(tb)
		},
		postgres: postgrestest.New,
	} {
		if other == kind || soaks {
			t.Run(other, func(t *testing.T) {
				t.Parallel()
				test(t, "BATON_DATABASE="+database(t))
			})
		}
	}
}

// server is a program on a fixed address, so that clients find it again after a restart.
type server struct {
	t       *testing.T
	program string
	dir     string // where it runs and has its database, unless env says otherwise
	addr    string
	env     []string

	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// start has the real program serve with the settings of env until the test ends.
func start(t *testing.T, env ...string) *server {
	t.Helper()
	return startProgram(t, binary, env...)
}

func startProgram(t *testing.T, program string, env ...string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, program: program, dir: filepath.Dir(sqlitetest.New(t)), addr: ln.Addr().String(), env: env}
	_ = ln.Close()
	if err := s.up(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		log := s.output()
		if t.Failed() {
			t.Logf("server log:\n%s", log[max(0, len(log)-4000):])
		}
		if strings.Contains(log, "DATA RACE") {
			t.Errorf("the race detector has found a race:\n%s", log)
		}
	})
	return s
}

// up starts the process and waits until it is ready.
func (s *server) up() error {
	cmd := exec.Command(s.program, "serve", "--listen", s.addr)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = s, s
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }() // ends with the process
	s.cmd, s.done = cmd, done
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return fmt.Errorf("the server ended while starting:\n%s", s.output())
		case <-tick.C:
		}
		res, err := http.Get(s.url("/readyz"))
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// kill is kill -9.
func (s *server) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.done
}

// crash kills the process and starts another.
func (s *server) crash() error {
	s.kill()
	return s.up()
}

// onCrash is what a script asks for a crash.
func (s *server) onCrash(w http.ResponseWriter, _ *http.Request) {
	if err := s.crash(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// Write collects the server's log.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *server) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

// object is a JSON object.
type object = map[string]any

// call makes one request, which must be answered with that status, and returns the answer's body.
func (s *server) call(t *testing.T, status int, method, path string, body any) object {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url(path), bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if b, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d\n%s", method, path, res.StatusCode, status, b)
	}
	var out object
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s %s: %q: %v", method, path, b, err)
	}
	return out
}

// until polls with a deadline that only a hang reaches.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("not %s after ten minutes", what)
		}
		<-tick.C
	}
}
