package storage

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/runtime/janitor"
)

// A SQLite file does not shrink by itself: free pages wait for new rows. New files have incremental vacuum, which returns free pages to
// the file system a few at a time.

const (
	countPages = `
PRAGMA page_count`

	countFree = `
PRAGMA freelist_count`

	// shrinkStep moves a number of pages; commits wait for it.
	shrinkStep = `
PRAGMA incremental_vacuum(%[1]d)`

	moveWALGently = `
PRAGMA wal_checkpoint(PASSIVE)`
)

const (
	shrinkPages = 256
	spareFree   = 1024 // free pages that stay for new rows, beside a tenth of the file
)

// shrink returns free pages of a SQLite file to the file system.
func (s sealer) shrink(ctx context.Context) error {
	for before := 0; ; {
		pages, err := one(ctx, s.read, scalar[int], countPages)
		if err != nil {
			return err
		}
		free, err := one(ctx, s.read, scalar[int], countFree)
		if err != nil {
			return err
		}
		if free <= spareFree+pages/10 || free == before {
			return nil
		}
		before = free
		if err := s.shrinkOnce(ctx); err != nil {
			return fmt.Errorf("shrink the database: %w", err)
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}

func (s sealer) shrinkOnce(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exec(ctx, fmt.Sprintf(shrinkStep, shrinkPages), moveWALGently) // the file shrinks with the checkpoint
}
