package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/postgrestest"
)

// counter is a tool server over HTTP whose only tool, which is not idempotent, counts its calls by their argument.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ Of string } }
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	said := `"error":{"code":-32601,"message":"no"}`
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		said = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"counter","version":"1"}}`
	case m.Method == "tools/list":
		said = `"result":{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}`
	case m.Method == "tools/call":
		c.mu.Lock()
		c.calls[m.Params.Arguments.Of]++
		c.mu.Unlock()
		pause(100 * time.Millisecond)
		said = `"result":{"content":[{"type":"text","text":"counted"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, said)
}

// rollout is some servers of one database, and clients that follow runs of a script on whichever server is up.
type rollout struct {
	t       *testing.T
	servers []*server
	tool    *counter
	rounds  int           // of each script: a text of six tokens, and a call of the tool
	delay   time.Duration // before each token

	over        time.Time    // when the clients give up
	interrupted atomic.Int64 // results that clients have got of calls that a server has not ended
	paused      longest      // between two events of a run, as clients see it
	stood       longest      // the same by the times of the events
}

// longest is the longest of some durations.
type longest struct{ atomic.Int64 }

func (l *longest) add(d time.Duration) {
	for old := l.Load(); int64(d) > old && !l.CompareAndSwap(old, int64(d)); {
		old = l.Load()
	}
}

func (l *longest) String() string {
	return time.Duration(l.Load()).Round(time.Millisecond).String()
}

// newRollout starts the servers.
func newRollout(t *testing.T, n, rounds int, delay time.Duration, env ...string) *rollout {
	t.Helper()
	r := &rollout{t: t, tool: &counter{calls: make(map[string]int)}, rounds: rounds, delay: delay, over: time.Now().Add(patience)}
	tools := httptest.NewServer(r.tool)
	t.Cleanup(tools.Close)
	file := filepath.Join(t.TempDir(), "baton.yaml")
	must(t, os.WriteFile(file, []byte("mcp:\n  counter: {url: "+tools.URL+"}\n"), 0o600))
	db := database{url: postgrestest.New(t)}
	env = append(env, "BATON_CONFIG="+file, "BATON_TIMEOUTS_DRAIN=10m",
		"BATON_LIMITS_REQUESTS_PER_USER=0", "BATON_LIMITS_REQUESTS_PER_PROJECT=0", "BATON_LIMITS_STREAMS_PER_USER=0")
	for range n {
		r.servers = append(r.servers, start(t, db, env...))
	}
	return r
}

// script returns the script of a thread.
func (r *rollout) script(thread string) string {
	var ops []string
	for i := range r.rounds {
		ops = append(ops, fmt.Sprintf(`{"tokens":6,"delayMs":%d}`, r.delay.Milliseconds()), fmt.Sprintf(`{"tool":"counter.count","args":{"of":"%s %d"}}`, thread, i))
	}
	return `{"do":[` + strings.Join(ops, ",") + `]}`
}

// follower is a client that follows a run to its end.
type follower struct {
	r      *rollout
	thread string
	frames []frame
	last   time.Time // when the last frame came
	stamp  float64   // of its event, in milliseconds
	ended  bool
	err    error
}

// add adds a frame. It reports false once the run has ended.
func (c *follower) add(f frame) bool {
	if f.id == 0 { // the state of a client that has none, or the end of an interrupted stream
		return true
	}
	if n := int64(len(c.frames)); f.id != n+1 && c.err == nil {
		c.err = fmt.Errorf("id %d follows %d", f.id, n)
	}
	now := time.Now()
	if !c.last.IsZero() {
		c.r.paused.add(now.Sub(c.last))
	}
	c.last = now
	if stamp, ok := f.event()["timestamp"].(float64); ok {
		if c.stamp > 0 {
			c.r.stood.add(time.Duration(stamp-c.stamp) * time.Millisecond)
		}
		c.stamp = stamp
	}
	c.frames = append(c.frames, f)
	if f.typ == "TOOL_CALL_RESULT" && strings.Contains(f.data, "interrupted") {
		c.r.interrupted.Add(1)
	}
	c.ended = f.typ == "RUN_FINISHED" || f.typ == "RUN_ERROR"
	return !c.ended && c.err == nil
}

// follow starts a run on a server, with a stream if it shows it, and follows its log on the servers in turn.
func (c *follower) follow(first int, shows bool) {
	for n := first; len(c.frames) == 0 && !c.ended && time.Now().Before(c.r.over); n++ {
		body, _ := json.Marshal(map[string]any{"agent": "scripted", "threadId": c.thread, "content": c.r.script(c.thread)})
		req, _ := http.NewRequest(http.MethodPost, c.r.server(n).url("/api/v1/agent/runs"), strings.NewReader(string(body)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", c.thread)
		if shows {
			req.Header.Set("Accept", "text/event-stream")
		}
		res, err := client.Do(req)
		if err != nil {
			continue
		}
		if res.StatusCode == http.StatusOK {
			_ = scan(res.Body, c.add)
		}
		_ = res.Body.Close()
		if res.StatusCode < 300 {
			break
		}
		pause(10 * time.Millisecond)
	}
	for n := first; !c.ended && c.err == nil && time.Now().Before(c.r.over); n++ {
		if _, err := c.r.server(n).read(events(c.thread), int64(len(c.frames)), c.add); err != nil {
			pause(10 * time.Millisecond)
		}
	}
}

func (r *rollout) server(n int) *server { return r.servers[n%len(r.servers)] }

// run starts the clients, half of which have their runs shown by the server that starts them, and calls f. Each run must end well, with each
// event shown once and no call made twice.
func (r *rollout) run(clients int, f func()) {
	r.t.Helper()
	var following sync.WaitGroup
	all := make([]*follower, clients)
	for i := range all {
		all[i] = &follower{r: r, thread: fmt.Sprint("thread-", i)}
		following.Go(func() { all[i].follow(i, i%2 == 0) })
	}
	f()
	following.Wait()
	for _, c := range all {
		if c.err != nil || !c.ended {
			r.t.Errorf("%s: %d events, ended: %t, %v", c.thread, len(c.frames), c.ended, c.err)
			continue
		}
		checkLog(r.t, c.thread, c.frames)
		if last := c.frames[len(c.frames)-1]; last.typ != "RUN_FINISHED" {
			r.t.Errorf("%s ends with %s", c.thread, last.data)
		}
	}
	r.tool.mu.Lock()
	defer r.tool.mu.Unlock()
	missing := 0
	for i := range all {
		for k := range r.rounds {
			switch n := r.tool.calls[fmt.Sprintf("thread-%d %d", i, k)]; {
			case n > 1:
				r.t.Errorf("call %d of thread %d was made %d times", k, i, n)
			case n == 0:
				missing++
			}
		}
	}
	if n := r.interrupted.Load(); int64(missing) > n {
		r.t.Errorf("%d calls were not made, %d were interrupted", missing, n)
	}
}

// restart restarts a server by an end, such as a signal.
func (r *rollout) restart(s *server, end func(s *server)) {
	r.t.Helper()
	r.paused.Store(0)
	r.stood.Store(0)
	began := time.Now()
	end(s)
	ended := time.Since(began)
	s.up()
	r.t.Logf("a server has ended in %v, and was up after %v; no run stood still for more than %v, and no client waited for more than %v",
		ended.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), &r.stood, &r.paused)
}

// Servers are stopped and started again one after the other: clients see nothing of it but streams that end early, and no tool is
// interrupted. One is killed: each log goes on, and no call is made twice.
func TestRollout_IsNotNoticed(t *testing.T) {
	t.Parallel()
	r := newRollout(t, 3, 60, 50*time.Millisecond)
	r.run(30, func() {
		for i := range 10 {
			r.server(i).begun(fmt.Sprint("thread-", i))
		}
		for _, s := range r.servers {
			r.restart(s, (*server).stop)
		}
		if n := r.interrupted.Load(); n > 0 {
			t.Errorf("%d calls were interrupted by servers that stopped", n)
		}
		r.restart(r.servers[0], (*server).kill)
	})
	for _, s := range r.servers {
		if strings.Contains(s.output(), "crash_loop") {
			t.Error("a run was given up")
		}
	}
}

// The same for five minutes with 300 runs, a stop every five seconds and a kill every minute. BATON_SOAK=1 runs it.
func TestRollout_Soak(t *testing.T) {
	t.Parallel()
	if os.Getenv("BATON_SOAK") == "" {
		t.Skip("BATON_SOAK is not set")
	}
	const lasts = 5 * time.Minute
	const delay = 250 * time.Millisecond // so that two cores are not busy with tokens alone
	r := newRollout(t, 3, int(lasts/(6*delay)), delay, "BATON_TIMEOUTS_STEP=1h")
	r.over = time.Now().Add(3 * lasts)
	r.run(300, func() {
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		killed := time.Now()
		for i, until := 0, time.Now().Add(lasts); time.Now().Before(until); i++ {
			<-tick.C
			end := (*server).stop
			if time.Since(killed) > time.Minute {
				end, killed = (*server).kill, time.Now()
			}
			r.restart(r.server(i), end)
		}
	})
}

// A server that stands still loses its runs to the others soon after another server of its name has started.
func TestRollout_ReplacesAServerByItsName(t *testing.T) {
	t.Parallel()
	db := database{url: postgrestest.New(t)}
	env := []string{"BATON_TIMEOUTS_LEASE=1h"}
	old := start(t, db, append(env, "BATON_NAME=pod-1")...)
	run := old.run("main", handed)
	old.begun("main")
	_ = old.cmd.Process.Signal(syscall.SIGSTOP)
	next := start(t, db, append(env, "BATON_NAME=pod-1")...)
	if row := next.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "main", next.all("main"))
	_ = old.cmd.Process.Signal(syscall.SIGCONT)
	old.fenced()
}
