package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// beside makes a second runtime on the database; it is closed when the test ends.
func beside(t *testing.T, url string, cfg runtime.Config, plugs ...plugins.Plugin) *runtime.Runtime {
	t.Helper()
	db, err := storage.Open(context.Background(), storage.Config{URL: url, Migrate: true, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Registry, cfg.Heartbeat = db, new(host.Registry), 10*time.Millisecond
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	if err := cfg.Registry.Add(plugs...); err != nil {
		t.Fatal(err)
	}
	rt, err := runtime.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Shutdown(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func refusedAs(t *testing.T, err error, code, text string) {
	t.Helper()
	refusal, ok := errors.AsType[*runtime.Error](err)
	if !ok || refusal.Kind != runtime.KindUnavailable || refusal.Code != code || !strings.Contains(refusal.Detail, text) {
		t.Errorf("got %v, want the refusal %s with %q", err, code, text)
	}
}

// An instance with a missing or outdated row has been fenced, even if it has nothing to write.
func TestIdleInstanceNoticesARewoundDatabase(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func() string{
		"sqlite":   func() string { return "sqlite:" + sqlitetest.New(t) },
		"postgres": func() string { return postgrestest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, statement := range []string{
				`UPDATE instances SET commit_no = commit_no - 1`, `UPDATE instances SET commit_no = commit_no + 1`,
				`DELETE FROM instances`,
			} {
				url := database()
				rt := beside(t, url, runtime.Config{}, hello)
				if err := rt.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				execute(t, url, statement)
				<-rt.Fenced()
				refusedAs(t, rt.Ready(t.Context()), "fenced", "")
			}
		})
	}
}

// execute runs a statement without the runtime.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	driver := "postgres"
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, url = "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
