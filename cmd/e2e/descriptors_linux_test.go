package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limited restarts the server with a limit on open files.
func (s *server) limited(files int) {
	s.t.Helper()
	s.exe = filepath.Join(s.t.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", files, binary)
	must(s.t, os.WriteFile(s.exe, []byte(script), 0o700))
	s.kill()
	s.up()
}

// The server closes idle connections for new ones before it reaches its limit of open files.
func TestIdleConnections_LeaveFilesForOthers(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t))
	s.limited(300)
	var idle []net.Conn
	for range 400 {
		c, err := net.Dial("tcp", s.addr)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		idle = append(idle, c)
	}
	client.CloseIdleConnections() // the next client must open a new one
	if status, out := s.call("GET", "/api/v1/threads", nil); status != http.StatusOK {
		t.Errorf("a request after idle connections: %d %v", status, out)
	}
	if row := s.ended(s.run("main", `{"do":[{"say":"hello"}]}`)); row["status"] != "COMPLETED" {
		t.Errorf("a run is %v: %v", row["status"], row["error"])
	}
	for _, c := range idle[:100] {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("an idle connection was not closed: %v", err)
		}
	}
	if strings.Contains(s.output(), "cannot accept a connection") {
		t.Error("the server reached its limit of open files")
	}
}
