package clients

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/postgrestest"
)

// haproxy sends each request to the next server. While none is up it closes connections without an answer, as a server that is down.
const haproxy = `
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  option redispatch
  option abortonclose
  retry-on conn-failure empty-response
  errorfile 502 /dev/null
  errorfile 503 /dev/null
listen baton
  bind %s
  balance roundrobin
`

// balanced is the name of tests whose servers are three of a cluster, behind HAProxy. With BALANCED set, all tests are balanced.
const balanced = "balanced"

func isBalanced(t *testing.T) bool {
	t.Helper()
	return os.Getenv("BALANCED") != "" || strings.Contains(t.Name(), "/"+balanced)
}

// alsoBalanced runs a test with one server, and with a cluster: clients see no difference.
func alsoBalanced(t *testing.T, test func(t *testing.T)) {
	if !isBalanced(t) {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	t.Run(balanced, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// startCluster starts three servers of a cluster, with the settings in env, and HAProxy, whose address the returned server has.
func startCluster(t *testing.T, program string, env ...string) *server {
	t.Helper()
	proxy, err := exec.LookPath("haproxy")
	if err != nil {
		missing(t, "HAProxy")
	}
	env = append(env, "BATON_TIMEOUTS_LEASE=1m")
	if !strings.Contains(strings.Join(env, " "), "BATON_DATABASE=postgres") {
		env = append(env, "BATON_DATABASE="+postgrestest.New(t))
	}
	all := &server{t: t, program: program, env: env, addr: cmdtest.Address()}
	var config strings.Builder
	fmt.Fprintf(&config, haproxy, all.addr)
	for i := range 3 {
		s := startOne(t, program, env...)
		all.members = append(all.members, s)
		fmt.Fprintf(&config, "  server s%d %s\n", i, s.addr)
	}
	all.dir = all.members[0].dir
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	must(t, os.WriteFile(file, []byte(config.String()), 0o600))
	cmd := exec.Command(proxy, "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	until(t, "balanced", func() bool {
		res, err := http.Get(all.url("/readyz"))
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return all
}
