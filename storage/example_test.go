package storage_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
)

// A server opens its database, joins it and commits events with the rows they belong to.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "baton")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := storage.Open(ctx, storage.Config{
		URL: "sqlite:" + filepath.Join(dir, "baton.db"), Serve: true, Migrate: true,
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer db.Close()
	if err := db.Join(ctx, "instance-1", "127.0.0.1:8080"); err != nil {
		log.Print(err)
		return
	}

	thread := runtime.Thread{
		Project: "default", User: "ann", ID: "main", ConversationID: "0197a3c1-7b1e-7c3a-9d2f-1b2c3d4e5f60",
	}
	err = db.Commit(ctx, 1, nil, func(tx runtime.Tx) error {
		thread.CreatedAt, thread.UpdatedAt = tx.Now(), tx.Now()
		if err := tx.Put(&thread); err != nil {
			return err
		}
		run := &runtime.Run{
			ThreadKey: thread.Key, ID: "run", Project: "default", User: "ann", Agent: "echo", WorkflowID: "echo",
			Status: runtime.Running, CreatedAt: tx.Now(), QueuedAt: tx.Now(),
		}
		if err := tx.Put(run); err != nil {
			return err
		}
		tx.Append(runtime.StoredEvent{
			ThreadKey: thread.Key, ID: 1, RunKey: run.Key, Kind: "RUN_STARTED", Payload: []byte(`{"type":"RUN_STARTED"}`),
		})
		return tx.Put(&runtime.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: "run", First: 1})
	})
	if err != nil {
		log.Print(err)
		return
	}
	events, err := db.Events(ctx, thread.Key, 0, 100)
	if err != nil {
		log.Print(err)
		return
	}
	for _, ev := range events {
		fmt.Println(ev.ID, ev.RunID, string(ev.Payload))
	}
	// Output: 1 run {"type":"RUN_STARTED"}
}
