// Package examples tests the examples in this folder with the real program.
package examples

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/llm/llmtest"
)

var bin string // directory with the programs

func TestMain(m *testing.M) {
	dir, remove, err := cmdtest.Build("cmd/baton", "cmd/examples/plugin")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := m.Run()
	remove()
	os.Exit(code)
}

// run runs one of the programs on a new database and returns the log of its run, one event per line.
func run(t *testing.T, program string, args []string, env ...string) string {
	t.Helper()
	args = append([]string{"run", "--database", "sqlite:" + filepath.Join(t.TempDir(), "baton.db")}, args...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, program), args...)
	cmd.Env = append(os.Environ(), env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, &problems, &out)
	}
	return out.String()
}

// result returns the answer at the end of a log.
func result(t *testing.T, log string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	var last struct {
		Event struct {
			Type   string
			Result struct{ Answer string }
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Event.Type != "RUN_FINISHED" {
		t.Fatalf("the log ends with %s (%v)", lines[len(lines)-1], err)
	}
	return last.Event.Result.Answer
}

func TestPlugin(t *testing.T) {
	if got := result(t, run(t, "plugin", []string{"poet", "Write of a cat."})); got != "who found that it rhymed with bat." {
		t.Errorf("answer %q", got)
	}
}

func TestPython(t *testing.T) {
	log := run(t, "baton", []string{"--config", "python/baton.yaml", "review", "The cat sat. It was warm."})
	if got := result(t, log); got != "87 of 100" {
		t.Errorf("answer %q\n%s", got, log)
	}
}

func TestTeam(t *testing.T) {
	model := llmtest.New(llmtest.Each(
		llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, "a", "researcher"), llmtest.Arguments(0, `{"query":"how far is the moon?"}`)}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, "b", "calculator"), llmtest.Arguments(0, `{"expression":"384 * 1000"}`)}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("- 384000 km")}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, "c", "writer"), llmtest.Arguments(0, `{"query":"384000 km"}`)}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("The moon is 384,000 kilometres away.")}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("It is 384,000 kilometres to the moon.")}},
	))
	defer model.Close()
	log := run(t, "baton", []string{"--config", "team/baton.yaml", "supervisor", "How far is the moon?"},
		"OPENAI_API_KEY=none", "OPENAI_BASE_URL="+model.URL+"/v1")
	if got := result(t, log); got != "It is 384,000 kilometres to the moon." {
		t.Errorf("answer %q\n%s", got, log)
	}
	for _, want := range []string{`"name":"researcher"`, `"name":"writer"`, "384000"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the log:\n%s", want, log)
		}
	}
}

func TestApproval(t *testing.T) {
	base := serve(t, "--config", "approval/baton.yaml")
	ask := `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"Version 2 is out."}],"protocolVersion":"1.0"}`
	log := post(t, base+"/api/v1/agui/release", ask)
	id := regexp.MustCompile(`"interrupts":\[\{"id":"([^"]+)"`).FindStringSubmatch(log)
	if id == nil || strings.Contains(log, `"delta":"Published`) {
		t.Fatalf("no request for approval:\n%s", log)
	}
	answer := `{"threadId":"t","runId":"r2","messages":[],"protocolVersion":"1.0",` +
		`"resume":[{"interruptId":"` + id[1] + `","status":"resolved","payload":{"approved":true}}]}`
	if log := post(t, base+"/api/v1/agui/release", answer); !strings.Contains(log, "Published: Version 2 is out.") {
		t.Errorf("not published:\n%s", log)
	}
}

// serve starts the program on a new database and returns its URL. The program ends with the test.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(t.TempDir(), "baton.db")}, args...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "baton"), args...)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	var all strings.Builder
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		if url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); url != "" {
			done := make(chan struct{})
			go func() { // ends with the program
				defer close(done)
				_, _ = io.Copy(io.Discard, said)
			}()
			t.Cleanup(func() {
				_ = cmd.Process.Signal(syscall.SIGTERM)
				<-done
				_ = cmd.Wait()
			})
			return url
		}
	}
	t.Fatalf("the program does not serve:\n%s", &all)
	return ""
}

// post sends a body and returns the whole answer.
func post(t *testing.T, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s %s %v", url, resp.Status, all, err)
	}
	return string(all)
}
