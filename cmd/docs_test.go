package cmd_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Most PostgreSQL servers have no TLS, which the driver demands unless the URL says otherwise.
func TestDocs_DatabaseURLsHaveSSLMode(t *testing.T) {
	files := []string{"../README.md"}
	if err := filepath.WalkDir("../docs", func(path string, e fs.DirEntry, err error) error {
		files = append(files, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	address, found := regexp.MustCompile(`postgres://[\w$][^\s'"`+"`"+`]*`), 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, syscall.EISDIR) {
			t.Fatal(err)
		}
		for _, url := range address.FindAllString(string(text), -1) {
			if found++; !strings.Contains(url, "sslmode=") {
				t.Errorf("%s: %s has no sslmode", file, url)
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d URLs", found)
	}
}

func TestDocs_ExamplesHaveNoErrors(t *testing.T) {
	text, err := os.ReadFile("../docs/agents.md")
	must(t, err)
	patterns, err := os.ReadFile("../docs/orchestration.md")
	must(t, err)
	t.Chdir(t.TempDir())
	if err := os.Mkdir("notes", 0o700); err != nil { // a context directory
		t.Fatal(err)
	}
	for _, name := range []string{"OPENAI_API_KEY", "WRITER_TOKEN", "DOCS_TOKEN", "FILES_TOKEN"} {
		t.Setenv(name, "secret")
	}
	blocks := slices.Concat(strings.Split(string(text), "```yaml\n")[1:], strings.Split(string(patterns), "```yaml\n")[1:])
	if len(blocks) < 10 {
		t.Fatalf("there are %d examples", len(blocks))
	}
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		put(t, "baton.yaml", example)
		if r := baton(t.Context(), "check"); r.code != 0 {
			t.Errorf("%s\n%s%s", example, r.stdout, r.stderr)
		}
	}
}
