package clients

import (
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
)

// Chats built with assistant-ui and CopilotKit work on Baton, in a browser.
func TestChats(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	needs(t, "chats")
	page := "http://" + cmdtest.Address() // for the script's server
	s := start(t, "BATON_ORIGINS="+page, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
	judge(t, "chats", "chats.mjs", nil, "BATON_URL="+s.url(""), "PAGE="+page, chromium)
}
