package clients

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/storage/postgrestest"
)

// haproxy sends each request to the next server.
const haproxy = `
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option redispatch
listen baton
  bind %s
  balance roundrobin
`

// balanced starts three servers of a cluster, with the settings in env, behind HAProxy. It returns the URL of all and one that
// crashes all.
func balanced(t *testing.T, env ...string) (url, crash string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		missing(t, "HAProxy")
	}
	env = append(env, "BATON_DATABASE="+postgrestest.New(t), "BATON_TIMEOUTS_LEASE=3s")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	var servers []*server
	var config strings.Builder
	fmt.Fprintf(&config, haproxy, addr)
	for i := range 3 {
		servers = append(servers, start(t, env...))
		fmt.Fprintf(&config, "  server s%d %s\n", i, servers[i].addr)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, "balanced", func() bool {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	crashing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		var all sync.WaitGroup
		for _, s := range servers {
			all.Go(func() {
				if err := s.crash(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}))
	t.Cleanup(crashing.Close)
	return "http://" + addr, crashing.URL
}

// An AG-UI client whose requests go to the servers of a cluster in turn sees what the client of one server sees, also across a crash.
func TestBalancer_ClientSeesOneServer(t *testing.T) {
	t.Parallel()
	needs(t, "agui1")
	url, crash := balanced(t, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
	judge(t, "agui1", "../agui/http.mjs", nil, "BATON_URL="+url, "CRASH_URL="+crash)
}
