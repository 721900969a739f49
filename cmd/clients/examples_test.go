package clients

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
)

// The page of the React example talks to an agent, answers its questions, and stops it.
func TestReactExample(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	needs(t, "../examples/react")
	addr := cmdtest.Address() // for the script's server
	page := "http://" + addr
	_, port, _ := strings.Cut(addr, ":")
	s := start(t, "BATON_ORIGINS="+page)
	serves := exec.CommandContext(t.Context(), "node", "start.mjs")
	serves.Dir, serves.Env = "../examples/react", append(os.Environ(), "BATON="+s.url(""), "PORT="+port)
	said, err := serves.StdoutPipe()
	must(t, err)
	must(t, serves.Start())
	t.Cleanup(func() {
		_ = serves.Process.Signal(syscall.SIGTERM)
		_ = serves.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, page) {
		t.Fatalf("it prints %q, %v", line, err)
	}
	judge(t, "browser", "react.mjs", nil, "PAGE="+page, chromium)
}
