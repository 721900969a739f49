package storage

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/data"
)

// A key is never reused after its row is deleted or the program restarts, which takes one statement per thousand keys.
func TestKeysAreGivenOnce(t *testing.T) {
	t.Parallel()
	url, notes := "sqlite:"+filepath.Join(t.TempDir(), "baton.db"), 0
	for given, n := int64(0), int64(1); n <= 3; n++ {
		notes = 0
		db := tappedAt(t, url, func(query string, do func() error) error {
			if strings.Contains(query, "UPDATE given_keys") {
				notes++
			}
			return do()
		})
		ctx := t.Context()
		must(t, db.Members().Join(ctx, fmt.Sprint("instance ", n), ""))
		for commit := range int64(100) {
			run, err := db.NewRunKey(ctx)
			if err != nil || run <= given {
				t.Fatalf("the next run gets the key %d after %d, %v", run, given, err)
			}
			given = run
			thread, err := db.NewThreadKey(ctx)
			must(t, err)
			name := fmt.Sprint(run)
			rows := []data.Row{
				&data.Thread{ThreadHead: data.ThreadHead{Key: thread, ID: name, ConversationID: name}},
				&data.Run{RunHead: data.RunHead{Key: run, ThreadKey: thread, ID: name, Status: data.Completed}},
			}
			must(t, db.Commit(ctx, 2*commit+1, &data.Batch{Rows: rows}))
			must(t, db.Commit(ctx, 2*commit+2, &data.Batch{Rows: []data.Row{&data.Delete{ThreadKey: thread, Limit: 100}}}))
		}
		if notes != 2 { // of threads and of runs
			t.Errorf("keys were noted %d times", notes)
		}
		must(t, db.Close())
	}
}
