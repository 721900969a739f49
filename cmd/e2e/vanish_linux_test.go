package e2e

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vanish has the client's machine take no notice any more of what the server sends: neither its data nor its
// questions are acknowledged, and no end of the connection is told, as when a cable is pulled. The kernel drops
// the packets before TCP sees them, for which no rights are needed.
func (st *stream) vanish() error {
	raw, err := st.conn.SyscallConn()
	if err != nil {
		return err
	}
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	fail := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]})
	})
	if fail != nil {
		return fail
	}
	return err
}

// A client that vanishes without a word is noticed when it has not acknowledged a ping in time, or an event: its
// stream ends, its descriptor is closed, and the run that belongs to it is cancelled.
func TestVanishedClientsAreNoticed(t *testing.T) {
	s := start(t, sqlite(t), "BATON_TIMEOUTS_PING=1s", "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=100ms")
	s.run("silent", endless)
	s.run("talking", `{"do":[{"tokens":5000,"delayMs":100}]}`)
	before := s.sockets()
	var gone, stay []*stream
	for _, d := range doors {
		for i, thread := range []string{"silent", "talking"} {
			v := visit{thread: thread, script: endless}
			if d.owner {
				v.thread = fmt.Sprintf("%s-%d", d.name, i)
			}
			for range 2 {
				gone = append(gone, s.open(d, v))
				v.thread += "-again" // of an owner: it has one to itself
				if !d.owner {
					v.thread = thread
				}
			}
		}
		v := visit{thread: "silent", script: endless}
		if d.owner {
			v.thread = d.name + "-stays"
		}
		st := s.open(d, v)
		go func() { _ = st.drain() }() // ends with the stream
		stay = append(stay, st)
	}
	for _, st := range gone {
		if err := st.vanish(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	s.until("rid of the vanished", func() bool { return s.holds(gone) == 0 })
	took := time.Since(began)
	t.Logf("%d vanished clients were noticed within %v", len(gone), took.Round(time.Millisecond))
	if took > 30*time.Second { // the default settings would take longer
		t.Error("that is not what the settings say")
	}
	s.keeps(stay)
	s.until("without their sockets", func() bool { return s.sockets() <= before+len(stay) })
	for _, st := range gone {
		if st.owner {
			s.until("cancelled: "+st.thread, func() bool { return s.statusOn(st.thread) == "CANCELLED" })
		}
	}
	for _, st := range stay {
		if status := "RUNNING"; st.owner && s.statusOn(st.thread) != status {
			t.Errorf("the run of %s is %v", st.thread, s.statusOn(st.thread))
		}
	}
}

// statusOn is the status of the latest run on a thread.
func (s *server) statusOn(thread string) any {
	s.t.Helper()
	rows := s.items("/api/projects/default/agent-runs?limit=1&threadId=" + thread)
	if len(rows) == 0 {
		return nil
	}
	return rows[0]["status"]
}
