package cmd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func TestWatch_FollowsRunThroughAnswer(t *testing.T) {
	s := serve(t, database(t))
	t.Setenv("BATON_URL", s.URL())
	baton(t.Context(), "run", "--server", s.URL(), "echo", "before", "--thread", "t1").want(t, 0)
	id := strings.TrimSpace(baton(t.Context(), "run", "--server", s.URL(), "--detach", "--thread", "t1", "scripted",
		`{"do": [{"say": "one"}, {"ask": {"message": "Deploy?"}}, {"say": "two"}]}`).want(t, 0).stdout)
	var out, stderr output
	p := cmd.Program{Plugins: builtin.Plugins(), Stdout: &out, Stderr: &stderr, Args: []string{"watch", id, "-o", "text"}}
	code := make(chan int, 1)
	go func() { code <- p.Run(t.Context()) }()
	out.until(t, "? Deploy?")
	baton(t.Context(), "answer", id, "--payload", "1").want(t, 0)
	if got := <-code; got != 0 || strings.Contains(out.String(), "before") || !strings.Contains(out.String(), "two\ncompleted in ") {
		t.Errorf("exit code %d\n%s%s", got, &out, &stderr)
	}

	var doc struct {
		Run    struct{ ID, Status string }
		Events []struct {
			EventID int64 `json:"event_id"`
			Event   struct{ Type string }
		}
	}
	must(t, json.Unmarshal([]byte(baton(t.Context(), "runs", "export", id).want(t, 0).stdout), &doc))
	if last := doc.Events[len(doc.Events)-1]; doc.Run.ID != id || doc.Run.Status != "COMPLETED" || last.Event.Type != "RUN_FINISHED" || last.EventID == 0 {
		t.Errorf("got %+v", doc)
	}

	failed := strings.TrimSpace(baton(t.Context(), "run", "--server", s.URL(), "-d", "scripted", `{"do": [{"fail": "boom"}]}`).want(t, 0).stdout)
	if r := baton(t.Context(), "watch", failed, "-o", "text").want(t, 1); !strings.Contains(r.stdout, "boom (failed)") {
		t.Errorf("got %q", r.stdout)
	}
	baton(t.Context(), "watch", "nobody").want(t, 1)
	baton(t.Context(), "run", "--detach", "--database", database(t), "echo", "x").want(t, 1)
}

func TestCatalog_SameWithoutServer(t *testing.T) {
	t.Chdir(t.TempDir())
	db := database(t)
	for _, serving := range []bool{false, true} {
		if serving {
			serve(t, db)
		}
		agents := baton(t.Context(), "agents", "--database", db).want(t, 0).stdout
		if row(agents, "echo") == nil || row(agents, "demo") != nil {
			t.Errorf("got\n%s", agents)
		}
		if flows := baton(t.Context(), "workflows", "--database", db).want(t, 0).stdout; !strings.Contains(flows, "review") || row(flows, "demo") == nil {
			t.Errorf("got\n%s", flows)
		}
		if r := baton(t.Context(), "__complete", "run", "--database", db, "").want(t, 0); !strings.Contains(r.stdout, "echo\t") || !strings.Contains(r.stdout, "demo\t") {
			t.Errorf("completes\n%s", r.stdout)
		}
	}
}

func TestHelp_ShowsOnlyFlagsThatMatter(t *testing.T) {
	for name, want := range map[string]string{
		"backup": "config database", "keys list": "config database", "health": "config listen server timeout tls-cert tls-key",
		"agents": "config database json listen project server tls-cert tls-key token",
	} {
		var got []string
		for line := range strings.Lines(baton(t.Context(), append(strings.Fields(name), "--help")...).want(t, 0).stdout) {
			if _, flag, ok := strings.Cut(line, "--"); ok && strings.HasPrefix(strings.TrimLeft(line, " -h,"), flag) {
				got = append(got, strings.Fields(flag)[0])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has the flags %q, want %q", name, got, want)
		}
	}
	t.Setenv("BATON_LISTEN", "0.0.0.0:8080") // serve needs --insecure
	baton(t.Context(), "agents", "--database", database(t)).want(t, 0)
}
