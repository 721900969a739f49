package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins/builtin"
)

// stroll connects and disconnects clients at all doors for a while: some disconnect during the request, some immediately after it,
// some in the middle of a frame, and some with a reset. It returns the number of opened streams.
func stroll(addr string, clients int, d time.Duration, thread string) (opened int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	over := time.Now().Add(d)
	for i := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for n := 0; time.Now().Before(over); n++ {
				at := doors[rng.IntN(len(doors))]
				v := visit{thread: thread, script: `{"do":[{"tokens":50,"delayMs":5}]}`}
				if at.owner {
					v.thread = fmt.Sprintf("stroll-%d-%d", i, n%3)
				}
				if at.pass(addr, v, rng) {
					mu.Lock()
					opened++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return opened
}

// pass opens a stream, perhaps incompletely, and disconnects. It reports whether the stream was open.
func (d *door) pass(addr string, v visit, rng *rand.Rand) bool {
	if rng.IntN(3) == 0 {
		c, err := dialTap(addr)
		if err != nil {
			return false
		}
		ask := d.bytes(v)
		_, _ = c.Write(ask[:rng.IntN(len(ask)+1)]) // perhaps the whole request, without reading the answer
		c.leave(rng)
		return false
	}
	st, err := d.open(addr, v)
	if err != nil {
		return false
	}
	defer st.close()
	_ = st.conn.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(400)) * time.Millisecond)) // perhaps no frame comes
	for range rng.IntN(20) {
		if _, err := st.next(); err != nil {
			break
		}
	}
	_, _ = st.in.Peek(1 + rng.IntN(200)) // the beginning of a frame
	st.conn.leave(rng)
	return true
}

// leave closes the connection, sometimes with a reset.
func (c *tap) leave(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}

// Disconnecting clients leave no resources behind and disturb no run.
func TestChurn_LeavesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t), "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=100ms", "BATON_TIMEOUTS_PING=1s")
	length := time.Duration(count(30)) * time.Second
	s.ended(s.run("main", `{"do":[{"say":"hello"}]}`))
	before, threads := s.sockets(), s.threads()
	run := s.run("main", fmt.Sprintf(`{"do":[{"tokens":%d,"delayMs":10}]}`, length/(10*time.Millisecond)))
	other := s.run("other", `{"do":[{"tokens":200,"delayMs":10}]}`)
	v := s.watch("main")
	n := stroll(s.addr, 200, length, "main")
	for _, run := range []string{run, other} {
		if row := s.ended(run); row["status"] != "COMPLETED" {
			t.Errorf("the run is %v: %v", row["status"], row["error"])
		}
	}
	frames := v.wait(t)
	checkLog(t, "main", frames)
	sameFrames(t, "read again", frames, s.all("main"))
	s.settled()
	s.until("without their sockets", func() bool { return s.sockets() <= before })
	t.Logf("%d streams were opened; the server had %d threads and has %d", n, threads, s.threads())
	if s.threads() > threads+32 {
		t.Errorf("the server has %d threads", s.threads())
	}
	for i := range 200 {
		for j := range 3 {
			s.strolled(t, fmt.Sprintf("stroll-%d-%d", i, j))
		}
	}
	for line := range strings.Lines(s.output()) {
		if strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("the server logs a client's disconnect as its own error: %s", line)
		}
	}
	s.stops(t)
}

// strolled checks the log of a thread after its clients have disconnected, if it has a run.
func (s *server) strolled(t *testing.T, thread string) {
	t.Helper()
	if rand.IntN(20) > 0 { // a sample is enough
		return
	}
	if status, _ := s.call("GET", "/api/v1/agent/history?threadId="+thread, nil); status == 200 {
		if frames := s.all(thread); len(frames) > 0 {
			checkLog(t, thread, frames)
		}
	}
}

// The same inside this process, to check that no goroutines and no memory of threads or streams remain.
func TestChurn_LeavesNoMemory(t *testing.T) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 64 // count nearly every object
	defer func() { runtime.MemProfileRate = rate }()
	cfg := config.Default()
	cfg.Listen, cfg.Database = "127.0.0.1:0", sqlite(t).url
	cfg.Timeouts.OnDisconnectGrace = 50 * time.Millisecond
	cfg.Timeouts.Ping = time.Second
	ctx := context.Background()
	srv, err := cmd.Start(ctx, cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), builtin.Plugins()...)
	must(t, err)
	defer func() {
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	s := &server{t: t, addr: srv.Addr()}
	s.ended(s.run("main", `{"do":[{"say":"hello"}]}`))
	round := func(d time.Duration) {
		s.run("main", `{"do":[{"tokens":200,"delayMs":10}]}`)
		t.Logf("%d streams were opened", stroll(s.addr, 100, d, "main"))
		s.settled()
		s.ended(s.run("main", `{"do":[{"tokens":4200}]}`)) // fills the buffers of monitors
		s.until("at rest", func() bool { return workers() == "" })
	}
	round(300 * time.Millisecond) // one-time allocations
	descriptors, before := socketsOf("self"), objects()
	length := time.Duration(count(20)) * time.Second
	round(length)
	s.until("without their sockets", func() bool {
		client.CloseIdleConnections()
		return socketsOf("self") <= descriptors
	})
	after := objects()
	left := grown(before, after)
	for n := 0; len(left) > 0 && n < 2; n++ { // a leak grows each time, one-time allocations do not
		round(length)
		before, after = after, objects()
		again := grown(before, after)
		maps.DeleteFunc(left, func(site string, _ int) bool { return again[site] == 0 })
	}
	for site := range left {
		t.Errorf("%d objects are in use, %d before, allocated at %s", after[site], before[site], site)
	}
}

// grown returns the growth of objects in use. The profile is a sample, so it ignores growth by a quarter.
func grown(before, after map[string]int) map[string]int {
	more := make(map[string]int)
	for site, n := range after {
		if was := before[site]; n > was+was/4+50 {
			more[site] = n - was
		}
	}
	return more
}

// workers returns the goroutines that serve a stream or execute a run, "" if there are none.
func workers() string {
	buf := make([]byte, 1<<20)
	for n := runtime.Stack(buf, true); ; n = runtime.Stack(buf, true) {
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	var some bytes.Buffer
	for g := range bytes.SplitSeq(buf, []byte("\n\n")) {
		for _, part := range []string{"/transports.(*Streams)", "/transports/fanout.", "/transports/ws.", "/transports/monitor.", "/runtime/exec.(*Live)", "/runtime/tail.(*Cursor)"} {
			if bytes.Contains(g, []byte(part)) {
				_, _ = some.Write(append(g, '\n', '\n'))
				break
			}
		}
	}
	return some.String()
}

// objects counts the objects in use that the server's own code has allocated, by place, except the messages of threads that are cached:
// they have a limit in bytes.
func objects() map[string]int {
	runtime.GC()
	runtime.GC() // the profile describes the previous collection
	records := make([]runtime.MemProfileRecord, 1<<10)
	for n, ok := runtime.MemProfile(records, false); ; n, ok = runtime.MemProfile(records, false) {
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+n/4)
	}
	all := make(map[string]int)
	for i := range records {
		frames, place := runtime.CallersFrames(records[i].Stack()), ""
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if strings.Contains(f.Function, "/runtime/tail.(*Logs).Messages") || strings.Contains(f.Function, "/runtime/tail.(*cachedMessages).put") {
				place = ""
				break
			}
			if place == "" && (strings.HasPrefix(f.Function, "github.com/batonrun/baton/transports") || strings.HasPrefix(f.Function, "github.com/batonrun/baton/runtime")) {
				place = f.Function + " at " + f.File + ":" + strconv.Itoa(f.Line)
			}
		}
		if place != "" {
			all[place] += int(records[i].InUseObjects())
		}
	}
	return all
}
