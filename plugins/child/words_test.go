package child

import "testing"

func TestWords_LeaveOutFrames(t *testing.T) {
	t.Parallel()
	var w words
	for _, line := range []string{"starting", "Traceback (most recent call last):", "  File x", "    call()", "", "KeyError: 'TOKEN'", "}", "Node.js v20"} {
		w.add(line)
	}
	if got, want := w.String(), "Traceback (most recent call last):; KeyError: 'TOKEN'; Node.js v20"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
