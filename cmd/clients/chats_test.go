package clients

import "testing"

// The chats that people build of assistant-ui and of CopilotKit do on Baton what they promise, in a browser.
func TestChats(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	needs(t, "chats")
	s := start(t, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
	judge(t, "chats", "chats.mjs", nil, "BATON_URL="+s.url(""), chromium)
}
