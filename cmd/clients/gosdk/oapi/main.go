//go:build generated

// Command oapi uses a client that oapi-codegen generates from a server's /openapi.json. The test generates the client beside this
// file.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	_ "github.com/oapi-codegen/runtime" // needed by the generated client
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run starts a run on the server at url and prints its final status.
func run(ctx context.Context, url string) error {
	client, err := NewClientWithResponses(url)
	if err != nil {
		return err
	}
	agent, content := "echo", "hello"
	started, err := client.StartRunWithResponse(ctx, nil, RunRequest{Agent: &agent, Content: &content})
	if err != nil {
		return err
	}
	if started.JSON202 == nil {
		return fmt.Errorf("start: %s %s", started.Status(), started.Body)
	}
	if _, err := client.WatchThreadWithResponse(ctx, started.JSON202.ThreadId, nil); err != nil { // to its end
		return err
	}
	ended, err := client.GetRunWithResponse(ctx, "default", started.JSON202.RunId, nil)
	if err != nil {
		return err
	}
	if ended.JSON200 == nil {
		return fmt.Errorf("get: %s %s", ended.Status(), ended.Body)
	}
	fmt.Print(ended.JSON200.Status)
	return nil
}
