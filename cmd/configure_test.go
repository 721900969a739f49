package cmd_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

func TestConfig_FlagsOverrideEnvironmentOverridesFile(t *testing.T) {
	t.Chdir(t.TempDir())
	file := "listen: 127.0.0.1:1\nlog:\n  level: error\n  format: json\nlimits:\n  runs: 7\n"
	must(t, os.WriteFile("baton.yaml", []byte(file), 0o600))
	t.Setenv("BATON_LISTEN", "127.0.0.1:2")
	t.Setenv("BATON_LOG_LEVEL", "warn")
	got := baton(t.Context(), "config", "--listen", "127.0.0.1:3").want(t, 0).stdout
	for _, want := range []string{
		"listen: 127.0.0.1:3\n",       // the flag's
		"  level: WARN\n",             // the environment's
		"  format: json\n",            // the file's
		"  runs: 7\n",                 // the file's
		"database: sqlite:baton.db\n", // the default
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestConfig_PrintsCapacity(t *testing.T) {
	t.Chdir(t.TempDir())
	got := baton(t.Context(), "config").want(t, 0).stdout
	for _, want := range []string{fmt.Sprintf("  runs: %d\n", runtime.Carried()), fmt.Sprintf("  runs_bytes: %dMiB\n", runtime.CarriedBytes()>>20)} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestConfig_MasksSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BATON_DATABASE", "postgres://baton:geheim@db.example.com/baton")
	r := baton(t.Context(), "config").want(t, 0)
	if strings.Contains(r.stdout+r.stderr, "geheim") || !strings.Contains(r.stdout, "postgres://baton:xxxxx@db.example.com/baton") {
		t.Errorf("got %s%s", r.stdout, r.stderr)
	}
}

func TestConfig_OutputIsSettingsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	first := baton(t.Context(), "config", "--log-level", "debug").want(t, 0).stdout
	must(t, os.WriteFile("printed.yaml", []byte(first), 0o600))
	if again := baton(t.Context(), "config", "--config", "printed.yaml").want(t, 0).stdout; again != first {
		t.Errorf("got\n%s\nwant\n%s", again, first)
	}
}
