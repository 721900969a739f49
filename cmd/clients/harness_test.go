package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// The real program, and testbaton with its additional agents.
var binary, testBinary string

func TestMain(m *testing.M) {
	dir, remove, err := cmdtest.Build("cmd/baton", "cmd/clients/testbaton")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary, testBinary = filepath.Join(dir, "baton"), filepath.Join(dir, "testbaton")
	code := m.Run()
	remove()
	os.Exit(code)
}

// missing skips a test without its client, which .ci/setup installs. In CI it fails the test.
func missing(t *testing.T, client string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: run .ci/setup", client)
	}
	t.Skipf("skipped: %s is missing; .ci/setup installs it", client)
}

// needs calls missing unless the client in the folder is installed according to its package-lock.json.
func needs(t *testing.T, folder string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		missing(t, "node")
	}
	want, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	must(t, err)
	got, err := os.ReadFile(filepath.Join(folder, "node_modules", ".installed"))
	if err != nil || !bytes.Equal(got, want) {
		missing(t, "the dependencies of the client "+folder)
	}
}

// judge runs a client's script in its folder, and fails with the script's output unless it exits with 0.
func judge(t *testing.T, folder, script string, stdin io.Reader, env ...string) {
	t.Helper()
	needs(t, folder)
	cmd := exec.CommandContext(t.Context(), "node", "--test-reporter=spec", script)
	cmd.Dir, cmd.Stdin, cmd.Env = folder, stdin, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s in %s: %v\n%s", script, folder, err, out)
	}
}

// soaks reports whether this is a soak, which has time for all combinations.
var soaks = os.Getenv("BATON_SOAK") != ""

// The kinds of databases.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// on runs a test with the setting of a new database of a kind, in a soak with both kinds. One is enough otherwise: storagetest and
// transporttest check that both behave the same, and tests of other clients use the other kind.
func on(t *testing.T, kind string, test func(t *testing.T, database string)) {
	for other, database := range map[string]func(testing.TB) string{
		sqlite: func(tb testing.TB) string {
			tb.Helper()
			return "sqlite:" + sqlitetest.New(tb)
		},
		postgres: postgrestest.New,
	} {
		if isBalanced(t) && other == postgres || !isBalanced(t) && (other == kind || soaks) {
			t.Run(other, func(t *testing.T) {
				t.Parallel()
				test(t, "BATON_DATABASE="+database(t))
			})
		}
	}
}

// server is a program on a fixed address, so that clients find it again after a restart, or several behind a balancer.
type server struct {
	t       *testing.T
	members []*server // of a cluster behind a balancer; nil for a single server
	program string
	dir     string // working directory, with the database unless env names another
	addr    string
	env     []string

	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// start runs the real program's server with the settings in env until the test ends.
func start(t *testing.T, env ...string) *server {
	t.Helper()
	return startProgram(t, binary, env...)
}

// startProgram is start of another program. In a test that is balanced, it starts a cluster.
func startProgram(t *testing.T, program string, env ...string) *server {
	t.Helper()
	if isBalanced(t) {
		return startCluster(t, program, env...)
	}
	return startOne(t, program, env...)
}

func startOne(t *testing.T, program string, env ...string) *server {
	t.Helper()
	s := &server{t: t, program: program, dir: filepath.Dir(sqlitetest.New(t)), addr: cmdtest.Address(), env: env}
	must(t, s.up())
	t.Cleanup(func() {
		s.kill()
		if log := s.output(); t.Failed() {
			t.Logf("server log:\n%s", log[max(0, len(log)-4000):])
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
	if s.members != nil {
		for _, m := range s.members {
			m.kill()
		}
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	<-s.done
}

// crash kills the process and starts a new one, or all of a cluster at the same time.
func (s *server) crash() error {
	s.kill()
	if s.members == nil {
		return s.up()
	}
	errs := make([]error, len(s.members))
	var all sync.WaitGroup
	for i, m := range s.members {
		all.Go(func() { errs[i] = m.up() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// onCrash handles a script's request for a crash.
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

// database returns the URL of the server's database.
func (s *server) database() string {
	for _, setting := range slices.Backward(s.env) {
		if url, ok := strings.CutPrefix(setting, "BATON_DATABASE="); ok {
			return url
		}
	}
	return "sqlite:" + filepath.Join(s.dir, "baton.db")
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

// object is a JSON object.
type object = map[string]any

// call makes one request and returns the body of the answer, which must have the status.
func (s *server) call(t *testing.T, status int, method, path string, body any) object {
	t.Helper()
	b, err := json.Marshal(body)
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, s.url(path), bytes.NewReader(b))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
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

// until polls f, with a timeout that only a hang reaches.
func until(t *testing.T, goal string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("not %s after ten minutes", goal)
		}
		<-tick.C
	}
}
