package exec

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/journal"
)

// The table of sizes in docs/protocol.md has the limits of a run as they are in the code.
func TestProtocol_TellsTheLimitsOfARun(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := make(map[string]string)
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && strings.HasPrefix(line, "| ") {
			defaults[strings.TrimPrefix(cells[0], "| ")] = strings.ReplaceAll(cells[1], "\u00a0", " ")
		}
	}
	for limit, want := range map[string]string{
		"open things of a run: sub-agents, steps, messages, reasoning, calls without a result (which count twice)": grouped(agui.MaxOpen) + ", with ids of up to 1 KiB",
		"sub-agents of a run at once, for each depth; tool calls likewise; depth of sub-agents":                    fmt.Sprintf("%d; %d; %d", maxSubagents, plugins.MaxCalls, calls.MaxDepth),
		"operations of a patch; bytes that it reads, compares, moves and copies":                                   grouped(agui.MaxOperations) + "; 32 MiB",
		"open questions of a run; one question":                                                                    fmt.Sprintf("%s, of %d MiB in all; %d KiB", grouped(agui.MaxOpen), journal.MaxQuestions>>20, journal.MaxQuestion>>10),
		"questions of one tool call":                                                                               fmt.Sprint(maxAsked),
		"records of a run":                                                                                         grouped(journal.MaxRecords),
	} {
		if got := defaults[limit]; got != want {
			t.Errorf("%s: the table says %q, want %q", limit, got, want)
		}
	}
}

// grouped writes a number of thousands as the page does.
func grouped(n int) string { return fmt.Sprintf("%d %03d", n/1000, n%1000) }
