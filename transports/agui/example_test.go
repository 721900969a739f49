package agui_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/agui"
)

// A server with one agent, and a client that runs it and then joins the thread that this left.
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
		agui.Transport{Runtime: rt, Streams: streams},
	)
	if err != nil {
		panic(err)
	}
	ln, err := server.Listen(ctx)
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Shutdown

	for _, path := range []string{"/api/v1/agui/echo", "/api/v1/agui/echo/connect"} {
		body := strings.NewReader(`{"threadId": "main", "messages": [{"id": "1", "role": "user", "content": "hello"}]}`)
		resp, err := http.Post("http://"+server.Addr()+path, "application/json", body)
		if err != nil {
			panic(err)
		}
		fmt.Println(path)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				fmt.Println("  " + event)
			}
		}
		_ = resp.Body.Close()
	}

	_ = rt.Shutdown(ctx) // first: what runs is watched to its end
	_ = server.Shutdown(ctx)
	// Output:
	// /api/v1/agui/echo
	//   RUN_STARTED
	//   STATE_SNAPSHOT
	//   STEP_STARTED
	//   TEXT_MESSAGE_START
	//   TEXT_MESSAGE_CONTENT
	//   TEXT_MESSAGE_END
	//   STEP_FINISHED
	//   RUN_FINISHED
	// /api/v1/agui/echo/connect
	//   RUN_STARTED
	//   STATE_SNAPSHOT
	//   MESSAGES_SNAPSHOT
	//   RUN_FINISHED
}
