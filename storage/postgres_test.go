package storage_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// A URL that names several servers says that it means the one that takes writes; those that read go there, too.
func TestTargetSessionAttrs(t *testing.T) {
	database := postgrestest.New(t)
	for _, attrs := range []string{"any", "read-write", "primary"} {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("target_session_attrs", attrs)
		u.RawQuery = q.Encode()
		db, err := storage.Open(t.Context(), storage.Config{URL: u.String(), Migrate: true})
		if err != nil {
			t.Errorf("%s: %v", attrs, err)
			continue
		}
		if err := db.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", attrs, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ErrSchema means only that the schema is missing: a migration does not help with other errors.
func TestErrSchemaMeansTheSchema(t *testing.T) {
	database := postgrestest.New(t)
	open(t, database)
	execute(t, database, `ALTER TABLE schema_versions RENAME COLUMN version_id TO other`)
	if _, err := storage.Open(t.Context(), storage.Config{URL: database}); err == nil || errors.Is(err, storage.ErrSchema) {
		t.Errorf("a statement that fails: %v, want an error that is not ErrSchema", err)
	}
	if _, err := storage.Open(t.Context(), storage.Config{URL: storagetest.Postgres(t).NewDatabase(t)}); !errors.Is(err, storage.ErrSchema) {
		t.Errorf("an empty database: %v, want ErrSchema", err)
	}
}
