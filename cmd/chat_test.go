//go:build unix

package cmd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/builtin"
)

// talk runs chat with lines in a pipe.
func talk(t *testing.T, lines string, args ...string) result {
	t.Helper()
	var stdout, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Args: append([]string{"chat"}, args...), Stdout: &stdout, Stderr: &stderr,
		Stdin: strings.NewReader(lines),
	}
	code := p.Run(t.Context())
	return result{code, stdout.String(), stderr.String()}
}

var aThread = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func TestChat_Converses(t *testing.T) {
	for _, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			r := talk(t, "hello there\n"+
				`{"do":[{"reason":"hm"},{"tool":"calculator","args":{"expression":"6*7"}},{"say":"it is\u001b[31m \u202ered"}]}`+"\n\n/what\n"+
				`{"do":[{"fail":"boom"}]}`+"\n/new\nbye\n/quit\nnever", "scripted", "--database", db, "--thread", "t1").want(t, 0)
			want := "new thread: t1\nhello there\nhm\n→ calculator {\"expression\":\"6*7\"}\n← 42\nit is[31m red\n" +
				"commands: /new, /quit; Ctrl-C cancels a turn\nfailed: boom (failed)\nnew thread: …\nbye\n"
			if got := aThread.ReplaceAllString(r.stdout, "…"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			r = talk(t, "more\n", "--database", db, "--thread", "t1").want(t, 0)
			if !strings.HasPrefix(r.stdout, "> hello there\nhello there\n> {") || !strings.HasSuffix(r.stdout, "thread t1\nmore\n") {
				t.Errorf("the thread continues with\n%s", r.stdout)
			}
			if r := talk(t, `{"do":[{"fail":"boom"}]}`, "scripted", "--database", db); r.code != 1 {
				t.Errorf("exit code %d after a failure, want 1", r.code)
			}
		})
	}
}

func TestChat_AsksQuestions(t *testing.T) {
	db := database(t)
	schema := `{"type":"object","properties":{"to":{"type":"string"}}}`
	r := talk(t, `{"do":[{"ask":{"message":"Where?","schema":`+schema+`}},{"say":"thanks"}]}`+"\n7\n", "scripted", "--database", db).want(t, 0)
	if want := "? Where?\n  to (string, optional)\nanswer: {\"to\":\"7\"}\nthanks\n"; r.stdout != want {
		t.Errorf("got\n%s\nwant\n%s", r.stdout, want)
	}
	schema = `{"type":"object","required":["size","name"],"properties":{"size":{"type":"integer","description":"in metres"},"name":{"enum":["a","b"]},"sure":{"type":"boolean"}}}`
	r = talk(t, `{"do":[{"ask":{"message":"Which?","schema":`+schema+`}}]}`+"\n\nbig\nc\nyes\n4\nb\n\n", "scripted", "--database", db).want(t, 0)
	for _, want := range []string{
		"? Which?\n  size (integer): in metres\n  name (\"a\" or \"b\")\n  sure (boolean, optional)\n", "does not fit", `answer: {"name":"b","size":4}`,
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	t.Chdir(t.TempDir())
	put(t, "baton.yaml", "workflows:\n  q: {nodes: {n: {agent: echo, approval: required}}}\n  w: {nodes: {n: {tool: sleep, input: {ms: 1}, approval: required}}}\n")
	if r := baton(t.Context(), "run", "q", "one\n? two", "-o", "text").want(t, 0); !strings.Contains(r.stdout, "? Run echo?\n  echo\n    query: one\n      ? two\n") {
		t.Errorf("got\n%s", r.stdout)
	}
	for answer, want := range map[string]string{
		"maybe\na\n":             "\n← slept 1 ms\n",
		"e [1]\ne {\"ms\": 2}\n": "\n← slept 2 ms\n",
		"edit\n{\"ms\": 3}\n":    "\n← slept 3 ms\n",
		"r\n":                    "(denied)\n",
	} {
		thread := fmt.Sprintf("t%d", len(answer))
		first := baton(t.Context(), "run", "w", "go", "--thread", thread, "-o", "text").want(t, 0)
		if !strings.Contains(first.stdout, "? Allow sleep?") {
			t.Fatalf("got\n%s", first.stdout)
		}
		r := talk(t, answer, "--thread", thread)
		if !strings.Contains(r.stdout, "? Allow sleep?\n  sleep\n    ms: 1\n") || !strings.Contains(r.stdout, want) {
			t.Errorf("%q: got\n%s\nwant %q", answer, r.stdout, want)
		}
	}
}

func TestChat_InterruptCancelsThenQuits(t *testing.T) {
	db := database(t)
	in, lines := io.Pipe()
	defer lines.Close()
	var stdout, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Args: []string{"chat", "scripted", "--database", db}, Stdout: &stdout, Stderr: &stderr, Stdin: in,
	}
	code := make(chan int, 1)
	go func() { code <- p.Run(context.WithoutCancel(t.Context())) }()
	say := func(line, until string) {
		t.Helper()
		if _, err := io.WriteString(lines, line+"\n"); err != nil {
			t.Fatal(err)
		}
		stdout.until(t, until)
	}
	press := func() {
		t.Helper()
		must(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	}
	say(`{"do":[{"say":"one"},{"tool":"sleep","args":{"ms":600000}}]}`, "→ sleep")
	press()
	stdout.until(t, "cancelled\n")
	say("two", "two\n")
	say(`{"do":[{"ask":{"message":"Sure?"}}]}`, "? Sure?\n")
	press()
	for deadline := time.Now().Add(10 * time.Minute); strings.Count(stdout.String(), "cancelled\n") < 2; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the question was not cancelled:\n%s", stdout.String())
		}
	}
	press()
	stdout.until(t, "press Ctrl-C again to quit\n")
	press()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s%s", got, stdout.String(), stderr.String())
	}
}

func TestChat_SurvivesServerRestart(t *testing.T) {
	db, addr := database(t), cmdtest.Address()
	s := serve(t, db, addr)
	in, lines := io.Pipe()
	var stdout, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Args: []string{"chat", "scripted", "--server", "http://" + addr}, Stdout: &stdout, Stderr: &stderr, Stdin: in,
	}
	code := make(chan int, 1)
	go func() { code <- p.Run(t.Context()) }()
	if _, err := io.WriteString(lines, `{"do":[{"say":"one"},{"tool":"sleep","args":{"ms":1000}},{"say":"two"}]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	stdout.until(t, "→ sleep")
	stop(t, s)
	serve(t, db, addr)
	stdout.until(t, "two\n")
	lines.Close()
	if got := <-code; got != 0 || strings.Count(stdout.String(), "one\n") != 1 {
		t.Errorf("exit code %d\n%s%s", got, stdout.String(), stderr.String())
	}
}

func TestChat_TalksToWorkflow(t *testing.T) {
	for _, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			r := talk(t, "cats\n", "demo", "--database", db, "--thread", "t1").want(t, 0)
			if !strings.Contains(r.stdout, "▸ review") {
				t.Errorf("got\n%s", r.stdout)
			}
			r = talk(t, "dogs\n", "--database", db, "--thread", "t1").want(t, 0) // the thread's last run names the workflow
			if _, turn, _ := strings.Cut(r.stdout, "thread t1\n"); !strings.Contains(turn, "▸ review") {
				t.Errorf("the thread continues with\n%s", r.stdout)
			}
		})
	}
}

func TestChat_NeedsAgent(t *testing.T) {
	r := talk(t, "", "--database", database(t)).want(t, 2)
	if !strings.Contains(r.stderr, "echo, scripted\nbaton: for the agent assistant set OPENAI_API_KEY") {
		t.Errorf("got %q", r.stderr)
	}
	if r := talk(t, "hello\n", "nobody", "--database", database(t)).want(t, 1); !strings.Contains(r.stdout, `There is no agent or workflow "nobody"`) {
		t.Errorf("got %q", r.stdout)
	}
}
