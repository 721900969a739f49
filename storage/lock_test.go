package storage_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/admin"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlite"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/storage/storagetest"
)

// A server does not write a file that the next one would not find.
func TestServer_NoticesThatItsFileIsGone(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	db, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true})
	must(t, err)
	defer db.Close()
	must(t, db.Members().Join(t.Context(), "one", ""))
	n := int64(0)
	want := func(want error) {
		t.Helper()
		if err := db.Members().Renew(t.Context(), n); !errors.Is(err, want) {
			t.Errorf("Renew: %v, want %v", err, want)
		}
		if err := db.Commit(t.Context(), n+1, &data.Batch{}); !errors.Is(err, want) {
			t.Errorf("Commit: %v, want %v", err, want)
		} else if err == nil {
			n++
		}
	}
	move := func(from, to string) {
		t.Helper()
		must(t, os.Rename(from, to))
	}
	want(nil)
	move(path, path+".away")
	want(data.ErrMissing)
	move(path+".away", path)
	want(nil)
	move(sqlitetest.New(t), path)
	want(data.ErrFenced)
}

func TestSecondServerIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	holder := func(wantAddr string, wantHeld bool) {
		t.Helper()
		addr, held, err := admin.LockHolder(url)
		if err != nil || addr != wantAddr || held != wantHeld {
			t.Errorf("LockHolder: %q, %v, %v, want %q, %v", addr, held, err, wantAddr, wantHeld)
		}
	}
	holder("", false)
	first, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true, Migrate: true, Addr: "starting"})
	must(t, err)
	defer first.Close()
	holder("starting", true)
	must(t, first.Members().Join(t.Context(), "one", "127.0.0.1:8080"))
	holder("127.0.0.1:8080", true)

	_, err = storage.Open(t.Context(), storage.Config{URL: url, Serve: true})
	var locked *sqlite.LockedError
	if !errors.Is(err, storage.ErrLocked) || !errors.As(err, &locked) || locked.Addr != "127.0.0.1:8080" {
		t.Errorf("a second server: %v, want a LockedError with the first one's address", err)
	}
	if err := storage.Migrate(t.Context(), storage.Config{URL: url}); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("Migrate: %v, want ErrLocked", err)
	}
	reader, err := storage.Open(t.Context(), storage.Config{URL: url})
	if err != nil {
		t.Fatalf("a command beside the server: %v", err)
	}
	defer reader.Close()

	must(t, first.Close())
	holder("", false)
	open(t, url)
}

// SQLite needs a -shm file to open a database, even on a full disk. A stopping server reserves the space.
func TestStoppedServerLeavesRoomForTheNext(t *testing.T) {
	t.Parallel()
	const needed = 32 << 10 // by the -shm file
	url := newSQLite(t)
	lock := strings.TrimPrefix(url, "sqlite:") + ".lock"
	kept := func() int64 {
		t.Helper()
		info, err := os.Stat(lock)
		must(t, err)
		return info.Size()
	}
	for range 2 {
		db := open(t, url)
		if n := kept(); n > 1<<10 {
			t.Errorf("a server that serves keeps %d bytes", n)
		}
		must(t, errors.Join(db.Registry.SetAddr("127.0.0.1:1"), db.Close()))
		if n := kept(); n < needed {
			t.Errorf("a server that has stopped has left %d bytes", n)
		}
		if addr, held, err := admin.LockHolder(url); addr != "" || held || err != nil {
			t.Errorf("LockHolder: %q, %t, %v", addr, held, err)
		}
	}
}

// TestKilledServerHoldsNothing runs this test's binary as a server and kills it.
func TestKilledServerHoldsNothing(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("BATON_TEST_SERVE"); url != "" {
		open(t, url)
		_, _ = os.Stdout.WriteString("serving\n")
		select {}
	}
	url := newSQLite(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledServerHoldsNothing$")
	cmd.Env = append(os.Environ(), "BATON_TEST_SERVE="+url)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := make([]byte, 100)
	n, _ := out.Read(said)
	if !strings.Contains(string(said[:n]), "serving") {
		t.Fatalf("the server said %q", said[:n])
	}
	if _, held, err := admin.LockHolder(url); !held || err != nil {
		t.Errorf("while it serves: held %v, %v", held, err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if _, held, err := admin.LockHolder(url); held || err != nil {
		t.Errorf("after kill: held %v, %v", held, err)
	}
	open(t, url)
}

// A database has one server, under all names of its file.
func TestOneFileHasOneServer(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Dir(path), dir+"/dir"))
	if err := os.Symlink(path, dir+"/link.db"); err != nil { // a file that does not exist yet
		t.Fatal(err)
	}
	first, err := storage.Open(t.Context(), storage.Config{URL: "sqlite:" + dir + "/link.db", Serve: true, Migrate: true, Addr: "first"})
	must(t, err)
	defer first.Close()
	for _, other := range []string{path, dir + "/dir/baton.db", dir + "/link.db"} {
		url := "sqlite:" + other
		_, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true})
		if locked := (*sqlite.LockedError)(nil); !errors.As(err, &locked) || locked.Addr != "first" {
			t.Errorf("%s: %v, want a LockedError with the first one's address", other, err)
		}
		if addr, held, err := admin.LockHolder(url); addr != "first" || !held || err != nil {
			t.Errorf("LockHolder(%s): %q, %v, %v", other, addr, held, err)
		}
	}
	if goruntime.GOOS != "linux" {
		return
	}
	must(t, os.Link(path, dir+"/hard.db"))
	_, err = storage.Open(t.Context(), storage.Config{URL: "sqlite:" + dir + "/hard.db", Serve: true})
	if !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), "another name") {
		t.Errorf("a hard link: %v, want ErrLocked", err)
	}
}

func TestMistypedPathCreatesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite:" + dir + "/mistyped/deep/baton.db"
	for name, err := range map[string]error{
		"Open":    opened(t, storage.Config{URL: url, Serve: true, Migrate: true}),
		"Migrate": storage.Migrate(t.Context(), storage.Config{URL: url}),
	} {
		if err == nil || !strings.Contains(err.Error(), "there is no directory "+dir+"/mistyped/deep") {
			t.Errorf("%s: %v, want to be told of the directory", name, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
	empty := "sqlite:" + dir + "/baton.db"
	if err := admin.Backup(t.Context(), empty, dir+"/copy.db"); err == nil {
		t.Error("what is not there was backed up")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}

func TestOpen_RefusesSchemaOfAnotherBaton(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": newSQLite(t), "postgres": postgrestest.New(t)} {
		t.Run(name, func(t *testing.T) {
			must(t, storage.Migrate(t.Context(), storage.Config{URL: url}))
			const newer = "INSERT INTO schema_versions (version_id, is_applied) VALUES (1000, TRUE)"
			if _, err := connect(t, url).Exec(newer); err != nil {
				t.Fatal(err)
			}
			if err := opened(t, storage.Config{URL: url, Serve: true, Migrate: true}); err != nil {
				t.Errorf("a newer schema that suits this program: %v", err)
			}
			for _, made := range []struct{ by, want string }{
				{"UPDATE schema_oldest SET oldest = 1000", "newer Baton"},
				{"DROP TABLE schema_oldest", "a build before the first release"},
				{"DELETE FROM schema_versions WHERE version_id = 1000", "a build before the first release"},
			} {
				if _, err := connect(t, url).Exec(made.by); err != nil {
					t.Fatal(err)
				}
				for what, err := range map[string]error{
					"Migrate": storage.Migrate(t.Context(), storage.Config{URL: url}),
					"Open":    opened(t, storage.Config{URL: url, Serve: true, Migrate: true}),
				} {
					if !errors.Is(err, storage.ErrSchema) || !strings.Contains(err.Error(), made.want) {
						t.Errorf("%s after %s: %v, want %q", what, made.by, err, made.want)
					}
				}
			}
		})
	}
}

func TestOpenNeedsTheSchema(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no file":      noSQLite(t),
		"no tables":    emptySQLite(t),
		"no tables PG": storagetest.Postgres(t).NewDatabase(t),
	} {
		if _, err := storage.Open(t.Context(), storage.Config{URL: url}); !errors.Is(err, storage.ErrSchema) {
			t.Errorf("%s: %v, want ErrSchema", name, err)
		}
		for range 2 {
			if err := storage.Migrate(t.Context(), storage.Config{URL: url}); err != nil {
				t.Errorf("%s: Migrate: %v", name, err)
			}
		}
		db, err := storage.Open(t.Context(), storage.Config{URL: url})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		db.Close()
	}
	for _, url := range []string{"", "secret", "mysql://secret", "sqlite:", "sqlite::memory:", "postgres://u:secret@h:x/d"} {
		_, err := storage.Open(t.Context(), storage.Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v", url, err)
		}
	}
}

func emptySQLite(t *testing.T) string {
	url := newSQLite(t)
	must(t, os.WriteFile(strings.TrimPrefix(url, "sqlite:"), nil, 0o600))
	return url
}

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	errs := make(chan error)
	for range 4 {
		go func() { errs <- storage.Migrate(t.Context(), storage.Config{URL: url}) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	open(t, url)
}

func TestPathsMayHoldAnyCharacters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/a b%20?c#d&e=f;ü"
	must(t, os.Mkdir(dir, 0o700))
	db := open(t, "sqlite:"+dir+"/data?.db")
	joined(t, db)
	if _, err := os.Stat(dir + "/data?.db"); err != nil {
		t.Error(err)
	}
}

// A file with the tables of another program is refused, and stays as it is.
func TestOpen_RefusesFilesOfOthers(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "app.db")
	execute(t, url, `CREATE TABLE customers (id INTEGER PRIMARY KEY AUTOINCREMENT)`)
	file := strings.TrimPrefix(url, "sqlite:")
	before, err := os.ReadFile(file)
	must(t, err)
	_, asServer := storage.Open(t.Context(), storage.Config{URL: url, Serve: true, Migrate: true})
	for name, err := range map[string]error{
		"a server": asServer, "a migration": storage.Migrate(t.Context(), storage.Config{URL: url}),
	} {
		if err == nil || !strings.Contains(err.Error(), "another program") || !strings.Contains(err.Error(), "customers") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
}
