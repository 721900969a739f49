package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func TestServe_PrintsURLAndStops(t *testing.T) {
	db := database(t)
	var stdout, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Stdout: &stdout, Stderr: &stderr,
		Args: []string{"serve", "--listen", "127.0.0.1:0", "--database", db},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx) }()
	stdout.until(t, "try: curl ")
	line, _, _ := strings.Cut(stdout.String(), "\n")
	url := strings.Fields(line)[4]
	if line != "baton is serving on "+url+" ("+db+")" {
		t.Errorf("got %q", line)
	}
	baton(t.Context(), "health", "--server", url).want(t, 0)
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d, want 0\n%s", got, &stderr)
	}
	baton(t.Context(), "health", "--server", url).want(t, 1)
}

func TestServe_SecondServerNamesFirst(t *testing.T) {
	db := database(t)
	s := serve(t, db)
	for _, args := range []string{"serve --listen 127.0.0.1:0", "migrate"} {
		r := baton(t.Context(), append(strings.Fields(args), "--database", db)...).want(t, 1)
		if !strings.Contains(r.stderr, "another server has the database: it listens on "+s.Addr()) {
			t.Errorf("%s: got %q", args, r.stderr)
		}
	}
}

func TestMigrate_CreatesDatabase(t *testing.T) {
	db := database(t)
	baton(t.Context(), "migrate", "--database", db).want(t, 0)
	if _, err := os.Stat(strings.TrimPrefix(db, "sqlite:")); err != nil {
		t.Error(err)
	}
}

func TestBackup_BesideServerContainsRuns(t *testing.T) {
	db := database(t)
	serve(t, db)
	baton(t.Context(), "run", "--database", db, "--thread", "kept", "echo", "hello").want(t, 0)
	copied := filepath.Join(t.TempDir(), "copy.db")
	baton(t.Context(), "backup", "--database", db, copied).want(t, 0)
	if r := baton(t.Context(), "backup", "--database", db, copied).want(t, 1); !strings.Contains(r.stderr, "exists") {
		t.Errorf("a backup over another: %q", r.stderr)
	}

	s := serve(t, "sqlite:"+copied)
	res, err := http.Get(s.URL() + "/api/projects/default/agent-runs?threadId=kept")
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Items []struct{ Status, InputQuery string }
	}
	must(t, json.NewDecoder(res.Body).Decode(&list))
	if len(list.Items) != 1 || list.Items[0].Status != "COMPLETED" || list.Items[0].InputQuery != "hello" {
		t.Errorf("the copy holds %+v", list.Items)
	}
}

func TestRestore_BringsRunsBack(t *testing.T) {
	db := database(t)
	threads := func() (n int) {
		s := serve(t, db)
		defer func() { _ = s.Shutdown(t.Context()) }()
		res, err := http.Get(s.URL() + "/api/v1/threads")
		must(t, err)
		defer func() { _ = res.Body.Close() }()
		var list struct{ Items []struct{} }
		must(t, json.NewDecoder(res.Body).Decode(&list))
		return len(list.Items)
	}
	baton(t.Context(), "run", "--database", db, "--thread", "first", "echo", "hello").want(t, 0)
	copied := filepath.Join(t.TempDir(), "copy.db")
	baton(t.Context(), "backup", "--database", db, copied).want(t, 0)
	baton(t.Context(), "run", "--database", db, "--thread", "second", "echo", "hello").want(t, 0)
	if n := threads(); n != 2 {
		t.Fatalf("%d threads, want 2", n)
	}
	r := baton(t.Context(), "restore", "--database", db, copied).want(t, 0)
	kept := strings.TrimSpace(r.stdout[strings.LastIndex(r.stdout, " "):])
	if n := threads(); n != 1 {
		t.Errorf("%d threads after restore, want 1", n)
	}
	baton(t.Context(), "restore", "--database", db, "--discard", kept).want(t, 0)
	if n := threads(); n != 2 {
		t.Errorf("%d threads after going back, want 2", n)
	}
	s := serve(t, db)
	if r := baton(t.Context(), "restore", "--database", db, copied).want(t, 1); !strings.Contains(r.stderr, s.Addr()) {
		t.Errorf("beside a server: got %q", r.stderr)
	}
}

func TestServe_StoresAttachmentsInBucket(t *testing.T) {
	put := make(chan string, 1)
	bucket := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		put <- r.Method + " " + r.URL.Path
	}))
	defer bucket.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("BATON_ATTACHMENTS_URL", "s3://files?region=eu-central-1&use_path_style=true&endpoint="+bucket.URL)
	var stdout, stderr output
	p := cmd.Program{
		Plugins: builtin.Plugins(), Stdout: &stdout, Stderr: &stderr,
		Args: []string{"serve", "--listen", "127.0.0.1:0", "--database", database(t)},
	}
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- p.Run(ctx) }()
	defer func() {
		cancel()
		if got := <-code; got != 0 {
			t.Errorf("exit code %d\n%s", got, &stderr)
		}
	}()
	stdout.until(t, "try: curl ")
	line, _, _ := strings.Cut(stdout.String(), "\n")

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", "a.txt")
	if err == nil {
		_, err = io.WriteString(file, "hello")
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(strings.Fields(line)[4]+"/api/v1/agent/attachments", w.FormDataContentType(), &form)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("status %d\n%s", res.StatusCode, &stderr)
	}
	select {
	case got := <-put:
		if !strings.HasPrefix(got, "PUT /files/default/agent-inputs/local/") {
			t.Errorf("the bucket got %s", got)
		}
	default:
		t.Error("the file is not in the bucket")
	}
}

func TestServe_StopsWhileWaitingForDatabase(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // ends with ln
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 1)) // the server has connected
		stop()
	}()
	r := baton(ctx, "serve", "--listen", "127.0.0.1:0", "--database", "postgres://postgres@"+ln.Addr().String()+"/x?sslmode=disable")
	if r.code != 0 || !strings.Contains(r.stderr, "stopped before it was ready") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
