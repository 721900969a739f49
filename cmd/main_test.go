package cmd_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

// result is the result of a command.
type result struct {
	code           int
	stdout, stderr string
}

// baton runs the command in process.
func baton(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	p := cmd.Program{Plugins: builtin.Plugins(), Args: args, Stdout: &stdout, Stderr: &stderr}
	code := p.Run(ctx)
	return result{code, stdout.String(), stderr.String()}
}

// want fails the test unless the command ended with the code.
func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// database names a new SQLite database.
func database(t *testing.T) string {
	t.Helper()
	return "sqlite:" + sqlitetest.New(t)
}

// serve starts a server in process, on a free port or on the address given.
func serve(t *testing.T, db string, listen ...string) *cmd.Server {
	t.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.Database = "127.0.0.1:0", db
	if len(listen) > 0 {
		cfg.Listen = listen[0]
	}
	s, err := cmd.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)), builtin.Plugins()...)
	must(t, err)
	t.Cleanup(func() { stop(t, s) })
	return s
}

// stop stops a server without waiting for its runs. Stopping it again does nothing.
func stop(t *testing.T, s *cmd.Server) {
	t.Helper()
	ended, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_ = s.Shutdown(ended) // reports that it did not wait
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// output collects the output of a command while a test reads it.
type output struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until waits until the output contains text.
func (o *output) until(t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Minute); !strings.Contains(o.String(), text); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in:\n%s", text, o)
		}
	}
}

func TestProgram_UsageErrorsExitWith2(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"serve --nonsense", "baton: unknown flag: --nonsense\n"},
		{"serv", "baton: there is no command \"serv\"; did you mean serve?\n"},
		{"chekc", "baton: there is no command \"chekc\"; did you mean check?\n"},
		{"serve extra", "baton: unknown command \"extra\" for \"baton serve\"\n"},
		{"run echo", "baton: run takes NAME TEXT…; see baton run --help\n"},
		{"backup", "baton: backup takes DEST; see baton backup --help\n"},
		{"run -o yaml echo hello", "baton: --output: want text, json or auto, got \"yaml\"\n"},
		{"config --log-level loud", "baton: --log-level: want debug, info, warn or error, got \"loud\"\n"},
		{"config --config nowhere.yaml", "baton: open nowhere.yaml: no such file or directory\n"},
	} {
		t.Chdir(t.TempDir())
		if r := baton(t.Context(), strings.Fields(c.args)...).want(t, 2); r.stderr != c.want || r.stdout != "" {
			t.Errorf("baton %s\n got %q %q\nwant %q", c.args, r.stdout, r.stderr, c.want)
		}
	}
}

func TestServe_PublicAddressNeedsInsecure(t *testing.T) {
	r := baton(t.Context(), "serve", "--listen", "0.0.0.0:0", "--database", database(t)).want(t, 2)
	if !strings.Contains(r.stderr, "--insecure") || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("got %q", r.stderr)
	}
}

func TestVersion(t *testing.T) {
	want := "baton "
	for _, args := range []string{"version", "--version"} {
		r := baton(t.Context(), args).want(t, 0)
		if !strings.HasPrefix(r.stdout, want) || !strings.HasSuffix(r.stdout, ")\n") {
			t.Errorf("%s: got %q", args, r.stdout)
		}
		want = r.stdout
	}
}

func TestHelp_ListsCommands(t *testing.T) {
	r := baton(t.Context()).want(t, 0)
	for _, name := range []string{"serve", "run", "mcp", "migrate", "backup", "config", "health", "version"} {
		if !strings.Contains(r.stdout, "\n  "+name+" ") {
			t.Errorf("no %s in the help:\n%s", name, r.stdout)
		}
	}
}
