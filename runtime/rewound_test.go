package runtime_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

func refusedAs(t *testing.T, err error, code, text string) {
	t.Helper()
	refusal, ok := errors.AsType[*runtime.Error](err)
	if !ok || refusal.Kind != runtime.KindUnavailable || refusal.Code != code || !strings.Contains(refusal.Detail, text) {
		t.Errorf("got %v, want the refusal %s with %q", err, code, text)
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
	must(t, err)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
