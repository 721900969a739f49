package clients

import (
	"net"
	"testing"
)

// Chats built with assistant-ui and CopilotKit work on Baton, in a browser.
func TestChats(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	needs(t, "chats")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	page := "http://" + ln.Addr().String()
	_ = ln.Close() // for the script's server
	s := start(t, "BATON_ORIGINS="+page, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
	judge(t, "chats", "chats.mjs", nil, "BATON_URL="+s.url(""), "PAGE="+page, chromium)
}
