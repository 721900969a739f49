package cmd_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/builtin"
)

const script = `{"do": [{"reason": "let me see"}, {"say": "hello <world>"}, {"tool": "calculator", "args": {"expression": "6*7"}}, ` +
	`{"tool": "fail", "args": {"message": "no luck"}}, {"state": {"n": 1}}, {"progress": 0.5, "message": "half"}, {"say": "done"}]}`

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	took  = regexp.MustCompile(`(in|after) [0-9.]+m?s`)
	aTime = regexp.MustCompile(`"timestamp":[0-9]+`)
)

// plain returns text with ids numbered in the order they appear, and without times.
func plain(text string) string {
	names := map[string]string{}
	text = uuids.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			names[id] = fmt.Sprintf("<id %d>", len(names)+1)
		}
		return names[id]
	})
	text = aTime.ReplaceAllString(text, `"timestamp":<ms>`)
	return took.ReplaceAllString(text, "$1 <time>")
}

func TestRun_SameOutputInProcessAndAsClient(t *testing.T) {
	for _, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			piped := baton(t.Context(), "run", "--database", db, "scripted", script).want(t, 0)
			golden(t, "run.jsonl", plain(piped.stdout))
			text := baton(t.Context(), "run", "--database", db, "-o", "text", "scripted", script).want(t, 0)
			golden(t, "run.txt", plain(text.stdout))
			if piped.stderr+text.stderr != "" {
				t.Errorf("standard error: %s%s", piped.stderr, text.stderr)
			}
		})
	}
}

func TestRun_ExitCodeIsOutcome(t *testing.T) {
	db := database(t)
	for _, local := range []bool{true, false} {
		if !local {
			serve(t, db)
		}
		for _, c := range []struct {
			script, want string
			code         int
		}{
			{`{"do": [{"fail": "boom", "code": "x"}]}`, "boom (x)", 1},
			{`{"do": [{"ask": {"message": "Deploy?"}}]}`, "? Deploy?", 0},
			{`{"do": [{"say": "well"}]}`, "completed", 0},
		} {
			r := baton(t.Context(), "run", "--database", db, "-o", "text", "scripted", c.script).want(t, c.code)
			if !strings.Contains(r.stdout, c.want) {
				t.Errorf("no %q in %q", c.want, r.stdout)
			}
		}
		if r := baton(t.Context(), "run", "--database", db, "nobody", "hello").want(t, 1); !strings.Contains(r.stderr, `There is no agent or workflow "nobody"`) {
			t.Errorf("an unknown agent: %q", r.stderr)
		}
	}
}

func TestRun_ContinuesThread(t *testing.T) {
	db := database(t)
	serve(t, db)
	for i := range 2 {
		r := baton(t.Context(), "run", "--database", db, "--thread", "mine", "echo", "word").want(t, 0)
		if first := fmt.Sprintf(`{"id":%d,"event":{"type":"RUN_STARTED","threadId":"mine"`, 7*i+1); !strings.HasPrefix(r.stdout, first) {
			t.Errorf("want %s, got %s", first, r.stdout)
		}
	}
	r := baton(t.Context(), "run", "--database", db, "demo", "cats").want(t, 0)
	if !strings.Contains(r.stdout, `"stepName":"review"`) {
		t.Errorf("the workflow's run: %s", r.stdout)
	}
}

func TestRun_InterruptCancels(t *testing.T) {
	for _, where := range []string{"in process", "as a client"} {
		t.Run(where, func(t *testing.T) {
			db := database(t)
			if where == "as a client" {
				serve(t, db)
			}
			var out, stderr output
			p := cmd.Program{
				Plugins: builtin.Plugins(), Stdout: &out, Stderr: &stderr,
				Args: []string{"run", "--database", db, "scripted", `{"do": [{"say": "hi"}, {"tool": "sleep", "args": {"ms": 60000}}]}`},
			}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			code := make(chan int, 1)
			go func() { code <- p.Run(ctx) }()
			out.until(t, "TOOL_CALL_END")
			interrupt()
			if got := <-code; got != 130 {
				t.Errorf("exit code %d, want 130\n%s", got, &stderr)
			}
			if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); !strings.Contains(lines[len(lines)-1], `"code":"CANCELLED"`) {
				t.Errorf("the last line is %s", lines[len(lines)-1])
			}
		})
	}
}

func TestRun_SurvivesServerRestart(t *testing.T) {
	db, addr := database(t), cmdtest.Address()
	s := serve(t, db, addr)
	var out, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Stdout: &out, Stderr: &stderr,
		Args: []string{"run", "--server", s.URL(), "scripted", `{"do": [{"say": "one"}, {"tokens": 40, "delayMs": 25}, {"say": "last"}]}`},
	}
	code := make(chan int, 1)
	go func() { code <- p.Run(t.Context()) }()
	out.until(t, "TEXT_MESSAGE_CONTENT")
	stop(t, s)
	serve(t, db, addr)
	select {
	case got := <-code:
		if got != 0 {
			t.Fatalf("exit code %d\n%s\n%s", got, &stderr, &out)
		}
	case <-time.After(10 * time.Minute):
		t.Fatalf("still running\n%s", &out)
	}
	id := 0
	for line := range strings.Lines(out.String()) {
		id++
		if !strings.HasPrefix(line, fmt.Sprintf(`{"id":%d,`, id)) {
			t.Fatalf("line %d is %s", id, line)
		}
	}
	if !strings.Contains(out.String(), `"delta":"last"`) {
		t.Errorf("the end is missing:\n%s", &out)
	}
}

func TestRun_OnPostgreSQLNeedsServer(t *testing.T) {
	r := baton(t.Context(), "run", "--listen", cmdtest.Address(), "--database", "postgres://nobody@127.0.0.1:1/none", "echo", "x").want(t, 1)
	if !strings.Contains(r.stderr, "this command needs a server") {
		t.Errorf("got %q", r.stderr)
	}
}
