package e2e

import (
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"
)

func sqlOf(t *testing.T, db database) *sqlx.DB {
	t.Helper()
	driver, source := "postgres", db.url
	if file, ok := strings.CutPrefix(db.url, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+file+"?_pragma=busy_timeout(60000)"
	}
	q, err := sqlx.Open(driver, source)
	must(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func countOf(t *testing.T, q *sqlx.DB, query string) (n int) {
	t.Helper()
	must(t, q.Get(&n, query))
	return n
}

// closedNow reports whether a channel is closed.
func closedNow(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
