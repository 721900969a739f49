package storage_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/storagetest"
)

// Reads that the engine needs in full are complete or fail.
func TestLimitsHideNothing(t *testing.T) {
	t.Parallel()
	const most = 10_000
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log := newLog(t, db, 1)
		run := log.runs[0]
		log.commit(t, log.batch(1))
		log.commit(t, nil, log.finishRuns(t)...)
		for what, c := range map[string]struct {
			first int // that is not there yet
			row   func(n int) data.Row
			read  func() (int, error)
		}{
			"spans": {2, func(n int) data.Row {
				return &data.Span{RunKey: run, N: n, ThreadKey: log.threads[0], RunID: "r", First: int64(n), Last: int64(n)}
			}, func() (int, error) {
				list, err := db.Spans(t.Context(), run)
				return len(list), err
			}},
			"nodes": {2, func(n int) data.Row {
				return &data.Node{RunKey: run, NodeID: fmt.Sprint(n), Status: data.Pending}
			}, func() (int, error) {
				list, err := db.Nodes(t.Context(), run)
				return len(list), err
			}},
			"interrupts": {1, func(n int) data.Row {
				return &data.Interrupt{RunKey: run, ID: fmt.Sprint(n), Status: "open", CreatedAt: time.Now()}
			}, func() (int, error) {
				list, err := db.Interrupts(t.Context(), run)
				return len(list), err
			}},
		} {
			var rows []data.Row
			for n := c.first; n <= most; n++ {
				rows = append(rows, c.row(n))
			}
			for part := range slices.Chunk(rows, 500) {
				log.commit(t, nil, part...)
			}
			if got, err := c.read(); err != nil || got != most {
				t.Errorf("%s: %d, %v, want %d", what, got, err, most)
			}
			log.commit(t, nil, c.row(most+1))
			if got, err := c.read(); err == nil {
				t.Errorf("%s: %d of %d without an error", what, got, most+1)
			}
		}
	})
}

func TestStepsAreCountedToTheLast(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *storage.DB) {
		log := newLog(t, db, 1)
		var rows []data.Row
		for n := range 10_050 {
			rows = append(rows, &data.Step{RunKey: log.runs[0], Number: n + 1, Status: data.Completed, StartedAt: time.Now()})
		}
		log.commit(t, nil, rows...)
		if _, total, err := storagetest.Parts(db.ByProject().Steps(t.Context(), "p", log.runs[0], "", 0, 1)); err != nil || total != 10_050 {
			t.Errorf("%d steps, %v, want 10050", total, err)
		}
	})
}
