package cmd_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/runtime/bus/natsbus/natstest"
	"github.com/batonrun/baton/storage/storagetest"
	"github.com/batonrun/baton/transports/certs/certstest"
)

func TestDoctor_AcceptsNewInstallation(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	r := baton(t.Context(), "doctor", "--listen", cmdtest.Address()).want(t, 0)
	for _, want := range []string{"in the directory of the database, " + dir, "note   settings", "baton init", "ok     database", "does not exist yet", "ok     listen", "is free", "note   agents", "OPENAI_API_KEY"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if _, err := os.Stat("baton.db"); err == nil {
		t.Error("doctor has created a database")
	}
	if left, _ := filepath.Glob(".baton-doctor-*"); len(left) > 0 {
		t.Errorf("doctor has left %v", left)
	}
}

func TestDoctor_FindsServer(t *testing.T) {
	db := database(t)
	s := serve(t, db)
	r := baton(t.Context(), "doctor", "--database", db, "--listen", s.Addr()).want(t, 0)
	for _, want := range []string{"A server uses the database, at " + s.Addr(), "The server on " + s.Addr() + " is ready", "has this version's schema"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}

func TestDoctor_ReportsFaults(t *testing.T) {
	s := serve(t, database(t))
	missing := filepath.Join(t.TempDir(), "nowhere", "baton.db")
	broken := filepath.Join(t.TempDir(), "broken.db")
	must(t, os.WriteFile(broken, []byte(strings.Repeat("no database ", 1000)), 0o600))
	for _, w := range []struct {
		file string
		args string
		env  string
		want string
	}{
		{file: "listen: nowhere\n", want: "baton.yaml:1:1: listen: want an address and a port"},
		{file: "agents:\n  a: {provider: openai, model: m, tools: [nothing-like-it], bad: 1}\n", want: "wrong  agents"},
		{file: "agents:\n  a: {command: [no-such-program]}\n", want: "a cannot be started: exec: \"no-such-program\""},
		{file: "mcp:\n  files: {command: [./no-such-program]}\n", want: "files cannot be started: exec: \"./no-such-program\""},
		{args: "--database sqlite:" + missing, want: "there is no directory"},
		{args: "--database sqlite:" + broken, want: "cannot be used"},
		{args: "--database postgres://nobody:s3cret@127.0.0.1:1/none?sslmode=disable", want: "wrong  database"},
		{args: "--database postgres://nobody@127.0.0.1:1/none?sslmode=disable", env: "BATON_NATS=nats://u:s3cret@127.0.0.1:1", want: "NATS cannot be used: nats: no servers available"},
		{args: "--listen 192.0.2.1:80 --insecure", want: "Cannot listen on 192.0.2.1:80"},
		{args: "--admin-listen " + s.Addr() + "0", want: "admin_listen"},
		{file: "attachments: {directory: baton.yaml}\n", want: "Attachments cannot be stored in baton.yaml"},
		{file: "attachments: {directory: /proc/files}\n", want: "Attachments cannot be stored in /proc/files"},
		{file: "attachments: {url: 's3://none?region=x&use_path_style=true&endpoint=http://127.0.0.1:1'}\n", want: "The bucket in attachments.url cannot be used"},
		{file: "auth: {mode: jwt, secret_file: missing}\n", want: "secret_file"},
		{file: "auth: {mode: jwt}\n", env: "BATON_JWT_SECRET=short", want: "bytes can be guessed"},
		{file: "auth: {mode: jwt, jwks_url: 'http://127.0.0.1:1/keys', issuer: i, audience: [a]}\n", want: "cannot be fetched from auth.jwks_url"},
		{file: "auth: {mode: jwt, jwks_url: '" + s.URL() + "/healthz', issuer: i, audience: [a]}\n", want: "has no key that could be used"},
		{env: "OTEL_TRACES_EXPORTER=jaeger", want: "wrong  traces"},
		{args: "--database sqlite:/proc/baton.db", want: "is not writable"},
	} {
		t.Run(w.want, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "none")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "none")
			t.Chdir(t.TempDir())
			if w.file != "" {
				put(t, "baton.yaml", w.file)
			}
			if key, value, ok := strings.Cut(w.env, "="); ok {
				t.Setenv(key, value)
			}
			args := append([]string{"doctor"}, strings.Fields(w.args)...)
			if !strings.Contains(w.args, "--listen") && w.file == "" {
				args = append(args, "--listen", cmdtest.Address())
			}
			r := baton(t.Context(), args...).want(t, 1)
			if !strings.Contains(r.stdout, w.want) || strings.Contains(r.stdout, "s3cret") {
				t.Errorf("got\n%s\nwant %q", r.stdout, w.want)
			}
			for line := range strings.Lines(baton(t.Context(), append(args, "--json")...).stdout) {
				var f struct{ State, About, Text string }
				if err := json.Unmarshal([]byte(line), &f); err != nil || f.State == "" || f.Text == "" {
					t.Errorf("%v: %s", err, line)
				}
			}
		})
	}
}

// A server that is not ready is no other program, on either listener.
func TestDoctor_KnowsServerThatIsNotReady(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusNotFound} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"code":"not_ready","detail":"The database or a plugin is not well"}`)
		}))
		addr := other.Listener.Addr().String()
		for _, args := range [][]string{{"--listen", addr}, {"--listen", cmdtest.Address(), "--admin-listen", addr}} {
			out := baton(t.Context(), append([]string{"doctor"}, args...)...).want(t, 1).stdout
			if got, want := strings.Contains(out, "Stop the program"), status != http.StatusServiceUnavailable; got != want {
				t.Errorf("%d %v: got\n%s", status, args, out)
			}
		}
		other.Close()
	}
}

func TestDoctor_ReachesPostgresAndNATS(t *testing.T) {
	t.Setenv("BATON_NATS", natstest.Start(t, "").URL)
	t.Chdir(t.TempDir())
	url := storagetest.Postgres(t).NewDatabase(t)
	args := []string{"doctor", "--database", url, "--listen", cmdtest.Address()}
	if r := baton(t.Context(), args...).want(t, 0); !strings.Contains(r.stdout, "is reachable (PostgreSQL ") || !strings.Contains(r.stdout, "and has no tables of Baton") ||
		!strings.Contains(r.stdout, "NATS is reachable") {
		t.Errorf("got\n%s", r.stdout)
	}
}

// The test lets transactions be older than they are, and the queue fuller.
func TestDoctor_NamesOldSnapshotsOfPostgres(t *testing.T) {
	t.Chdir(t.TempDir())
	url := storagetest.Postgres(t).NewDatabase(t)
	db, err := sql.Open("postgres", url)
	must(t, err)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `
CREATE FUNCTION pg_notification_queue_usage() RETURNS float8 LANGUAGE sql AS 'SELECT 0.2::float8';
CREATE VIEW pg_stat_activity AS
SELECT pid, usename, application_name, client_addr, datname, backend_type, backend_xmin, backend_xid, xact_start - interval '10 minutes' AS xact_start
FROM pg_catalog.pg_stat_activity WHERE pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	dump, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(t, err)
	defer dump.Rollback() //nolint:errcheck // it is over then
	var pid int
	must(t, dump.QueryRowContext(t.Context(), "SELECT pg_backend_pid() FROM set_config('application_name', 'pg_dump', TRUE)").Scan(&pid))
	args := []string{"doctor", "--database", url + "&search_path=public,pg_catalog", "--listen", cmdtest.Address()}
	session := fmt.Sprintf(`Session %d (application_name "pg_dump", user postgres at 127.0.0.1) has had a snapshot of the database since `, pid)
	if r := baton(t.Context(), args...).want(t, 0); !strings.Contains(r.stdout, session) || strings.Contains(r.stdout, "queue of notifications") {
		t.Errorf("got\n%s\nwant %s", r.stdout, session)
	}
	_, err = db.ExecContext(t.Context(), `CREATE OR REPLACE FUNCTION pg_notification_queue_usage() RETURNS float8 LANGUAGE sql AS 'SELECT 0.3::float8'`)
	must(t, errors.Join(err, dump.Rollback()))
	if r := baton(t.Context(), args...).want(t, 1); strings.Contains(r.stdout, "snapshot") || !strings.Contains(r.stdout, "queue of notifications is 30 % full") {
		t.Errorf("got\n%s", r.stdout)
	}
}

func TestDoctor_AcceptsCompleteInstallation(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	certstest.Write(t, dir, "localhost", time.Now().Add(365*24*time.Hour))
	put(t, "secret", strings.Repeat("s", 40))
	collector := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	put(t, "baton.yaml", "tls: {cert_file: cert.pem, key_file: key.pem}\nauth: {mode: jwt, secret_file: secret}\n"+
		"agents:\n  helper: {provider: openai, model: m, api_key: k}\n")
	r := baton(t.Context(), "doctor", "--listen", cmdtest.Address(), "--admin-listen", cmdtest.Address()).want(t, 0)
	for _, want := range []string{
		"ok     settings", "ok     agents", "ok     database", "ok     files", "ok     accounts", "ok     tls", "ok     listen", "ok     admin", "ok     traces",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(r.stdout, "wrong") {
		t.Error("doctor reports a fault")
	}
	if t.Failed() {
		t.Log(r.stdout)
	}
}

func TestDoctor_NamesTrustedProxies(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	certstest.Write(t, dir, "localhost", time.Now().Add(365*24*time.Hour))
	for file, want := range map[string]bool{
		"{}\n":                     false,
		"hosts: [baton.example]\n": true,
		"insecure: true\n":         true,
		"hosts: [baton.example]\ntrusted_proxies: [10.0.0.0/8]\n":                 false,
		"hosts: [baton.example]\ntls: {cert_file: cert.pem, key_file: key.pem}\n": false,
	} {
		put(t, "baton.yaml", file)
		r := baton(t.Context(), "doctor", "--listen", cmdtest.Address(), "--database", database(t)).want(t, 0)
		if got := strings.Contains(r.stdout, "note   proxy     trusted_proxies is empty"); got != want {
			t.Errorf("%s: got\n%s", file, r.stdout)
		}
	}
}

func TestDoctor_ChecksCollector(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+ln.Addr().String()+"/v1")
	look := func() string {
		return baton(t.Context(), "doctor", "--listen", cmdtest.Address(), "--database", database(t)).want(t, 0).stdout
	}
	if got := look(); !strings.Contains(got, "ok     traces    The OTEL_ variables send spans to "+ln.Addr().String()) {
		t.Errorf("got\n%s", got)
	}
	_ = ln.Close()
	if got := look(); !strings.Contains(got, "note   traces    The collector in the OTEL_ variables is not reachable") {
		t.Errorf("got\n%s", got)
	}
}

func TestDoctor_NotesMissingKeys(t *testing.T) {
	for name, db := range map[string]string{"no file": "sqlite:" + filepath.Join(t.TempDir(), "new.db"), "sqlite": database(t), "postgres": storagetest.Postgres(t).NewDatabase(t)} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			put(t, "baton.yaml", "auth: {mode: api-key}\ndatabase: "+db+"\nlisten: "+cmdtest.Address()+"\n")
			keyless := func() bool {
				return strings.Contains(baton(t.Context(), "doctor").want(t, 0).stdout, "note   accounts  There is no valid API key")
			}
			if !keyless() {
				t.Error("no note without a key")
			}
			r := baton(t.Context(), "keys", "create", "--user", "alice", "--project", "p1").want(t, 0)
			if keyless() {
				t.Error("a note with a valid key")
			}
			baton(t.Context(), "keys", "revoke", strings.Split(r.stdout, "_")[1]).want(t, 0)
			if !keyless() {
				t.Error("no note after the key was revoked")
			}
		})
	}
}
