package cmd_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// serveOnce runs baton serve until it ends, or serves and is stopped.
func serveOnce(t *testing.T, db string) result {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stdout, stderr := &stopping{stop: stop}, &output{}
	p := cmd.Program{
		Plugins: builtin.Plugins(), Stdout: stdout, Stderr: stderr,
		Args: []string{"serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--database", db},
	}
	return result{p.Run(ctx), stdout.String(), stderr.String()}
}

// stopping is an output that stops a server once it serves.
type stopping struct {
	output
	stop func()
}

func (s *stopping) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "baton is serving") {
		s.stop()
	}
	return s.output.Write(p)
}

// named fails the test unless one line of an error or a finding has all of want.
func (r result) named(t *testing.T, want ...string) {
	t.Helper()
	for line := range strings.Lines(r.stdout + r.stderr) {
		if (strings.HasPrefix(line, "baton: ") || strings.HasPrefix(line, "wrong  database ")) &&
			!slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) }) {
			return
		}
	}
	t.Errorf("no line has %q:\n%s%s", want, r.stdout, r.stderr)
}

// diagnosed runs baton doctor, and fails the test if a file beside the database has changed.
func diagnosed(t *testing.T, db string) result {
	t.Helper()
	dir := filepath.Dir(strings.TrimPrefix(db, "sqlite:"))
	before := listing(t, dir)
	r := baton(t.Context(), "doctor", "--listen", "127.0.0.1:0", "--database", db)
	if after := listing(t, dir); after != before {
		t.Errorf("was\n%sis\n%s", before, after)
	}
	return r
}

// listing lists the files in a directory, with all that can change.
func listing(t *testing.T, dir string) (list string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		text, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		list += fmt.Sprintln(e.Name(), info.Mode(), info.ModTime().UnixNano(), info.Sys().(*syscall.Stat_t).Uid, crc32.ChecksumIEEE(text))
	}
	return list
}

// asSomebody continues the test as a user who is not root, and to whom everything in a directory belongs.
func asSomebody(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	const nobody = 65534
	err := os.Chmod(filepath.Dir(dir), 0o755)
	for _, name := range append(glob(t, filepath.Join(dir, "*")), dir) {
		err = errors.Join(err, os.Chown(name, nobody, nobody))
	}
	if err = errors.Join(err, syscall.Seteuid(nobody)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Seteuid(0); err != nil {
			panic(err) // no other test may run so
		}
	})
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	return names
}

// A start ends at once at what no time cures in a SQLite file, and doctor finds it and changes nothing.
func TestUnusable_SQLite(t *testing.T) {
	whole := used(t)
	other := filepath.Join(t.TempDir(), "notes.db")
	execute(t, "sqlite", other, "CREATE TABLE notes (text)")
	notes, err := os.ReadFile(other)
	must(t, err)
	for name, c := range map[string]struct {
		text string // of the file
		name string // of the one with the mode, after baton.db
		mode os.FileMode
		want []string
	}{
		"cut at a page":                {text: whole[:len(whole)/2/4096*4096], want: []string{"damaged", "restore a backup"}},
		"cut in a page":                {text: whole[:len(whole)-5000], want: []string{"damaged", "restore a backup"}},
		"cut in its header":            {text: whole[:50], want: []string{"damaged", "restore a backup"}},
		"zeros":                        {text: strings.Repeat("\x00", 100_000), want: []string{"no SQLite database", "restore a backup"}},
		"a text":                       {text: "no database\n", want: []string{"no SQLite database", "name another one"}},
		"of another program":           {text: string(notes), want: []string{"another program, which has a table notes", "name another file"}},
		"that may only be read":        {text: whole, mode: 0o444, want: []string{"baton.db: permission denied", "owner of the file"}},
		"of another user":              {text: whole, mode: 0o1, want: []string{"baton.db: permission denied", "owner of the file"}},
		"with a WAL of others":         {text: whole, name: "-wal", mode: 0o400, want: []string{"baton.db-wal: permission denied", "owner of the file"}},
		"with shared memory of others": {text: whole, name: "-shm", mode: 0o400, want: []string{"baton.db-shm: permission denied", "owner of the file"}},
		"with a lock of others":        {text: whole, name: ".lock", mode: 0o400, want: []string{"baton.db.lock: permission denied", "owner of the file"}},
		"in a directory of others":     {text: whole, name: "/..", mode: 0o555, want: []string{": permission denied", "owner of the file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "baton.db")
			put(t, path, c.text)
			if c.mode != 0 {
				at := filepath.Clean(path + c.name)
				if c.name != "/.." && c.name != "" {
					put(t, at, "")
				}
				must(t, os.Chmod(at, c.mode))
				asSomebody(t, dir)
			}
			diagnosed(t, "sqlite:"+path).want(t, 1).named(t, c.want...)
			serveOnce(t, "sqlite:"+path).want(t, 1).named(t, c.want...)
		})
	}
}

// Doctor finds each damaged table and index. A server that needs it to start ends, and another one serves.
func TestUnusable_DamagedPages(t *testing.T) {
	t.Setenv("BATON_TIMEOUTS_DRAIN", "1ms")
	whole := used(t)
	path := filepath.Join(t.TempDir(), "whole.db")
	put(t, path, whole)
	ended := 0
	for name, root := range roots(t, path) {
		page := int(binary.BigEndian.Uint16([]byte(whole[16:])))
		text := whole[:(root-1)*page] + strings.Repeat("\xff", page) + whole[root*page:]
		db := "sqlite:" + filepath.Join(t.TempDir(), "baton.db")
		put(t, strings.TrimPrefix(db, "sqlite:"), text)
		diagnosed(t, db).want(t, 1).named(t, "damaged", "restore a backup")
		if r := serveOnce(t, db); r.code != 0 {
			ended++
			r.want(t, 1).named(t, "damaged", "restore a backup")
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if ended == 0 {
		t.Error("no start needs anything")
	}
}

// roots returns the first pages of the tables and indexes of a file.
func roots(t *testing.T, path string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0")
	must(t, err)
	defer rows.Close()
	found := map[string]int{}
	for rows.Next() {
		var name string
		var root int
		must(t, rows.Scan(&name, &root))
		found[name] = root
	}
	must(t, rows.Err())
	return found
}

// used returns the file of a database with a run that has ended, and one that its server has left RUNNING.
func used(t *testing.T) string {
	t.Helper()
	db := database(t)
	s := serve(t, db)
	baton(t.Context(), "run", "--database", db, "echo", "hello").want(t, 0)
	res, err := http.Post(s.URL()+"/api/v1/agent/runs", "application/json", strings.NewReader(`{"agent":"scripted","content":"{\"do\": [{\"say\": \"a\"}, {\"tool\": \"sleep\", \"args\": {\"ms\": 3600000}}]}"}`))
	must(t, err)
	_ = res.Body.Close()
	copied := filepath.Join(t.TempDir(), "copy.db")
	baton(t.Context(), "backup", "--database", db, copied).want(t, 0)
	text, err := os.ReadFile(copied)
	must(t, err)
	return string(text)
}

// execute runs statements in a database.
func execute(t *testing.T, driver, url string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, url)
	must(t, err)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// The same for PostgreSQL.
func TestUnusable_Postgres(t *testing.T) {
	cluster := storagetest.Postgres(t)
	for name, c := range map[string]struct {
		make   []string // as the owner of the database, where THIS and STRANGER are names
		tables bool     // it has Baton's
		as     string   // the user instead of STRANGER
		want   []string
	}{
		"read-only for all":             {tables: true, make: []string{"ALTER DATABASE THIS SET default_transaction_read_only = on", "ALTER DATABASE THIS OWNER TO STRANGER"}, as: "postgres", want: []string{"read-only", "SET default_transaction_read_only = off"}},
		"read-only for the user":        {make: []string{"ALTER ROLE STRANGER SET default_transaction_read_only = on"}, want: []string{"read-only", "SET default_transaction_read_only = off"}},
		"without a schema":              {want: []string{"STRANGER may not create the schema baton", "CREATE SCHEMA baton AUTHORIZATION STRANGER"}},
		"with the schema of others":     {make: []string{"CREATE SCHEMA baton"}, want: []string{"STRANGER may not use the schema baton", "ALTER SCHEMA baton OWNER TO STRANGER"}},
		"with a schema to read":         {make: []string{"CREATE SCHEMA baton", "GRANT USAGE ON SCHEMA baton TO STRANGER"}, want: []string{"STRANGER may not create tables in the schema baton", "ALTER SCHEMA baton OWNER TO STRANGER"}},
		"with tables of others":         {tables: true, make: []string{"GRANT USAGE ON SCHEMA baton TO STRANGER"}, want: []string{"STRANGER may not read and write the table baton.", "owner of the tables"}},
		"with a table to read":          {tables: true, make: []string{"GRANT USAGE ON SCHEMA baton TO STRANGER", "GRANT ALL ON ALL TABLES IN SCHEMA baton TO STRANGER", "REVOKE UPDATE ON baton.runs FROM STRANGER"}, want: []string{"STRANGER may not read and write the table baton.runs", "owner of the tables"}},
		"with tables of other programs": {make: []string{"CREATE SCHEMA baton AUTHORIZATION STRANGER", "CREATE TABLE baton.threads (id int)"}, want: []string{"the schema baton has a table threads of another program", "search_path="}},
		"that is not there":             {make: []string{"ALTER DATABASE THIS RENAME TO THIS_gone"}, want: []string{"does not exist", "createdb"}},
		"that does not know the user":   {as: "nobody_at_all", want: []string{"nobody_at_all", "correct the user and the password"}},
	} {
		t.Run(name, func(t *testing.T) {
			address := ""
			if c.tables {
				address = postgrestest.New(t)
			} else {
				address = cluster.NewDatabase(t)
			}
			u, err := url.Parse(address)
			must(t, err)
			database := strings.TrimPrefix(u.Path, "/")
			stranger := "stranger_" + database
			names := strings.NewReplacer("THIS", database, "STRANGER", stranger)
			execute(t, "postgres", address, "CREATE ROLE "+stranger+" LOGIN")
			for _, statement := range c.make {
				at := address
				if strings.Contains(statement, "THIS") {
					at = cluster.URL("postgres")
				}
				execute(t, "postgres", at, names.Replace(statement))
			}
			u.User = url.User(cmp.Or(c.as, stranger))
			var want []string
			for _, part := range c.want {
				want = append(want, names.Replace(part))
			}
			baton(t.Context(), "doctor", "--listen", "127.0.0.1:0", "--database", u.String()).want(t, 1).named(t, want...)
			serveOnce(t, u.String()).want(t, 1).named(t, want...)
		})
	}
}

// A standby is read-only, whatever its settings.
func TestUnusable_Standby(t *testing.T) {
	cluster := storagetest.StartPostgres(t)
	db := cluster.NewDatabase(t)
	must(t, cluster.StandBy())
	baton(t.Context(), "doctor", "--listen", "127.0.0.1:0", "--database", db).want(t, 1).named(t, "standby", "target_session_attrs=read-write")
	serveOnce(t, db).want(t, 1).named(t, "standby", "target_session_attrs=read-write")
}
