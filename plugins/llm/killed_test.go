package llm_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/openai"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
)

// served is the environment variable with the directory of a process started by TestAgent_SurvivesKill.
const served = "BATON_LLM_TEST_DIR"

// serve runs such a process: a runtime whose assistant calls the provider at url, and whose tools append their names to a
// file. It ends with its run.
func serve(dir, url string) error {
	m, err := openai.New(openai.Config{Model: "m", BaseURL: url + "/v1", APIKey: "key"})
	if err != nil {
		return err
	}
	a, err := llm.New(llm.Config{Name: "assistant", Model: m, Tools: []string{"*"}})
	if err != nil {
		return err
	}
	appends := func(name string, hangs bool) plugins.Plugin {
		return tool{plugins.Info{Name: name}, func(ctx context.Context, _ *plugins.Call) (string, error) {
			f, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			if _, err := fmt.Fprintln(f, name); err != nil {
				return "", err
			}
			if err := f.Close(); err != nil || !hangs {
				return name + " done", err
			}
			return "", hang(ctx)
		}}
	}
	cfg := runtime.Config{Registry: new(host.Registry), Limits: runtime.Limits{MaxAttempts: 10, Calm: -1}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if err := cfg.Registry.Add(a, appends("note", false), appends("slow", true)); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(dir, "baton.db"), Migrate: true})
	if err != nil {
		return err
	}
	cfg.Store = db
	rt, err := runtime.New(cfg)
	if err != nil {
		return err
	}
	if err := rt.Start(ctx); err != nil {
		return err
	}
	if _, err := rt.Runs.Get(ctx, local, "r"); err != nil { // the first process
		req := runtime.StartRequest{Agent: "assistant", ThreadID: "main", RunID: "r", Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}}}
		if _, err := rt.StartRun(ctx, local, req); err != nil {
			return err
		}
	}
	for {
		run, err := rt.Runs.Get(ctx, local, "r")
		if err != nil {
			return err
		}
		if run.Status.Final() {
			return rt.Shutdown(ctx)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// until polls the effects of another process.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: not yet %s", what)
		}
	}
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// A process killed inside a model call, and then inside tool calls, repeats only the interrupted model call and calls no
// tool twice.
func TestAgent_SurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	steps := []llmtest.Step{
		llmtest.Reasoning("Both."), llmtest.Text("Let me see."), llmtest.Call(0, "c0", "note"), llmtest.Call(1, "c1", "slow"),
		llmtest.Arguments(0, `{"n"`), llmtest.Arguments(1, `{"m"`), llmtest.Arguments(0, `:1}`), llmtest.Arguments(1, `:2}`),
	}
	counted := &agui.TokenUsage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}
	provider := llmtest.New(llmtest.Each(
		llmtest.Script{Steps: append(slices.Clone(steps[:6]), llmtest.Stall(nil))},
		llmtest.Script{Steps: steps, Usage: counted},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("done")}, Usage: counted},
	))
	defer provider.Close()
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], provider.URL)
		cmd.Env, cmd.Stderr = append(os.Environ(), served+"="+dir), t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(cmd) })
		return cmd
	}
	tools := func() string {
		text, _ := os.ReadFile(filepath.Join(dir, "calls"))
		names := strings.Fields(string(text))
		slices.Sort(names)
		return strings.Join(names, " ")
	}

	first := start()
	until(t, "the model is asked", func() bool { return len(provider.Requests()) == 1 })
	until(t, "the call is stored", func() bool { return stored(filepath.Join(dir, "baton.db"), "prompts") == 1 })
	kill(first)
	second := start()
	until(t, "the tools are called", func() bool { return tools() == "note slow" })
	kill(second)
	if err := start().Wait(); err != nil {
		t.Fatal(err)
	}
	if n := len(provider.Requests()); n != 3 || tools() != "note slow" {
		t.Errorf("the provider was asked %d times, the tools %q were called", n, tools())
	}

	b := &bench{t: t, path: filepath.Join(dir, "baton.db"), cfg: runtime.Config{Registry: new(host.Registry)}}
	b.up()
	defer func() { b.down(b.Runtime, b.close) }()
	run := b.wait("r", runtime.Completed)
	if *run.OutputSummary != "done" || len(run.Usage) != 1 || run.Usage[0].TotalTokens != 30 {
		t.Errorf("answer %q, usage %+v", *run.OutputSummary, run.Usage)
	}
	calls := b.modelCalls("r")
	for i, want := range []string{agui.ModelInterrupted, agui.ModelFinished, agui.ModelFinished} {
		if c := calls[i]; len(calls) != 3 || c.Status != want || c.Sent == "" {
			t.Errorf("%d calls of models, call %d is %+v", len(calls), i, c)
		}
	}
	evs := b.events()
	got := shown(evs)
	if !strings.Contains(got, `calls slow{"m":2} = interrupted`) || !strings.Contains(got, `calls note{"n":1} = `) || !strings.HasSuffix(got, "assistant done") {
		t.Errorf("shown\n%s", got)
	}
	if body := string(provider.Requests()[2].Body); strings.Count(body, "Let me see.") > 2 || !strings.Contains(body, "interrupted") || strings.Count(body, `"reasoning_content":"Both."`) != 1 {
		t.Errorf("the model is asked %s", body)
	}
}

// stored returns how many rows a table of a database that is in use has.
func stored(path, table string) (n int) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return 0
	}
	defer func() { _ = db.Close() }()
	_ = db.QueryRow("SELECT count(*) FROM " + table).Scan(&n) // the table may not be there yet
	return n
}
