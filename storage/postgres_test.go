package storage_test

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// A URL that names several servers says that it means the one that takes writes; those that read go there, too.
func TestTargetSessionAttrs(t *testing.T) {
	t.Parallel()
	database := postgrestest.New(t)
	for _, attrs := range []string{"any", "read-write", "primary"} {
		u, err := url.Parse(database)
		must(t, err)
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

// Of several hosts, the one that answers is used.
func TestOpen_TriesSeveralHosts(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(postgrestest.New(t))
	must(t, err)
	q := u.Query()
	q.Set("host", "127.0.0.1,"+u.Hostname())
	q.Set("port", "1,"+u.Port())
	u.Host, u.RawQuery = "", q.Encode()
	if err := open(t, u.String()).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// ErrSchema means only that the schema is missing: a migration does not help with other errors.
func TestErrSchemaMeansTheSchema(t *testing.T) {
	t.Parallel()
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

// Baton's tables are in a schema of their own, because an application may have tables of the same names.
func TestSchema_IsBatonsOwn(t *testing.T) {
	t.Parallel()
	database := storagetest.Postgres(t).NewDatabase(t)
	execute(t, database, "CREATE TABLE public.threads (id int); CREATE TABLE public.schema_versions (version_id int); INSERT INTO public.schema_versions VALUES (7)")
	tenant := "of_" + path.Base(strings.TrimSuffix(database, "?sslmode=disable"))
	execute(t, database, "CREATE ROLE "+tenant+" LOGIN")
	as := strings.Replace(database, "postgres@", tenant+"@", 1)
	if err := storage.Migrate(t.Context(), storage.Config{URL: as}); err == nil || !strings.Contains(err.Error(), "CREATE SCHEMA baton AUTHORIZATION") {
		t.Errorf("a user without rights: %v", err)
	}
	execute(t, database, "CREATE SCHEMA baton AUTHORIZATION "+tenant+"; CREATE SCHEMA shared AUTHORIZATION "+tenant)
	tables := func(where string) (n int) {
		t.Helper()
		must(t, connect(t, database).Get(&n, "SELECT count(*) FROM pg_tables WHERE "+where))
		return n
	}
	for query, schema := range map[string]string{
		"": "baton", "&search_path=shared": "shared", "&search_path=Two": "two", "&options=-csearch_path%3Dthree": "three",
	} {
		user := as
		if schema != "baton" && schema != "shared" { // which are there
			user = database
		}
		for range 2 {
			db, err := storage.Open(t.Context(), storage.Config{URL: user + query, Migrate: true})
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := tables("tablename IN ('threads', 'schema_versions', 'runs') AND schemaname = '" + schema + "'"); n != 3 {
			t.Errorf("%s: %d of three tables are in the schema %s", query, n, schema)
		}
	}
	if n := tables("schemaname = 'public'"); n != 2 {
		t.Errorf("%d tables are in the application's schema, want its two", n)
	}
}

// A database that lacks characters is refused before it has tables, with the way to a better one.
func TestOpen_RefusesOtherEncodings(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "EUC_JP", "SQL_ASCII"} {
		database := storagetest.Postgres(t).NewEncoded(t, encoding)
		err := storage.Migrate(t.Context(), storage.Config{URL: database})
		if _, open := storage.Open(t.Context(), storage.Config{URL: database, Migrate: true, Serve: true}); err == nil || open == nil || err.Error() != open.Error() {
			t.Errorf("%s: %v and %v", encoding, err, open)
		}
		if err == nil || !strings.Contains(err.Error(), encoding) || !strings.Contains(err.Error(), "createdb --encoding=UTF8") {
			t.Errorf("%s: %v", encoding, err)
		}
		if _, err := storage.Open(t.Context(), storage.Config{URL: database}); errors.Is(err, storage.ErrSchema) {
			t.Errorf("%s: %v, which a migration does not cure", encoding, err)
		}
	}
}
