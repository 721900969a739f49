package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports/mcp"
)

// A runtime with one agent, and a client that starts a run of it over a pair of pipes.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "baton")
	defer os.RemoveAll(dir)
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(dir, "baton.db"), Migrate: true})
	if err != nil {
		panic(err)
	}
	reg := new(host.Registry)
	if err := reg.Add(echo.Agent{}); err != nil {
		panic(err)
	}
	rt, err := runtime.New(runtime.Config{Store: db, Registry: reg})
	if err != nil {
		panic(err)
	}
	if err := rt.Start(ctx); err != nil {
		panic(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	who := runtime.MustCaller("default", "local", runtime.RoleUser)
	served := make(chan error, 1)
	go func() { served <- mcp.Transport{Runtime: rt}.Serve(ctx, who, inR, outW) }() // ends when the client closes

	client := sdk.NewClient(&sdk.Implementation{Name: "example", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		panic(err)
	}
	res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "start_agent_run", Arguments: map[string]any{
		"agent": "echo", "content": "hello", "run_id": "first",
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.StructuredContent.(map[string]any)["runId"], res.IsError)

	if err := errors.Join(session.Close(), <-served, rt.Shutdown(ctx), db.Close()); err != nil {
		panic(err)
	}
	// Output: first false
}
