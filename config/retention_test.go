package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestRetention_OfProjects(t *testing.T) {
	for text, want := range map[string]any{
		"retention:\n  runs: 90\n  projects:\n    p.1: {runs: 7, audit: 0}\n    q: {events: 3}\n": map[string]Retention{
			"p.1": {Runs: 7}, "q": {Runs: 90, Events: 3, Audit: 90},
		},
		"retention:\n  projects: [p.events=4]\n":         map[string]Retention{"p": {Events: 4, Audit: 90}},
		"retention:\n  projects: {p: {run: 7}}\n":        "did you mean runs?",
		"retention:\n  projects: {p: {runs: -1}}\n":      "want a number of days",
		"retention:\n  projects: {p: 7}\n":               "one section",
		"retention:\n  projects: [p.runs=1, p.runs=2]\n": "is set twice",
		"retention:\n  runs: -3\n":                       "retention.runs: want a number of days",
		"retention:\n  projects: [runs=1]\n":             "such as p1.runs=30",
	} {
		cfg, err := loadText(t, text)
		if says, wrong := want.(string); wrong {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", text, err, says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := cfg.Retention.OfProjects()
		if diff := cmp.Diff(want, any(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
}

// loadText loads the settings of a file.
func loadText(t *testing.T, text string) (Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "baton.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	return Load(fs)
}
