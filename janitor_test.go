package baton_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/batonrun/baton"
)

// The janitor seals old events and removes expired rows, old idempotency keys, unreferenced files, and rows of ended runs, servers and keys,
// without a request.
func TestJanitor_Tidies(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		baton.TidyEvery(t, 10*time.Millisecond)
		serve := func() (*baton.Server, site) {
			const day = 24 * time.Hour
			s := open(t, baton.Config{
				Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader),
				Tuning: baton.Tuning{Attachments: baton.Attachments{Directory: t.TempDir()}, Retention: &baton.RetentionPolicy{Retention: baton.Retention{Runs: 30 * day}}},
			})
			return s, site{T: t, url: s.URL()}
		}
		server, s := serve()
		for _, name := range []string{"old", "older"} {
			body := fmt.Sprintf(`{"agent":"scripted","threadId":%q,"runId":%q,"content":"{\"do\":[{\"tool\":\"clock\"}]}"}`, name, name)
			s.must("p1/ann/user", "POST", "/api/v1/agent/runs", body, "Idempotency-Key", name)
			s.reach("p1/ann/user", name, "COMPLETED")
		}
		s.must("p1/ann/user", "POST", "/api/v1/agent/attachments", aForm, "Content-Type", "multipart/form-data; boundary=b")
		_, id := newKey(t, server, "ann", time.Time{})
		must(t, server.RevokeAPIKey(t.Context(), id))
		must(t, server.Close())

		q := sqlOf(t, database)
		age := func(days int, table, columns, where string) {
			for column := range strings.FieldsSeq(columns) {
				by := fmt.Sprintf("interval '%d days'", days)
				if q.DriverName() == "sqlite" {
					by = fmt.Sprint(days * 86400000)
				}
				q.MustExec(fmt.Sprintf("UPDATE %s SET %s = %[2]s - %s WHERE %s", table, column, by, where))
			}
		}
		age(2, "runs", "created_at finished_at", "id = 'old'")
		age(31, "runs", "created_at finished_at", "id = 'older'")
		age(2, "threads", "updated_at", "true")
		age(2, "events", "committed_at", "true")
		age(2, "idempotency_keys", "created_at", "true")
		age(2, "attachments", "created_at used_at", "true")
		age(2, "instances", "started_at", "true")
		age(91, "api_keys", "revoked_at", "true")
		serve()
		for table, want := range map[string]int{
			"runs":             1, // the run that is old, not the one that is older
			"event_segments":   1,
			"idempotency_keys": 0,
			"attachments":      0,
			"memos":            0,
			"instances":        1,
			"api_keys":         0,
		} {
			for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
				var n int
				must(t, q.Get(&n, "SELECT count(*) FROM "+table))
				if n == want {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("there are %d %s, want %d", n, table, want)
				}
			}
		}
	})
}

// sqlOf opens a database beside its server.
func sqlOf(t *testing.T, database string) *sqlx.DB {
	t.Helper()
	driver, source := "postgres", database
	if file, ok := strings.CutPrefix(database, "sqlite:"); ok {
		driver, source = "sqlite", "file:"+file+"?_pragma=busy_timeout(60000)"
	}
	q, err := sqlx.Open(driver, source)
	must(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}
