package baton_test

import (
	"crypto/tls"
	"database/sql"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/storage/storagetest"
	"github.com/batonrun/baton/transports/certs/certstest"
)

// probe requests url until the answer has the status and the text.
func probe(t *testing.T, client *http.Client, url string, status int, text string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		res, err := client.Get(url)
		if err != nil {
			got = err.Error()
			continue
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got = res.Status + " " + string(body); res.StatusCode == status && strings.Contains(got, text) {
			return
		}
	}
	t.Fatalf("%s: %s, want %d %s", url, got, status, text)
}

// A server waits for a database that is away, and says so to those who ask whether it lives.
func TestStart_AnswersWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certstest.Write(t, dir, "test", time.Now().Add(time.Hour))
	cluster := storagetest.StartPostgres(t)
	db := cluster.NewDatabase(t)
	must(t, cluster.Kill())
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	var check []func(path string, status int, text string)
	var urls []string
	started := make(chan error)
	for scheme, files := range map[string]baton.TLS{"http": {}, "https": {CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}} {
		addr, admin := cmdtest.Address(), cmdtest.Address()
		s, err := baton.New(baton.Config{Database: db, Listen: addr, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Tuning: baton.Tuning{AdminListen: admin, TLS: files}})
		must(t, err)
		go func() { started <- s.Start(t.Context()) }()
		defer s.Close()
		urls = append(urls, scheme+"://"+addr)
		check = append(check, func(path string, status int, text string) {
			probe(t, web, scheme+"://"+addr+path, status, text)
			if status != http.StatusOK {
				text = "connection refused" // the operators' listener has the reason
			}
			probe(t, http.DefaultClient, "http://"+admin+path, status, text)
		})
	}
	for _, c := range check {
		c("/healthz", http.StatusOK, "ok")
		c("/readyz", http.StatusServiceUnavailable, "The server waits for its database")
	}
	for _, url := range urls {
		if res, err := web.Get(url + "/api/v1/agents"); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s answers %s, with which a browser's EventSource would end", url, res.Status)
		}
	}
	must(t, cluster.Start())
	for range check {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range check {
		c("/healthz", http.StatusOK, "ok")
		c("/readyz", http.StatusOK, "ready")
	}
}

// A server waits for a SQLite file that another program has locked, and says so to those who ask whether it lives.
func TestStart_WaitsForALockedFile(t *testing.T) {
	t.Parallel() // SQLite itself waits ten seconds
	path, addr := sqlitetest.New(t), cmdtest.Address()
	other, err := sql.Open("sqlite", path)
	must(t, err)
	defer other.Close()
	other.SetMaxOpenConns(1)
	for _, code := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "CREATE TABLE theirs (id)"} {
		if _, err := other.ExecContext(t.Context(), code); err != nil {
			t.Fatal(err)
		}
	}
	s, err := baton.New(baton.Config{Database: "sqlite:" + path, Listen: addr, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(t, err)
	started := make(chan error, 1)
	go func() { started <- s.Start(t.Context()) }()
	defer s.Close()
	probe(t, http.DefaultClient, "http://"+addr+"/healthz", http.StatusOK, "ok")
	probe(t, http.DefaultClient, "http://"+addr+"/readyz", http.StatusServiceUnavailable, "The server waits for its database")
	must(t, other.Close())
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	probe(t, http.DefaultClient, "http://"+addr+"/readyz", http.StatusOK, "ready")
}

// A program that does not listen learns at once that the database is away.
func TestStart_FailsWithoutAListener(t *testing.T) {
	t.Parallel()
	s, err := baton.New(baton.Config{Database: "postgres://baton@" + cmdtest.Address() + "/baton?sslmode=disable"})
	must(t, err)
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
}

// A server notices that its file is gone, and serves again when it is back.
func TestReady_NamesAMissingFile(t *testing.T) {
	t.Parallel()
	path := sqlitetest.New(t)
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Database: "sqlite:" + path})
	probe(t, http.DefaultClient, s.URL()+"/readyz", http.StatusOK, "ready")
	must(t, os.Rename(path, path+".away"))
	probe(t, http.DefaultClient, s.URL()+"/readyz", http.StatusServiceUnavailable, "database_missing")
	must(t, os.Rename(path+".away", path))
	probe(t, http.DefaultClient, s.URL()+"/readyz", http.StatusOK, "ready")
}
