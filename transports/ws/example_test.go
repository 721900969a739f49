package ws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/ws"
)

// A server with one agent, and a client that starts a run and watches its thread on the same socket.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "baton")
	defer os.RemoveAll(dir)
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(dir, "baton.db"), Migrate: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	agents := new(host.Registry)
	_ = agents.Add(echo.Agent{})
	rt, err := runtime.New(runtime.Config{Store: db, Registry: agents})
	if err != nil {
		panic(err)
	}
	if err := rt.Start(ctx); err != nil {
		panic(err)
	}

	streams := transports.NewStreams(transports.StreamConfig{Runtime: rt})
	server, err := transports.New(
		transports.Config{Runtime: rt, Streams: streams, Listen: "127.0.0.1:0"},
		ws.Transport{Runtime: rt, Streams: streams},
	)
	if err != nil {
		panic(err)
	}
	ln, err := server.Listen(ctx)
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Shutdown

	dialer := websocket.Dialer{Subprotocols: []string{"baton.v1"}}
	c, resp, err := dialer.Dial("ws://"+server.Addr()+"/api/v1/ws", nil)
	if err != nil {
		panic(err)
	}
	_ = resp.Body.Close()
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op": "run", "ref": 1, "agent": "echo", "threadId": "main", "content": "hello"}`))
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op": "subscribe", "ref": 2, "threadId": "main"}`))
	for ended := false; !ended; {
		var frame struct {
			Op    string
			Ref   int
			ID    int
			Event struct{ Type string }
		}
		_, text, err := c.ReadMessage()
		if err != nil || json.Unmarshal(text, &frame) != nil {
			panic(err)
		}
		if frame.Op == "ack" {
			fmt.Println("ack", frame.Ref)
		} else {
			fmt.Println(frame.ID, frame.Event.Type)
		}
		ended = frame.Event.Type == "RUN_FINISHED"
	}
	_ = c.Close()

	_ = rt.Shutdown(ctx) // first: what runs is watched to its end
	_ = server.Shutdown(ctx)
	// Output:
	// ack 1
	// ack 2
	// 1 RUN_STARTED
	// 2 STEP_STARTED
	// 3 TEXT_MESSAGE_START
	// 4 TEXT_MESSAGE_CONTENT
	// 5 TEXT_MESSAGE_END
	// 6 STEP_FINISHED
	// 7 RUN_FINISHED
}
