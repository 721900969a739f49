package attachments_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage/blob"
)

// away keeps blobs where one cannot get at them, once it is told to.
type away struct {
	runtime.Blobs
	err    error        // nil for what works
	silent bool         // nothing is ever deleted
	deaf   bool         // nothing is ever stored
	asked  atomic.Int64 // to store or to delete something

	stuck map[string]bool // what cannot be deleted
}

func (a *away) Put(ctx context.Context, key, kind, disposition string, r io.Reader) error {
	a.asked.Add(1)
	if a.deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	if a.err != nil {
		_, _ = io.Copy(io.Discard, r)
		return a.err
	}
	return a.Blobs.Put(ctx, key, kind, disposition, r)
}

func (a *away) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if a.err != nil {
		return nil, a.err
	}
	return a.Blobs.Open(ctx, key)
}

// Delete may be silent for as long as one lets it be.
func (a *away) Delete(ctx context.Context, key string) error {
	a.asked.Add(1)
	if a.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if a.stuck[key] {
		return errors.New("access denied")
	}
	return a.Blobs.Delete(ctx, key)
}

// TestFilesThatCannotBeRemovedHoldUpNoOthers has the bucket be read-only for more files than are removed at once.
func TestFilesThatCannotBeRemovedHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blobs := &away{Blobs: blob.NewDirectory(dir), stuck: make(map[string]bool)}
	s := serve(t, "", attach.Config{Blobs: blobs})
	left := func() (n int) {
		_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, _ error) error {
			if !d.IsDir() {
				n++
			}
			return nil
		})
		return n
	}
	for i := range 201 {
		up := s.upload(file{"f", "a.txt", "", "hello"})
		blobs.stuck[attach.Key("default", "local", up.Path)] = i < 200
	}
	if n, err := s.Runtime.Uploads.Expire(t.Context(), "default", "local", time.Now().Add(time.Minute), false); n != 201 || err != nil {
		t.Fatal(n, err)
	}
	for _, want := range []int{201, 200} {
		err := s.Runtime.Uploads.Collect(t.Context())
		if n := left(); n != want {
			t.Errorf("%d files are left, want %d: %v", n, want, err)
		}
		if want == 201 && (err == nil || strings.Count(err.Error(), "access denied") != 1 || !strings.Contains(err.Error(), "200 files")) {
			t.Errorf("got %v", err)
		}
	}
	clear(blobs.stuck)
	for range 2 {
		if err := s.Runtime.Uploads.Collect(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := left(); n != 0 {
		t.Errorf("%d files are left of what can be removed again", n)
	}
}

// TestFilesThatAreOutOfReachAreNobodysFault has the place of files fail, and be silent.
func TestFilesThatAreOutOfReachAreNobodysFault(t *testing.T) {
	t.Parallel()
	blobs := &away{Blobs: blob.NewDirectory(t.TempDir())}
	s := serve(t, "", attach.Config{Blobs: blobs, Files: 2})
	text := file{"f", "a.txt", "", "hello"}
	up := s.upload(text)
	url := s.urlOf(up)

	blobs.err = errors.New("no space left on device")
	for range 3 { // what did not come counts for nothing
		kind, body := form(text)
		a := s.send("POST", uploads, kind, body)
		if a.code() != "503 unavailable" || a.Header.Get("Retry-After") == "" || strings.Contains(string(a.Body), "device") {
			t.Errorf("an upload: %s", a.Body)
		}
	}
	if a := s.send("GET", url, "", nil); a.code() != "503 unavailable" {
		t.Errorf("a download: %s", a.Body)
	}
	if _, err := s.Runtime.Uploads.Expire(t.Context(), "default", "local", time.Now().Add(time.Minute), false); err != nil {
		t.Fatal(err)
	}
	started, err := s.Runtime.StartRun(t.Context(), s.Caller, runtime.StartRequest{
		Agent: "echo", ThreadID: "t", Messages: []agui.Message{{Role: agui.RoleUser, Content: "hello"}},
	})
	must(t, err)
	s.Await(started.RunID, runtime.Completed)
	blobs.silent = true
	if a := s.send("DELETE", "/api/v1/threads/t", "", nil); a.Status != http.StatusNoContent { // which looks for files that can go
		t.Errorf("a thread that is deleted: %d %s", a.Status, a.Body)
	}
	blobs.err, blobs.silent = nil, false
	if err := s.Runtime.Uploads.Collect(t.Context()); err != nil {
		t.Error(err)
	}
	if a := s.send("GET", url, "", nil); a.code() != "404 attachment_not_found" {
		t.Errorf("a download of what has gone: %s", a.Body)
	}
}

// TestWhoDeletesWaitsOnceForFiles has the place of files be silent while the janitor removes one, and somebody deletes all that is theirs.
func TestWhoDeletesWaitsOnceForFiles(t *testing.T) {
	t.Parallel()
	blobs := &away{Blobs: blob.NewDirectory(t.TempDir()), silent: true}
	s := serve(t, "", attach.Config{Blobs: blobs})
	s.upload(file{"f", "a.txt", "", "hello"})
	if _, err := s.Runtime.Uploads.Expire(t.Context(), "default", "local", time.Now().Add(time.Minute), false); err != nil {
		t.Fatal(err)
	}
	remove := func() {
		for _, thread := range []string{"a", "b", "c"} {
			started, err := s.Runtime.StartRun(t.Context(), s.Caller, runtime.StartRequest{
				Agent: "echo", ThreadID: thread, Messages: []agui.Message{{Role: agui.RoleUser, Content: "hello"}},
			})
			must(t, err)
			s.Await(started.RunID, runtime.Completed)
		}
		if a := s.send("DELETE", "/api/projects/default/users/local/data", "", nil); a.Status != http.StatusNoContent {
			t.Errorf("all that a user has is deleted: %d %s", a.Status, a.Body)
		}
	}
	if remove(); blobs.asked.Load() != 2 {
		t.Errorf("who deletes three threads asks for the file to be deleted %d times", blobs.asked.Load()-1)
	}

	ctx, cancel := context.WithCancel(t.Context())
	janitor := make(chan error, 1)
	go func() { janitor <- s.Runtime.Uploads.Collect(ctx) }() // ends with ctx
	for blobs.asked.Load() != 3 {
		<-time.After(time.Millisecond)
	}
	remove() // which does not wait for the janitor
	cancel()
	if err := <-janitor; err == nil {
		t.Error("the janitor was done before")
	}
}

// TestAServerThatStopsWaitsForNoSilentPlace stops a server while a file is on its way.
func TestAServerThatStopsWaitsForNoSilentPlace(t *testing.T) {
	t.Parallel()
	blobs := &away{Blobs: blob.NewDirectory(t.TempDir()), deaf: true}
	s := serve(t, "", attach.Config{Blobs: blobs})
	kind, body := form(file{"f", "a.txt", "", "hello"})
	given := make(chan string, 1)
	go func() { // ends with the server
		defer close(given)
		res, err := s.http.Post(s.URL+uploads, kind, body)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		given <- string(text)
	}()
	for blobs.asked.Load() == 0 {
		<-time.After(time.Millisecond)
	}
	s.Stop()
	if answer := <-given; !strings.Contains(answer, `"stopping"`) {
		t.Errorf("the upload is answered with %s", answer)
	}
}

// TestAPartOfAFileIsNotTakenForAllOfIt has a file lose bytes in its place.
func TestAPartOfAFileIsNotTakenForAllOfIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, "", attach.Config{Blobs: blob.NewDirectory(dir)})
	up := s.upload(file{"f", "a.txt", "", "hello"})
	must(t, os.Truncate(filepath.Join(dir, "default", filepath.FromSlash(up.Path)), 3))
	metadata, _ := json.Marshal(map[string]any{"attachments": []any{up}})
	started, err := s.Runtime.StartRun(t.Context(), s.Caller, runtime.StartRequest{
		Agent: "opener", Messages: []agui.Message{{Role: agui.RoleUser, Content: "look", Metadata: metadata}},
	})
	must(t, err)
	s.Await(started.RunID, runtime.Completed)
	got, err := s.Runtime.Runs.Get(t.Context(), s.Caller, started.RunID)
	must(t, err)
	if got.OutputSummary == nil || strings.Contains(*got.OutputSummary, "nil") {
		t.Errorf("a worker gets %q, and no error", *got.OutputSummary)
	}
}
