package work

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A log line about a run names the run and its thread: it is written with log or about, not with the engine's own logger.
func TestLinesAboutRunsNameThem(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	of, failed := filepath.Glob("../exec/*.go")
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(\w+)\.[Ll]og\.(?:Error|Warn|Info|Debug)\("([^"]*)"`)
	found := 0
	for _, name := range slices.Concat(files, of) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			found++
			for _, of := range []string{"run", "interrupt", "agent", "tool", "step"} {
				if strings.Contains(m[2], of) {
					t.Errorf("%s: %q does not say of which run", name, m[2])
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d lines were found", found)
	}
}
