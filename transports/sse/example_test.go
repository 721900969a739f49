package sse_test

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
	"github.com/batonrun/baton/transports/sse"
)

// A server with one agent, and a client that starts a run and watches it in the same request.
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
		sse.Transport{Runtime: rt, Streams: streams},
	)
	if err != nil {
		panic(err)
	}
	ln, err := server.Listen(ctx)
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Shutdown

	req, _ := http.NewRequest(http.MethodPost, "http://"+server.Addr()+"/api/v1/agent/runs", strings.NewReader(`{"agent": "echo", "content": "hello"}`))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			fmt.Println(event)
		}
	}
	_ = resp.Body.Close()

	_ = rt.Shutdown(ctx) // first: what runs is watched to its end
	_ = server.Shutdown(ctx)
	// Output:
	// RUN_STARTED
	// STATE_SNAPSHOT
	// STEP_STARTED
	// TEXT_MESSAGE_START
	// TEXT_MESSAGE_CONTENT
	// TEXT_MESSAGE_END
	// STEP_FINISHED
	// RUN_FINISHED
}
