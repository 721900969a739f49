package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/sqlitetest"
)

// flood is a script whose output exceeds the buffers between the server and a client.
const flood = `{"do":[{"tokens":300,"size":1000}]}`

// endless is a script that writes one word and then nothing until the end of the test.
const endless = `{"do":[{"tokens":2,"delayMs":500000}]}`

func sqlite(t *testing.T) database {
	t.Helper()
	return database{url: "sqlite:" + sqlitetest.New(t)}
}

// slowReader is a client that reads nothing, or a byte a second, until hurry is closed.
type slowReader struct {
	*stream
	hurry chan struct{} // closed to read at full speed
	done  chan error    // how the stream ended
}

// slowly opens two streams at each door: one client reads nothing, the other reads a byte a second.
func (s *server) slowly(thread string) (all []slowReader) {
	s.t.Helper()
	for _, d := range doors {
		for i, drip := range []<-chan time.Time{nil, time.Tick(time.Second)} {
			v := visit{thread: thread, script: flood}
			if d.owner {
				v.thread = fmt.Sprintf("%s-%s-%d", thread, d.name, i)
			}
			st := s.open(d, v)
			r := slowReader{st, make(chan struct{}), make(chan error, 1)}
			if drip != nil {
				st.conn.hurry, st.conn.drip = r.hurry, drip
			}
			go func() { // ends with the stream
				if drip == nil {
					<-r.hurry
				}
				r.done <- r.drain()
			}()
			all = append(all, r)
		}
	}
	return all
}

// open opens a stream and closes it at the end of the test.
func (s *server) open(d *door, v visit) *stream {
	s.t.Helper()
	st, err := d.open(s.addr, v)
	if err != nil {
		s.t.Fatalf("%s: %v", d.name, err)
	}
	s.t.Cleanup(st.close)
	return st
}

// drain reads the stream to its end.
func (st *stream) drain() error {
	for {
		if _, err := st.next(); err != nil {
			return err
		}
	}
}

// gate queues a run on the thread. It starts when the test calls open.
func (s *server) gate(thread, script string) (run string, open func()) {
	s.t.Helper()
	before := s.run(thread, endless)
	run = s.run(thread, script)
	return run, func() {
		s.t.Helper()
		if status, out := s.call("POST", "/api/projects/default/agent-runs/"+before+"/cancel", nil); status != 200 {
			s.t.Fatalf("cancel: %d %v", status, out)
		}
	}
}

func streamsOf(readers []slowReader) (all []*stream) {
	for _, r := range readers {
		all = append(all, r.stream)
	}
	return all
}

// settled waits until no run is queued or running.
func (s *server) settled() {
	s.t.Helper()
	s.until("settled", func() bool {
		for _, status := range []string{"QUEUED", "RUNNING"} {
			code, out := s.call("GET", "/api/projects/default/agent-runs?limit=1&count=true&status="+status, nil)
			if code != 200 || out["total"] != float64(0) {
				return false
			}
		}
		return true
	})
}

// While clients of every kind read nothing, or a byte a second, and before any of them is cut off, runs end and other viewers see all
// events. The server's memory for slow clients is bounded, and it can stop properly.
func TestSlowReaders_SlowNothing(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t), "BATON_TIMEOUTS_PING=5m", "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=1h")
	s.ended(s.run("warm", flood))
	s.all("warm")
	before := s.rss()

	run, open := s.gate("main", flood)
	var slow []slowReader
	for range count(10) {
		slow = append(slow, s.slowly("main")...)
	}
	defer func() {
		for _, r := range slow {
			close(r.hurry)
		}
	}()
	var quick []*stream
	for _, d := range doors {
		if !d.owner && !d.monitor && d.name != "connect" {
			st := s.open(d, visit{thread: "main"})
			quick = append(quick, st)
		}
	}
	open()
	v := s.watch("main")
	if row := s.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	frames := v.wait(t)
	checkLog(t, "main", frames)
	for _, r := range quick { // they read the rest, and follow
		for len(r.ids) < len(frames) {
			if _, err := r.next(); err != nil {
				t.Fatalf("%s: %v after %s", r.name, err, r.last)
			}
		}
		contiguous(t, r)
	}
	s.settled()
	for _, row := range s.items("/api/projects/default/agent-runs?limit=500") {
		if row["threadId"] != "main" && row["status"] != "COMPLETED" {
			t.Errorf("the run of %v is %v: %v", row["threadId"], row["status"], row["error"])
		}
	}
	s.keeps(streamsOf(slow)) // otherwise they would prove nothing
	grown := s.rss() - before
	t.Logf("the server has grown by %d kB for %d slow readers", grown>>10, len(slow))
	if grown > 64<<20+len(slow)<<20 { // the buffers of monitors and threads, and a page of events per client
		t.Errorf("%d slow readers: the server has grown by %d kB", len(slow), grown>>10)
	}
	s.stops(t)
}

// contiguous checks that a stream has brought a thread's events without a gap.
func contiguous(t *testing.T, st *stream) {
	t.Helper()
	for i := range st.ids[1:] {
		if st.ids[i+1] != st.ids[i]+1 {
			t.Errorf("%s: id %d follows %d", st.name, st.ids[i+1], st.ids[i])
			return
		}
	}
}

// stops stops the server, which must exit without an error.
func (s *server) stops(t *testing.T) {
	t.Helper()
	began := time.Now()
	s.stop()
	t.Logf("the server took %v to stop", time.Since(began).Round(time.Millisecond))
	if !s.cmd.ProcessState.Success() {
		t.Errorf("the server ended with %v", s.cmd.ProcessState)
	}
}
