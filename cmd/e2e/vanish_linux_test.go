package e2e

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// vanish makes the client disappear as if its cable was pulled: neither the server's data nor its probes are acknowledged, and no
// packet closes the connection. The kernel drops the packets before TCP sees them, which needs no privileges.
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

// The server notices a vanished client when a ping or an event is not acknowledged in time. It ends the stream, closes the
// descriptor, and cancels the run that the client owns.
func TestVanishedClient_IsNoticed(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t), "BATON_TIMEOUTS_PING=3s", "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=100ms")
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
				v.thread += "-again" // an owner needs its own thread
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
	patient := start(t, sqlite(t), "BATON_TIMEOUTS_PING=1h")
	patient.run("silent", endless)
	unnoticed := []*stream{patient.open(doors[0], visit{thread: "silent"})}
	for _, st := range slices.Concat(unnoticed, gone) {
		must(t, st.vanish())
	}
	s.until("rid of the vanished", func() bool { return s.holds(gone) == 0 })
	s.keeps(stay)
	patient.keeps(unnoticed)
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

// statusOn returns the status of the latest run on a thread.
func (s *server) statusOn(thread string) any {
	s.t.Helper()
	rows := s.items("/api/projects/default/agent-runs?limit=1&threadId=" + thread)
	if len(rows) == 0 {
		return nil
	}
	return rows[0]["status"]
}
