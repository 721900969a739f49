package cmd_test

import (
	"os"
	"strings"
	"testing"
)

func TestDocs_ExamplesHaveNoErrors(t *testing.T) {
	text, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"OPENAI_API_KEY", "WRITER_TOKEN", "DOCS_TOKEN", "FILES_TOKEN"} {
		t.Setenv(name, "secret")
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) < 3 {
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
