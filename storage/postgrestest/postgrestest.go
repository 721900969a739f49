// Package postgrestest gives tests PostgreSQL databases that need not be migrated any more, which takes longer than most tests: for
// client and server together almost a second of a core.
package postgrestest

import (
	"context"
	"sync"
	"testing"

	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/storagetest"
)

// template is a database of the shared cluster that is copied, and has no connections.
var template struct {
	sync.Once
	url string
	err error
}

// New returns the URL of an empty, migrated database of the cluster that all tests share.
func New(tb testing.TB) string {
	tb.Helper()
	c := storagetest.Postgres(tb)
	template.Do(func() {
		if template.url, template.err = c.NewTemplate(); template.err == nil {
			template.err = storage.Migrate(context.Background(), storage.Config{URL: template.url})
		}
	})
	if template.err != nil {
		tb.Fatal(template.err)
	}
	return c.CopyOf(tb, template.url)
}
