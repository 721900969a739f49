package runtime_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
)

// A program that embeds the engine starts a run and reads its events as they are stored.
func Example() {
	if err := embed(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 RUN_STARTED
	// 0 STATE_SNAPSHOT
	// 2 STEP_STARTED
	// 3 TEXT_MESSAGE_START
	// 4 TEXT_MESSAGE_CONTENT
	// 5 TEXT_MESSAGE_CONTENT
	// 6 TEXT_MESSAGE_END
	// 7 STEP_FINISHED
	// 8 RUN_FINISHED
}

func embed(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "baton")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(dir, "baton.db"), Serve: true, Migrate: true})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()

	agents := new(host.Registry)
	if err := agents.Add(echo.Agent{}); err != nil {
		return err
	}
	rt, err := runtime.New(runtime.Config{Store: db, Registry: agents})
	if err != nil {
		return err
	}
	if err := rt.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = rt.Shutdown(ctx) }()

	ann := runtime.MustCaller("default", "ann", runtime.RoleUser)
	started, err := rt.StartRun(ctx, ann, runtime.StartRequest{
		Agent: "echo", Messages: []agui.Message{{Role: agui.RoleUser, Content: "hello world"}},
	})
	if err != nil {
		return err
	}
	cursor, err := rt.Logs.ReadRun(ctx, started)
	if err != nil {
		return err
	}
	defer cursor.Close()
	for {
		records, err := cursor.Next(ctx) // io.EOF after the terminal event
		if err != nil {
			return nil
		}
		for _, r := range records {
			fmt.Println(r.ID, r.Event.Type())
		}
	}
}
