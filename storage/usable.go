package storage

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"regexp"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// A server that may not write a database would wait for that forever, so what the database and its user lack is found before anything is
// written.

const (
	selectGrants = `
SELECT current_setting('server_encoding'), current_setting('transaction_read_only') = 'on', pg_is_in_recovery(),
	current_user, COALESCE(current_schema(), ''), p.name, n.oid IS NOT NULL, has_database_privilege(current_database(), 'CREATE')
FROM (SELECT (parse_ident(split_part(current_setting('search_path'), ',', 1)))[1] AS name) p
LEFT JOIN pg_namespace n ON n.nspname = p.name`

	// selectTables reads the tables of the schema that have these names.
	selectTables = `
SELECT c.relname, has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
	AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relname = ANY (?) ORDER BY 1`

	mayCreate = `
SELECT has_schema_privilege(current_schema(), 'CREATE')`
)

// grants is how this user may use a PostgreSQL database.
type grants struct {
	encoding          string
	readOnly, standby bool
	user              string
	schema            string // of the tables; empty without one that the user may use
	named             string // first in the search_path
	exists            bool   // a schema of that name
	creates           bool   // the user may create schemas
}

func scanGrants(rows *sql.Rows) (u grants, err error) {
	return sqldb.Scan(rows, &u, &u.encoding, &u.readOnly, &u.standby, &u.user, &u.schema, &u.named, &u.exists, &u.creates)
}

// checkPostgres fails if the database cannot store every text, cannot be written, or has other tables under the names of Baton's.
func checkPostgres(ctx context.Context, q *sqldb.Pool) error {
	u, err := sqldb.One(ctx, q, scanGrants, selectGrants)
	if err != nil {
		return err
	}
	switch {
	case u.encoding != "UTF8":
		return fmt.Errorf("the database has the encoding %s, which does not have every character; create one with createdb --encoding=UTF8 --template=template0", u.encoding)
	case u.standby:
		return fmt.Errorf("%w: the server is a standby, which is read-only; name the primary in the URL, or all hosts with target_session_attrs=read-write", data.ErrDenied)
	case u.readOnly:
		return fmt.Errorf("%w: the database is read-only; end that: ALTER DATABASE name SET default_transaction_read_only = off, and the same for the user %s", data.ErrDenied, u.user)
	case u.schema != "":
		return checkTables(ctx, q, &u)
	case u.exists:
		return fmt.Errorf("%w: the user %s may not use the schema %s; its owner can allow it: ALTER SCHEMA %[3]s OWNER TO %[2]s", data.ErrDenied, u.user, u.named)
	case !u.creates:
		return fmt.Errorf("%w: the user %s may not create the schema %s; the owner of the database can: CREATE SCHEMA %[3]s AUTHORIZATION %[2]s", data.ErrDenied, u.user, u.named)
	}
	return nil
}

// checkTables checks the tables in the schema.
func checkTables(ctx context.Context, q *sqldb.Pool, u *grants) error {
	type table struct {
		name   string
		writes bool // the user may read and write it
	}
	tables, err := sqldb.All(ctx, q, func(rows *sql.Rows) (t table, err error) {
		return sqldb.Scan(rows, &t, &t.name, &t.writes)
	}, selectTables, q.DB.List(tablesOf(migrationsOf("postgres"))))
	if err != nil {
		return err
	}
	own := false
	for _, t := range tables {
		own = own || t.name == versionTable
	}
	for _, t := range tables {
		if !own {
			return fmt.Errorf("the schema %s has a table %s of another program; name another schema in the URL, as in search_path=baton2", u.schema, t.name)
		}
		if !t.writes {
			return fmt.Errorf("%w: the user %s may not read and write the table %s.%s; make it the owner of the tables there", data.ErrDenied, u.user, u.schema, t.name)
		}
	}
	if own {
		return nil
	}
	creates, err := sqldb.One(ctx, q, sqldb.Scalar[bool], mayCreate)
	if err == nil && !creates {
		err = fmt.Errorf("%w: the user %s may not create tables in the schema %s; its owner can allow it: ALTER SCHEMA %[3]s OWNER TO %[2]s", data.ErrDenied, u.user, u.schema)
	}
	return err
}

var createsTable = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)

// tablesOf returns the names of the tables that migrations create, and of their own.
func tablesOf(migrations fs.FS) []string {
	names := []string{versionTable}
	err := fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations, path)
		for _, found := range createsTable.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return err
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	return names
}
