package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

var binary string // the real program

func TestMain(m *testing.M) {
	if file := os.Getenv(notes); file != "" {
		if err := serveTools(file); err != nil {
			os.Exit(1)
		}
		return
	}
	dir, remove, err := cmdtest.Build("cmd/baton")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "baton")
	code := m.Run()
	remove()
	os.Exit(code)
}

// count returns the repetitions of a test: n in a soak, a tenth of n otherwise.
func count(n int) int {
	if os.Getenv("BATON_SOAK") != "" {
		return n
	}
	return max(1, n/10)
}

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, f func(t *testing.T, db database)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, database{url: "sqlite:" + sqlitetest.New(t)})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, database{url: postgrestest.New(t)})
	})
}

// database is the database of a server under test.
type database struct {
	url string
}

// server is the real binary on a fixed address, so that clients find it again after a restart.
type server struct {
	t    *testing.T
	db   database
	addr string
	env  []string
	args []string // additional flags
	exe  string   // empty for the real program

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	log  bytes.Buffer
}

// start starts the server and waits until it is ready. env has settings such as BATON_TIMEOUTS_PING=1s.
func start(t *testing.T, db database, env ...string) *server {
	t.Helper()
	s := launch(t, db, env...)
	s.whileUp("ready", s.ready)
	return s
}

// launch is start without waiting.
func launch(t *testing.T, db database, env ...string) *server {
	t.Helper()
	s := &server{t: t, db: db, addr: cmdtest.Address(), env: env}
	s.launch()
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("server log:\n%s", tail(s.output(), 8000))
		}
	})
	return s
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

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

// up starts the process and waits until it is ready.
func (s *server) up() {
	s.t.Helper()
	s.launch()
	s.whileUp("ready", s.ready)
}

// launch starts the process.
func (s *server) launch() {
	s.t.Helper()
	cmd := exec.Command(cmp.Or(s.exe, binary), append([]string{"serve", "--listen", s.addr, "--database", s.db.url}, s.args...)...)
	cmd.Stdout, cmd.Stderr = s, s
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Dir = s.t.TempDir()
	must(s.t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	s.mu.Lock()
	s.cmd, s.done = cmd, done
	s.mu.Unlock()
}

// whileUp is until for a server that must not end meanwhile.
func (s *server) whileUp(goal string, f func() bool) {
	s.t.Helper()
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	s.until(goal, func() bool {
		select {
		case <-done:
			s.t.Fatalf("the server ended while starting:\n%s", tail(s.output(), 4000))
		default:
		}
		return f()
	})
}

func (s *server) ready() bool {
	res, err := client.Get(s.url("/readyz"))
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// kill is kill -9.
func (s *server) kill() { s.signal(syscall.SIGKILL) }

// stop is a graceful stop.
func (s *server) stop() { s.signal(syscall.SIGTERM) }

func (s *server) signal(sig os.Signal) {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	_ = cmd.Process.Signal(sig)
	<-done
}

// patience is a timeout that only a hang reaches, on any machine.
const patience = 10 * time.Minute

// until polls f until it reports true.
func (s *server) until(goal string, f func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			s.t.Fatalf("not %s after %v", goal, patience)
		}
		<-tick.C
	}
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// call makes one request and returns its status and body.
func (s *server) call(method, path string, body any, headers ...string) (int, map[string]any) {
	s.t.Helper()
	status, out, err := s.try(method, path, body, headers...)
	must(s.t, err)
	return status, out
}

func (s *server) try(method, path string, body any, headers ...string) (int, map[string]any, error) {
	return s.within(context.Background(), method, path, body, headers...)
}

// within is try until ctx ends.
func (s *server) within(ctx context.Context, method, path string, body any, headers ...string) (int, map[string]any, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url(path), r)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	var out map[string]any
	if len(b) > 0 {
		if err := json.Unmarshal(b, &out); err != nil {
			return res.StatusCode, nil, fmt.Errorf("%s %s: %d %q: %w", method, path, res.StatusCode, b, err)
		}
	}
	return res.StatusCode, out, nil
}

// run starts a run of the scripted agent and returns its id.
func (s *server) run(thread string, script string, more ...string) string {
	s.t.Helper()
	body := map[string]any{"agent": "scripted", "threadId": thread, "content": script}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i]] = more[i+1]
	}
	if _, ok := body["workflowId"]; ok {
		delete(body, "agent")
	}
	status, out := s.call("POST", "/api/v1/agent/runs", body)
	if status != http.StatusAccepted {
		s.t.Fatalf("start: %d %v", status, out)
	}
	return out["runId"].(string)
}

func (s *server) get(run string) map[string]any {
	s.t.Helper()
	status, out := s.call("GET", "/api/projects/default/agent-runs/"+run, nil)
	if status != http.StatusOK {
		s.t.Fatalf("get run: %d %v", status, out)
	}
	return out
}

func final(status any) bool {
	return status == "COMPLETED" || status == "FAILED" || status == "CANCELLED"
}

// ended waits until a run has ended and returns it.
func (s *server) ended(run string) map[string]any {
	s.t.Helper()
	var out map[string]any
	s.until("over: run "+run, func() bool {
		out = s.get(run)
		return final(out["status"])
	})
	return out
}

// frame is one received SSE frame.
type frame struct {
	id   int64
	typ  string
	data string
	raw  string
}

func (f *frame) event() map[string]any {
	var ev map[string]any
	_ = json.Unmarshal([]byte(f.data), &ev)
	return ev
}

var errTruncated = errors.New("the stream was cut")

// read reads a stream until it ends and calls each for every frame with an id and data. It returns nil when the server ended the
// stream, errTruncated when it broke, and the status if there was no stream.
func (s *server) read(path string, after int64, each func(frame) bool) (int, error) {
	return s.readWithin(context.Background(), path, after, each)
}

// readWithin is read until ctx ends.
func (s *server) readWithin(ctx context.Context, path string, after int64, each func(frame) bool) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(path), nil)
	if err != nil {
		return 0, err
	}
	if after > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, nil
	}
	return res.StatusCode, scan(res.Body, each)
}

// scan parses frames until the stream ends or each returns false.
func scan(body io.Reader, each func(frame) bool) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var f frame
	var raw strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" && raw.Len() == 0 {
			return nil
		}
		if err != nil {
			return errTruncated
		}
		if strings.HasPrefix(line, ":") || strings.HasPrefix(line, "retry: ") {
			continue // part of the stream, not of an event
		}
		raw.WriteString(line)
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			if f.data != "" {
				f.raw = raw.String()
				if !each(f) {
					return nil
				}
			}
			f = frame{}
			raw.Reset()
		case strings.HasPrefix(line, "id: "):
			f.id, _ = strconv.ParseInt(line[4:], 10, 64)
		case strings.HasPrefix(line, "event: "):
			f.typ = line[7:]
		case strings.HasPrefix(line, "data: "):
			f.data = line[6:]
		}
	}
}

func events(thread string) string { return "/api/v1/agent/runs/" + thread + "/events" }

// all reads the whole log of a thread without open runs.
func (s *server) all(thread string) []frame {
	s.t.Helper()
	var frames []frame
	s.until("readable: thread "+thread, func() bool {
		frames = nil
		status, err := s.read(events(thread), 0, func(f frame) bool { frames = append(frames, f); return true })
		return err == nil && (status == http.StatusOK || status == http.StatusNoContent)
	})
	return frames
}

// writes waits until the thread's log has some events.
func (s *server) writes(thread string) {
	s.t.Helper()
	last := int64(0)
	s.until("at work: thread "+thread, func() bool {
		_, _ = s.read(events(thread), 0, func(f frame) bool { last = f.id; return last < 20 })
		return last >= 20
	})
}

// viewer watches a thread as EventSource does: it reconnects with the last id until the server answers that there is no more.
type viewer struct {
	s      *server
	thread string
	frames []frame
	err    error
	done   chan struct{}
	quit   chan struct{}
}

func (s *server) watch(thread string) *viewer {
	v := &viewer{s: s, thread: thread, done: make(chan struct{}), quit: make(chan struct{})}
	go func() { defer close(v.done); v.err = v.loop() }()
	return v
}

func (v *viewer) loop() error {
	var last int64
	for {
		status, err := v.s.read(events(v.thread), last, func(f frame) bool {
			if f.id != last+1 && v.err == nil {
				v.err = fmt.Errorf("thread %s: id %d follows %d", v.thread, f.id, last)
			}
			last = f.id
			v.frames = append(v.frames, f)
			return true
		})
		if v.err != nil {
			return v.err
		}
		if status == http.StatusNoContent {
			return nil
		}
		_ = err // cut or refused: the server is being restarted
		select {
		case <-v.quit:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// wait waits until the log has ended, and returns the viewer's frames.
func (v *viewer) wait(t *testing.T) []frame {
	t.Helper()
	select {
	case <-v.done:
	case <-time.After(patience):
		close(v.quit)
		t.Fatalf("a viewer of thread %s is still waiting after %v; it has %d frames", v.thread, patience, len(v.frames))
	}
	if v.err != nil {
		t.Error(v.err)
	}
	return v.frames
}

// parallel calls f for 0 to n-1, width at a time.
func parallel(n, width int, f func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}
