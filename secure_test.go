package baton_test

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/certs/certstest"
)

// TestSocketsWorkOverTLS upgrades a request, answers pings, and leaves: the socket's run ends with it.
func TestSocketsWorkOverTLS(t *testing.T) {
	dir := t.TempDir()
	pool := certstest.Write(t, dir, "test", time.Now().Add(time.Hour))
	s := open(t, baton.Config{
		Listen: "127.0.0.1:0", TLS: baton.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")},
		Timeouts: baton.Timeouts{OnDisconnectGrace: 50 * time.Millisecond}, Stream: baton.Stream{Ping: 100 * time.Millisecond, WriteTimeout: time.Second},
	})
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: pool}}
	c, res, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(s.URL(), "https")+"/api/v1/agui/scripted/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = res.Body.Close()
	pinged := make(chan struct{}, 100)
	pong := c.PingHandler()
	c.SetPingHandler(func(data string) error {
		pinged <- struct{}{}
		return pong(data)
	})
	input := `{"threadId":"main","messages":[{"id":"1","role":"user","content":"{\"do\":[{\"say\":\"hello\"},{\"tool\":\"sleep\",\"args\":{\"ms\":3600000}}]}"}]}`
	if err := c.WriteMessage(websocket.TextMessage, []byte(input)); err != nil {
		t.Fatal(err)
	}
	read(t, c, "TEXT_MESSAGE_CONTENT")
	read(t, c, "TOOL_CALL_END")
	go func() { _, _, _ = c.ReadMessage() }() // ends with the socket; it answers pings
	for range 15 {                            // and stays for longer than a write may take
		<-pinged
	}
	await(t, s, runtime.Running)
	_ = c.Close()
	await(t, s, runtime.Cancelled)
}
