package storage_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
)

// A server opens its database, joins it and commits decisions.
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
	if err := db.Members().Join(ctx, "instance-1", "127.0.0.1:8080"); err != nil {
		log.Print(err)
		return
	}

	threadKey, err := db.NewThreadKey(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	runKey, err := db.NewRunKey(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	name := data.Name{Project: "default", User: "ann", ID: "main"}
	start := func(_ int, v *data.View) data.Changes {
		if v.Exists {
			return data.Changes{Refused: data.Refuse(data.KindConflict, "exists", "there is such a thread")}
		}
		thread := &data.Thread{ThreadHead: data.ThreadHead{
			Key: threadKey, Project: name.Project, User: name.User, ID: name.ID,
			ConversationID: "0197a3c1-7b1e-7c3a-9d2f-1b2c3d4e5f60", CreatedAt: v.Now, UpdatedAt: v.Now,
		}}
		run := &data.Run{RunHead: data.RunHead{
			Key: runKey, ThreadKey: threadKey, ID: "run", Project: name.Project, User: name.User, Agent: "echo",
			WorkflowID: "echo", Status: data.Running, CreatedAt: v.Now, QueuedAt: v.Now,
		}}
		span := &data.Span{RunKey: runKey, N: 1, ThreadKey: threadKey, RunID: "run", First: 1}
		return data.Changes{
			Rows: []data.Row{thread, run, span},
			Events: []data.StoredEvent{{
				ThreadKey: threadKey, ID: 1, RunKey: runKey, Kind: "RUN_STARTED", Payload: []byte(`{"type":"RUN_STARTED"}`),
			}},
		}
	}
	err = db.Commit(ctx, 1, &data.Batch{Asks: []data.Ask{{Name: name}}, Decide: start})
	if err != nil {
		log.Print(err)
		return
	}
	events, err := db.Events(ctx, threadKey, 0, 100)
	if err != nil {
		log.Print(err)
		return
	}
	for _, ev := range events {
		fmt.Println(ev.ID, ev.RunID, string(ev.Payload))
	}
	// Output: 1 run {"type":"RUN_STARTED"}
}
