package rest_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rest"
)

func ExampleTransport() {
	dir, err := os.MkdirTemp("", "baton")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(dir, "baton.db"), Migrate: true})
	check(err)
	defer db.Close()
	reg := new(host.Registry)
	check(reg.Add(echo.Agent{}))
	rt, err := runtime.New(runtime.Config{Store: db, Registry: reg})
	check(err)
	check(rt.Start(ctx))

	streams := transports.NewStreams(transports.StreamConfig{Runtime: rt})
	server, err := transports.New(transports.Config{Runtime: rt, Streams: streams}, rest.Transport{Runtime: rt, Streams: streams})
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }() // ends with Shutdown

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post("http://"+ln.Addr().String()+"/api/projects/default/agent-runs", "application/json",
		strings.NewReader(`{"agent": "echo", "threadId": "main", "runId": "first", "content": "hello"}`))
	check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(err)
	fmt.Println(resp.StatusCode, strings.Contains(string(body), `"eventsUrl":"/api/v1/agent/runs/main/events?after_event_id=0"`))

	check(rt.Shutdown(ctx))
	check(server.Shutdown(ctx))
	check(<-served)
	// Output: 202 true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
