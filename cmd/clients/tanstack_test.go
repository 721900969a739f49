package clients

import "testing"

// TanStack AI's client chats, is reloaded in mid-run and before a run, comes back to a stream that was cut, answers what it was asked
// before, and approves calls.
func TestTanStack(t *testing.T) {
	t.Parallel()
	needs(t, "tanstack")
	judge(t, "tanstack", "chat.mjs", nil, "BATON_URL="+startProgram(t, testBinary, "BATON_LIMITS_RUNS=1").url(""))
}
