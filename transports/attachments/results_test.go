package attachments_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage/blob"
	"github.com/batonrun/baton/storage/postgrestest"
)

// dump is a tool with a result of as many megabytes as it is asked for.
type dump struct{}

func (dump) Info() plugins.Info { return plugins.Info{Name: "dump"} }

func (dump) Call(_ context.Context, c *plugins.Call) (agui.ToolOutput, error) {
	var args struct{ MB int }
	err := json.Unmarshal(c.Args, &args)
	return agui.ToolOutput{ResultSummary: strings.Repeat("0123456789\n", args.MB<<20/11)}, err
}

// dumps is a workflow that uses it.
var dumps = plugins.Workflow{Name: "dumps", Nodes: []plugins.Node{
	{ID: "dumped", Tool: "dump", Input: `{"mb": 2}`},
	{ID: "told", Agent: "scripted", Needs: []string{"dumped"}, Input: `"{}"`},
}}

// A large result is a file of its run: for those who see the run, outside the quota, and gone with it.
func TestResult_IsAFileOfItsRun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg, database := attach.Config{Files: 1, Blobs: blob.NewDirectory(dir)}, ""
			stored := func() (n int) {
				_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, _ error) error {
					if d != nil && d.Type().IsRegular() {
						n++
					}
					return nil
				})
				return n
			}
			if name == "postgres" {
				cfg.Blobs, database = nil, postgrestest.New(t)
				db := sqlx.MustConnect("postgres", database)
				defer db.Close()
				stored = func() (n int) {
					if err := db.Get(&n, "SELECT count(DISTINCT blob) FROM attachment_chunks"); err != nil {
						t.Error(err)
					}
					return n
				}
			}
			s := serve(t, database, cfg)
			started, err := s.Runtime.StartRun(t.Context(), s.Caller, runtime.StartRequest{
				Agent: "scripted", ThreadID: "1", Messages: []agui.Message{{Role: agui.RoleUser, Content: `{"do": [{"tool": "dump", "args": {"mb": 2}}, {"tool": "dump", "args": {"mb": 65}}]}`}},
			})
			must(t, err)
			s.Await(started.RunID, runtime.Completed)
			thread := s.send("GET", "/api/v1/threads/1/messages", "", nil)
			at := regexp.MustCompile(`The result has 2097150 bytes: GET (/api/projects/default/agent-runs/[^/]+/results/[^/ ]+)\. `).FindSubmatch(thread.Body)
			if at == nil || len(thread.Body) > 300_000 || !strings.Contains(string(thread.Body), "result_too_large") {
				t.Fatalf("%d bytes of messages: %.2000s", len(thread.Body), thread.Body)
			}
			path := string(at[1])
			got := s.send("GET", path, "", nil)
			if got.Status != 200 || string(got.Body) != strings.Repeat("0123456789\n", 2<<20/11) {
				t.Errorf("%d with %d bytes", got.Status, len(got.Body))
			}
			for header, want := range map[string]string{
				"Content-Type": "text/plain; charset=utf-8", "Content-Disposition": "attachment; filename=result.txt",
				"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff",
			} {
				if got.Header.Get(header) != want {
					t.Errorf("%s: %s", header, got.Header.Get(header))
				}
			}
			s.upload(file{"f", "a.txt", "", "the only file of the quota"})
			call := path[strings.LastIndex(path, "/")+1:]
			bob := runtime.MustCaller("default", "bob", runtime.RoleUser)
			if _, _, err := s.Runtime.Uploads.OpenResult(t.Context(), bob, started.RunID, call); !errors.Is(err, runtime.ErrRunNotFound) {
				t.Errorf("a neighbour: %v", err)
			}
			for _, path := range []string{strings.Replace(path, call, "none", 1), strings.Replace(path, "agent-runs/", "agent-runs/none", 1)} {
				if got := s.send("GET", path, "", nil); got.Status != 404 {
					t.Errorf("%s: %d", path, got.Status)
				}
			}
			if n := stored(); n != 2 {
				t.Errorf("%d files are stored, want the result and the upload", n)
			}
			if got := s.send("DELETE", "/api/v1/threads/1", "", nil); got.Status != 204 {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if n := stored(); n != 1 {
				t.Errorf("%d files are stored, want the upload alone", n)
			}
		})
	}
}

// A rerun copies a result that is a file, in the messages before the run or as the output of a node. The file is there until the rerun is deleted, too.
func TestResult_StaysForReruns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *server) {
		start := func(req runtime.StartRequest, err error) string {
			must(t, err)
			started, err := s.Runtime.StartRun(t.Context(), s.Caller, req)
			must(t, err)
			s.Await(started.RunID, runtime.Completed)
			return started.RunID
		}
		says := func(thread, script string) runtime.StartRequest {
			return runtime.StartRequest{Agent: "scripted", ThreadID: thread, Messages: []agui.Message{{Role: agui.RoleUser, Content: script}}}
		}
		start(says("said", `{"do": [{"tool": "dump", "args": {"mb": 2}}]}`), nil)
		second := start(says("said", `{"do": [{"say": "done"}]}`), nil)
		flow := start(runtime.StartRequest{WorkflowID: "dumps", ThreadID: "flow", Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}}}, nil)
		for _, c := range []struct{ origin, thread, from, shows string }{
			{second, "said", "", "/api/v1/threads/%s/messages"},
			{flow, "flow", "told", "/api/projects/default/agent-runs/%s/steps"},
		} {
			again := start(s.Runtime.Rerun(t.Context(), s.Caller, s.Caller, c.origin, runtime.RerunRequest{FromNode: c.from}))
			twice := start(s.Runtime.Rerun(t.Context(), s.Caller, s.Caller, again, runtime.RerunRequest{FromNode: c.from}))
			threads := map[string]string{}
			for _, id := range []string{again, twice} {
				run, err := s.Runtime.Runs.Get(t.Context(), s.Caller, id)
				must(t, err)
				threads[id] = run.ThreadID
			}
			if got := s.send("DELETE", "/api/v1/threads/"+c.thread, "", nil); got.Status != 204 {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			path := ""
			for _, id := range []string{again, twice} {
				of := threads[id]
				if c.from != "" {
					of = id
				}
				shown := s.send("GET", fmt.Sprintf(c.shows, of), "", nil)
				found := regexp.MustCompile(`GET (/api/projects/default/agent-runs/` + id + `/results/[^/ ]+)\. `).FindSubmatch(shown.Body)
				if found == nil {
					t.Fatalf("the rerun of %s shows no result: %.2000s", c.origin, shown.Body)
				}
				path = string(found[1])
				if got := s.send("GET", path, "", nil); got.Status != 200 || len(got.Body) != 2097150 {
					t.Errorf("the rerun's result: %d with %d bytes", got.Status, len(got.Body))
				}
				if id == again {
					s.send("DELETE", "/api/v1/threads/"+threads[id], "", nil)
				}
			}
			s.send("DELETE", "/api/v1/threads/"+threads[twice], "", nil)
			if got := s.send("GET", path, "", nil); got.Status != 404 {
				t.Errorf("a deleted rerun's result: %d", got.Status)
			}
		}
		left, err := s.Runtime.Uploads.Expire(t.Context(), "default", "", time.Now().Add(time.Hour), true)
		if err != nil || left != 0 {
			t.Errorf("%d files are left, %v", left, err)
		}
	})
}
