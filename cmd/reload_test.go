//go:build unix

package cmd_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestServe_ReloadsAtSIGHUP(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "baton.yaml", "workflows:\n  first: {nodes: {n: {agent: echo}}}\n")
	var stdout, stderr output
	p := programOf(&stdout, &stderr, "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:baton.db")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx) }()
	stdout.until(t, "try: curl ")
	url := strings.Fields(stdout.String())[4]
	offers := func() string {
		res, err := http.Get(url + "/api/v1/workflows")
		must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		return string(body)
	}
	signal := func(log string) {
		t.Helper()
		must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		for deadline := time.Now().Add(10 * time.Minute); !strings.Contains(stderr.String(), log); <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %q in:\n%s", log, stderr.String())
			}
		}
	}
	hangup := func(file, log string) {
		t.Helper()
		put(t, "baton.yaml", file)
		signal(log)
	}
	if got := offers(); !strings.Contains(got, `"first"`) {
		t.Errorf("the workflows are %s", got)
	}
	if got := offers(); !strings.Contains(got, `"origin":{"kind":"yaml","file":"baton.yaml","line":2,`) || !strings.Contains(got, `"kind":"built-in"`) {
		t.Errorf("the origins are %s", got)
	}
	hangup("limits: {queue: 5}\nworkflows:\n  second: {nodes: {n: {agent: echo}}}\n", `removed`)
	for _, want := range []string{"workflows.second", "workflows.first", "take effect at the next start"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, stderr.String())
		}
	}
	if got := offers(); !strings.Contains(got, `"second"`) || strings.Contains(got, `"first"`) || !strings.Contains(got, `"line":3,`) {
		t.Errorf("the workflows are %s", got)
	}
	hangup("workflows:\n  third: {nodes: {n: {agent: ecko}}}\n", "baton.yaml:2:30: workflows.third.nodes.n.agent")
	hangup("# nothing but a comment\n", "baton.yaml is empty")
	must(t, os.Remove("baton.yaml"))
	signal("open baton.yaml: no such file or directory")
	must(t, os.Symlink("gone.yaml", "baton.yaml"))
	signal("baton.yaml leads to a file that does not exist")
	if got := offers(); !strings.Contains(got, `"second"`) {
		t.Errorf("a bad file has changed the workflows: %s", got)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, stderr.String())
	}
}

// A changed program that cannot be started does not end the one that works.
func TestServe_KeepsProgramsThatWork(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "agent.sh", `read a; echo '{"id":1,"result":{"protocol":1,"agent":{}}}'; for id in 2 3 4; do read b; echo '{"id":'$id',"result":"from '$0 $$'"}'; done; cat >/dev/null`)
	declare := func(command string) {
		put(t, "baton.yaml", "agents:\n  sh: {command: "+command+"}\nmcp:\n  files: {command: [no-such-server]}\n")
	}
	declare("[/bin/sh, agent.sh]")
	var stdout, stderr output
	p := programOf(&stdout, &stderr, "serve", "--listen", "127.0.0.1:0", "--database", "sqlite:baton.db")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx) }()
	stdout.until(t, "try: curl ")
	url := strings.Fields(stdout.String())[4]
	answer := func() string {
		return strings.Split(baton(t.Context(), "run", "--server", url, "-o", "text", "sh", "x").want(t, 0).stdout, "\n")[1]
	}
	before := answer()
	for command, reason := range map[string]string{"[no-such-program]": "executable file not found", "[/bin/sh, -c, exit 3]": "exit status 3"} {
		declare(command)
		must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		stderr.until(t, reason)
		if got := answer(); got != before {
			t.Errorf("behind %s: got %q, want %q", command, got, before)
		}
	}
	if log := stderr.String(); !strings.Contains(log, "sh: its changed program cannot be started, and the earlier one goes on") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	put(t, "baton.yaml", "agents:\n  sh: {command: [/bin/sh, agent.sh]}\nmcp:\n  files: {command: [no-other-server]}\n")
	must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	stderr.until(t, "files: its changed program cannot be started, and the earlier one goes on")
	put(t, "new.sh", `read a; echo '{"id":1,"result":{"protocol":1,"agent":{}}}'; read b; echo '{"id":2,"result":"from '$0 $$'"}'; cat >/dev/null`)
	declare("[/bin/sh, new.sh]")
	must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	stderr.until(t, "reloaded")
	if got := answer(); !strings.Contains(got, "from new.sh") {
		t.Errorf("got %q", got)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, stderr.String())
	}
}
