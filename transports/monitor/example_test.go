package monitor_test

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
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/monitor"
)

// A server with one agent, and a client that sees what the agent does, whoever has started it.
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
		monitor.Transport{Runtime: rt, Streams: streams},
	)
	if err != nil {
		panic(err)
	}
	ln, err := server.Listen(ctx)
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(ln) }() // ends with Shutdown

	resp, err := http.Get("http://" + server.Addr() + "/api/v1/events")
	if err != nil {
		panic(err)
	}
	_, _ = rt.StartRun(ctx, runtime.MustCaller("default", "local", runtime.RoleUser), runtime.StartRequest{
		Agent: "echo", Messages: []agui.Message{{Role: agui.RoleUser, Content: "hello world"}},
	})
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		event, ok := strings.CutPrefix(lines.Text(), "event: ")
		if ok && event != "keepalive" {
			fmt.Println(event)
		}
		if event == "agent_complete" {
			break
		}
	}
	_ = resp.Body.Close()

	_ = rt.Shutdown(ctx)
	_ = server.Shutdown(ctx)
	// Output:
	// token
	// token
	// agent_complete
}
