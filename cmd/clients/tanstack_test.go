package clients

import "testing"

// TanStack AI's client chats, is reloaded in mid-run, comes back to a stream that was cut, and answers what it was asked before.
func TestTanStack(t *testing.T) {
	t.Parallel()
	needs(t, "tanstack")
	judge(t, "tanstack", "chat.mjs", nil, "BATON_URL="+start(t).url(""))
}
