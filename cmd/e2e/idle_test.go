package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// crowd opens n streams on a thread at the doors in turn. It starts few runs, which are endless.
func (s *server) crowd(n int, thread string, at []*door) []*stream {
	s.t.Helper()
	all := make([]*stream, n)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				d := at[i%len(at)]
				v := visit{thread: thread, script: endless}
				if d.owner && i < 200 {
					v.thread = thread + "-" + strconv.Itoa(i)
				} else if d.owner {
					d = doors[0]
				}
				st, err := d.open(s.addr, v)
				if err != nil {
					s.t.Errorf("%s: %v", d.name, err)
					return
				}
				all[i] = st
			}
		})
	}
	wg.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	return all
}

// Idle streams take little memory, and disconnected ones neither descriptors nor memory.
func TestIdleStreams_ReleaseEverything(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t))
	soak := os.Getenv("BATON_SOAK") != ""
	s.run("main", endless)
	for _, kind := range []struct {
		name   string
		socket bool
		goal   int // bytes per stream
	}{{"server-sent events", false, 16 << 10}, {"WebSocket", true, 28 << 10}} {
		var at []*door
		for _, d := range doors {
			if d.socket == kind.socket && !d.owner {
				at = append(at, d)
			}
		}
		leave := func(all []*stream, descriptors int) {
			for _, st := range all {
				st.close()
			}
			s.until("rid of its streams", func() bool { return s.holds(all) == 0 && s.sockets() <= descriptors })
		}
		descriptors := s.sockets()
		leave(s.crowd(50, "main", at), descriptors) // one-time allocations
		empty, first := s.rss(), 0
		for round := range max(2, count(8)) {
			n := count(2000)
			all := s.crowd(n, "main", at)
			pause(500 * time.Millisecond) // until the memory of handshakes is free
			full := s.rss()
			if round == 0 {
				first = full
			}
			if round == 0 && soak {
				t.Logf("%d idle streams of %s: %d kB each, the goal is %d kB", n, kind.name, (full-empty)/n>>10, kind.goal>>10)
			}
			if full > first+max(first/2, 32<<20) {
				t.Errorf("%s: %d kB with the streams of round %d, %d kB with those of round 1", kind.name, full>>10, round+1, first>>10)
			}
			s.keeps(all)
			leave(all, descriptors)
		}
		t.Logf("%s: %d kB before, %d kB with the streams, %d kB after all disconnected", kind.name, empty>>10, first>>10, s.rss()>>10)
	}
}

// A stopping server ends all its streams properly, and exits without an error.
func TestStop_EndsManyStreams(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t), "BATON_TIMEOUTS_DRAIN=1s")
	s.run("main", endless)
	all := s.crowd(count(2000), "main", doors)
	for _, st := range all {
		if st.owner { // a run that has not started when the server stops does not start
			if m, err := st.next(); err != nil || m.typ != "RUN_STARTED" {
				t.Fatalf("%s: its run begins with %+v, %v", st.name, m, err)
			}
		}
	}
	type end struct {
		last message
		err  error
	}
	ends := make([]end, len(all))
	var wg sync.WaitGroup
	for i, st := range all {
		wg.Go(func() {
			defer st.close()
			for ends[i].err == nil {
				m, err := st.next()
				if err == nil {
					ends[i].last = m
				}
				ends[i].err = err
			}
		})
	}
	s.stops(t)
	wg.Wait()
	for i, st := range all {
		if err := goodbye(st, ends[i].last, ends[i].err); err != nil {
			t.Errorf("%s: %v", st.name, err)
		}
	}
}

// goodbye checks how a stopping server has ended a stream. last is the last message.
func goodbye(st *stream, last message, err error) error {
	interrupted := st.owner && (last.typ != "RUN_ERROR" || last.id != "")
	switch ms, _ := strconv.Atoi(st.retry); {
	case st.socket && !errors.Is(err, closed(1001)) || !st.socket && !errors.Is(err, io.EOF):
		return err
	case interrupted:
		return fmt.Errorf("the last message is %+v, want an interruption", last)
	case !st.socket && !st.owner && st.name != "connect" && (ms < 1000 || ms > 5000):
		return fmt.Errorf("the reconnect delay is %q ms", st.retry)
	}
	return nil
}
