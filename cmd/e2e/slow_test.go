package e2e

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/sqlitetest"
)

// flood is more than the buffers between the server and a client hold.
const flood = `{"do":[{"tokens":300,"size":1000}]}`

// endless is a run that says one word and then nothing for longer than a test takes.
const endless = `{"do":[{"tokens":2,"delayMs":500000}]}`

func sqlite(t *testing.T) database {
	t.Helper()
	return database{url: "sqlite:" + sqlitetest.New(t)}
}

// slowReader is a client that reads nothing, or a byte a second, until it is told to hurry.
type slowReader struct {
	*stream
	hurry chan struct{} // closed when the client is to read all it can
	done  chan error    // how the stream ended
}

// slowly opens two streams at each door: one whose client reads nothing, one that reads a byte a second.
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
			st.conn.hurry, st.conn.drip = r.hurry, drip
			go func() { r.done <- r.drain() }() // ends with the stream
			all = append(all, r)
		}
	}
	return all
}

// open opens a stream that the test closes at its end.
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

// gate has a run wait for its turn on the thread until the test calls open.
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

// settled waits until no run is queued or at work.
func (s *server) settled() {
	s.t.Helper()
	s.until("settled", func() bool {
		for _, status := range []string{"QUEUED", "RUNNING"} {
			code, out := s.call("GET", "/api/projects/default/agent-runs?limit=1&status="+status, nil)
			if code != 200 || out["total"] != float64(0) {
				return false
			}
		}
		return true
	})
}

// Runs end and other viewers see all of them while clients of every kind read nothing, or a byte a second, and
// none of those is given up yet; what the server holds for them is bounded, and it can stop in good order.
func TestSlowReadersSlowNobody(t *testing.T) {
	s := start(t, sqlite(t), "BATON_TIMEOUTS_PING=5m", "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=1h")
	s.unraced()
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
	for _, r := range quick { // they read what they have not yet, and follow
		for len(r.ids) < len(frames) {
			if _, err := r.next(); err != nil {
				t.Fatalf("%s: %v behind %s", r.name, err, r.last)
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
	s.keeps(streamsOf(slow)) // else they would prove nothing
	grown := s.rss() - before
	t.Logf("the server has grown by %d kB for %d slow readers", grown>>10, len(slow))
	if grown > 64<<20+len(slow)<<20 { // what monitors and threads keep, and a page of events for each
		t.Errorf("%d slow readers: the server has grown by %d kB", len(slow), grown>>10)
	}
	s.stops(t)
}

// contiguous proves that a stream has brought a thread's events without a gap.
func contiguous(t *testing.T, st *stream) {
	t.Helper()
	for i := range st.ids[1:] {
		if st.ids[i+1] != st.ids[i]+1 {
			t.Errorf("%s: id %d follows %d", st.name, st.ids[i+1], st.ids[i])
			return
		}
	}
}

// stops stops the server, which must end as it should.
func (s *server) stops(t *testing.T) {
	t.Helper()
	began := time.Now()
	s.stop()
	t.Logf("the server took %v to stop", time.Since(began).Round(time.Millisecond))
	if !s.cmd.ProcessState.Success() {
		t.Errorf("the server ended with %v", s.cmd.ProcessState)
	}
}

// A client that takes nothing is cut off: a stream of server-sent events breaks off, a socket is closed with
// 4008. It goes on behind the last id it has got and misses nothing; a monitor's client that has missed
// something is told so.
//
// The timeout is longer than the run takes on a busy machine: it counts from the moment that the server cannot write
// any more, but the kernel gives a connection up that has stood still for twice as long.
func TestSlowReadersAreCutOff(t *testing.T) {
	s := start(t, sqlite(t), "BATON_TIMEOUTS_PING=4s", "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=1h")
	run, open := s.gate("main", flood)
	slow := s.slowly("main")
	open()
	s.wakeOnceCutOff(slow)
	s.ended(run)
	s.settled()
	for _, r := range slow {
		err := <-r.done
		switch {
		case r.socket && !errors.Is(err, closed(4008)):
			t.Errorf("%s: %v, want 4008", r.name, err)
		case !r.socket && !cut(err) && (!r.monitor || !errors.Is(err, io.EOF)):
			t.Errorf("%s: %v, want a stream that breaks off", r.name, err)
		}
		switch {
		case count(10) == 1 && r.conn.drip != nil: // one of each kind will do
		case r.monitor:
			s.resumesMonitor(t, r.stream)
		case len(r.ids) > 0:
			contiguous(t, r.stream)
			s.resumes(t, r.stream)
		case r.name != "run": // whose events have no ids
			t.Errorf("%s: not one event came", r.name)
		}
	}
}

// wakeOnceCutOff has each client read on as soon as the server has let go of it: what is left for it with the
// kernel is kept no longer than a write may take.
func (s *server) wakeOnceCutOff(slow []slowReader) {
	s.t.Helper()
	asleep := slices.Clone(slow)
	s.until("rid of its slow readers", func() bool {
		asleep = slices.DeleteFunc(asleep, func(r slowReader) bool {
			if s.holds([]*stream{r.stream}) > 0 {
				return false
			}
			close(r.hurry)
			return true
		})
		return len(asleep) == 0
	})
}

// resumes proves that a client which comes back gets the rest of the thread's log.
func (s *server) resumes(t *testing.T, st *stream) {
	t.Helper()
	all := s.all(st.thread)
	d := st.door
	if d.owner || d.name == "connect" {
		d = doors[0]
	}
	again := s.open(d, visit{thread: st.thread, after: st.last})
	again.ids = slices.Clone(st.ids)
	for again.ids[len(again.ids)-1] < int64(len(all)) {
		if _, err := again.next(); err != nil {
			t.Errorf("%s behind %s: %v", d.name, again.last, err)
			return
		}
	}
	contiguous(t, again)
	if again.ids[0] != 1 && st.name != "connect" {
		t.Errorf("%s began with %d", st.name, again.ids[0])
	}
	again.close()
}

// resumesMonitor proves that a monitor's client which comes back goes on where it was, or learns that it cannot.
func (s *server) resumesMonitor(t *testing.T, st *stream) {
	t.Helper()
	again := s.open(st.door, visit{after: st.last})
	defer again.close()
	first, err := again.next()
	if err == nil && first.id == "" {
		first, err = again.next()
	}
	if err != nil || first.id == "" || first.id != st.last && first.typ != "reset" && first.typ != "STATE_SNAPSHOT" {
		t.Errorf("%s behind %q: %+v, %v", st.name, st.last, first, err)
	}
}
