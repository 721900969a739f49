package document_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/config/document"
)

func read(t *testing.T, text string) error {
	t.Helper()
	name := filepath.Join(t.TempDir(), "baton.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := document.Read(name)
	return err
}

func TestRead_ExplainsErrorsWithLine(t *testing.T) {
	long := "# " + strings.Repeat("x", 3<<20) + "\n"
	for name, tc := range map[string]struct {
		text string
		line int
		want string
	}{
		"indentation":      {"agents:\n  a:\n    provider: openai\n   model: x\n", 4, "indentation"},
		"first line":       {" agents:\n  a: {provider: ollama}\nmcp: {}\n", 3, "indentation"},
		"tab":              {"agents:\n\ta:\n\t\tprovider: openai\n", 2, "use spaces"},
		"colon":            {"agents:\n  a:\n    provider: ollama\n    system: Answer: briefly\n", 4, "in quotes"},
		"variable":         {"agents:\n  b: {}\n  a: {provider: ollama, api_key: ${KEY}}\nmcp: {}\n", 3, "${…} within braces is not in quotes"},
		"brace":            {"agents:\n  a: {provider: ollama, tools: [calculator}\n", 2, "is not closed"},
		"brace far above":  {"agents:\n  a: {provider: ollama,\nmcp:\n  b: {url: x}\n", 2, "is not closed"},
		"quote":            {"# why\n\nagents:\n  a: {system: \"hello}\n  b: {}\n", 4, "a quote is not closed"},
		"lists in lines":   {"a:\n  - x\n  y: z\n", 3, "indentation"},
		"backslash":        {"a: 1\nb: \"C:\\Users\"\n", 2, "single quotes"},
		"percent":          {"a: 1\nb: @home\n", 2, "in quotes"},
		"control":          {"a: 1\nb: \"x\x00\"\n", 2, "no text"},
		"latin 1":          {"a: 1\nb: caf\xe9\n", 2, "UTF-8"},
		"two documents":    {"a: 1\n---\nb: 1\n", 2, "want one YAML document"},
		"unknown alias":    {"a: 1\nb: *c\n", 2, "unknown anchor"},
		"too large":        {long + long, 0, "larger than 4 MiB"},
		"large and broken": {long + "a:\n\tb: 1\n", 3, "use spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			e, ok := errors.AsType[*document.Error](read(t, tc.text))
			if !ok || !strings.Contains(e.Message, tc.want) || e.Line != tc.line {
				t.Errorf("got %v, want line %d and %q", e, tc.line, tc.want)
			}
		})
	}
}

func TestRead_AcceptsEditorsOutput(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "\ufeffa: 1\n", "a: 1\r\nb:\r\n  c: 2\r\n", "---\na: 1\n", "{\"a\": 1}", "a: 1", "a:\n"} {
		if err := read(t, text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := document.Read(filepath.Join(t.TempDir(), "gone.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := document.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a directory: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("agents:\n  a: {provider: ollama}\n")
	f.Add("a: [\n\tb: \"")
	f.Fuzz(func(t *testing.T, text string) {
		err := read(t, text)
		if e, ok := errors.AsType[*document.Error](err); err != nil && (!ok || e.Message == "" || e.Line > strings.Count(text, "\n")+1) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
