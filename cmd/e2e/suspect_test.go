package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// A run that ends its process each time ends in crash_loop. The runs beside it go on before it does, and complete.
func TestSuspects_ComeLast(t *testing.T) {
	t.Parallel()
	exe := build(t, "-X github.com/batonrun/baton.calmFor=8s")
	onBoth(t, func(t *testing.T, db database) {
		n := 1
		if strings.HasPrefix(db.url, "postgres:") {
			n = 2
		}
		playSuspects(t, exe, db, n)
	})
}

func playSuspects(t *testing.T, exe string, db database, n int) {
	later := make(chan struct{}) // closed before the first process ends
	provider := llmtest.New(func(*llmtest.Request) llmtest.Script {
		select {
		case <-later:
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("well")}}
		default:
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("half "), llmtest.Stall(nil)}}
		}
	})
	t.Cleanup(provider.Close)
	sdk, err := filepath.Abs("../../plugins/process/sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	killer := filepath.Join(dir, "killer.py")
	file := filepath.Join(dir, "baton.yaml")
	for name, text := range map[string]string{
		killer: "import os, signal, baton\nbaton.serve(lambda run: os.kill(os.getppid(), signal.SIGKILL))\n",
		file: fmt.Sprintf("agents:\n  healthy: {provider: openai, base_url: %s/v1, api_key: key, model: m}\n  killer: {command: [python3, %s], env: {PYTHONPATH: %s}, start_timeout: 10m}\n",
			provider.URL, killer, sdk),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servers := make([]*server, n)
	for i := range servers {
		s := &server{t: t, db: db, addr: cmdtest.Address(), env: []string{"BATON_CONFIG=" + file}, exe: exe}
		s.up()
		servers[i] = s
	}
	var supervisors sync.WaitGroup
	over := make(chan struct{})
	t.Cleanup(func() {
		close(over)
		for _, s := range servers {
			s.mu.Lock()
			_ = s.cmd.Process.Kill()
			s.mu.Unlock()
		}
		supervisors.Wait()
		for _, s := range servers {
			s.kill()
			if t.Failed() {
				t.Logf("server log:\n%s", tail(s.output(), 8000))
			}
		}
	})
	start := func(agent, run string) error { // on a thread of the same name
		status, out, err := servers[0].try("POST", "/api/v1/agent/runs", map[string]any{"agent": agent, "threadId": run, "runId": run, "content": "go"})
		if err == nil && status != http.StatusAccepted {
			t.Fatalf("start: %d %v", status, out)
		}
		return err
	}
	var healthy []string
	for i := range 10 {
		healthy = append(healthy, fmt.Sprint("healthy-", i))
		if err := start("healthy", healthy[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range healthy {
		servers[0].until("eight seconds old: run "+run, func() bool {
			at, err := time.Parse(time.RFC3339, fmt.Sprint(servers[0].get(run)["startedAt"]))
			return err == nil && time.Since(at) > 8*time.Second
		})
	}
	close(later)
	_ = start("killer", "killer") // which may end the server before it answers
	for _, s := range servers {   // its supervisor
		supervisors.Go(func() {
			for {
				s.mu.Lock()
				done := s.done
				s.mu.Unlock()
				<-done
				if closedNow(over) {
					return
				}
				s.launch()
			}
		})
	}
	v := servers[n-1].watch("killer")
	end := func(run string) (row map[string]any) {
		s := servers[n-1]
		s.until("over: run "+run, func() bool {
			_, out, err := s.try("GET", "/api/projects/default/agent-runs/"+run, nil)
			row = out
			return err == nil && final(out["status"])
		})
		return row
	}
	for _, run := range healthy {
		if row := end(run); row["status"] != "COMPLETED" {
			t.Errorf("a run beside the killer is %v: %v", row["status"], row["error"])
		}
	}
	row := end("killer")
	if e, _ := row["error"].(map[string]any); row["status"] != "FAILED" || e["code"] != "crash_loop" {
		t.Errorf("the killer is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "killer", v.wait(t))

	var lines []string
	for _, s := range servers {
		lines = append(lines, strings.Split(s.output(), "\n")...)
	}
	taken := func(run string) (first string) {
		for _, line := range lines {
			if m := stamp.FindStringSubmatch(line); m != nil && strings.Contains(line, "run is taken over") && strings.Contains(line, `"run":"`+run+`"`) && (first == "" || m[1] < first) {
				first = m[1]
			}
		}
		return first
	}
	last := ""
	for _, run := range healthy {
		last = max(last, taken(run))
	}
	if again := taken("killer"); again == "" || last == "" || again < last {
		t.Errorf("the killer is taken over at %q, the last run beside it at %q", again, last)
	}
}

// stamp is the time of a line of the log.
var stamp = regexp.MustCompile(`"time":"([^"]+)"`)
