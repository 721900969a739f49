package clients

import (
	"net"
	"testing"
)

// The chats that people build of assistant-ui and of CopilotKit do on Baton what they promise, in a browser.
func TestChats(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	needs(t, "chats")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	page := "http://" + ln.Addr().String()
	_ = ln.Close() // the script serves there
	s := start(t, "BATON_ORIGINS="+page, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
	judge(t, "chats", "chats.mjs", nil, "BATON_URL="+s.url(""), "PAGE="+page, chromium)
}
