package clients

import "testing"

// TanStack AI's client chats, reloads during and before a run, resumes a cut stream, answers earlier questions, and approves calls.
func TestTanStack(t *testing.T) {
	t.Parallel()
	needs(t, "tanstack")
	judge(t, "tanstack", "chat.mjs", nil, "BATON_URL="+startProgram(t, testBinary, "BATON_LIMITS_RUNS_PER_PROJECT=1").url(""))
}
