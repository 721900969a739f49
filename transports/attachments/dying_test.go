package attachments_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage/blob/cloud"
)

// mortal is as much of a service that speaks S3 as attachments need. Told to die it breaks off each request in the middle.
type mortal struct {
	dead  atomic.Bool
	looks atomic.Int64 // for files that are to be deleted

	mu   sync.Mutex // guards the field below
	kept map[string][]byte
}

func (m *mortal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		m.looks.Add(1)
	}
	if m.dead.Load() && r.Method != http.MethodGet {
		_, _ = io.CopyN(io.Discard, r.Body, 2)
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, there := m.kept[r.URL.Path]
	switch r.Method {
	case http.MethodPut:
		if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			body = unchunked(body)
		}
		m.kept[r.URL.Path] = body
		w.Header().Set("ETag", `"0"`)
	case http.MethodDelete:
		delete(m.kept, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet:
		if !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", `"0"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if m.dead.Load() {
			_, _ = w.Write(data[:len(data)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(data)
	}
}

// unchunked returns the data of signed chunks, each of which begins with a line of its size in hexadecimal and its signature.
func unchunked(body []byte) (data []byte) {
	for {
		head, rest, _ := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := bytes.Cut(head, []byte(";"))
		n, err := strconv.ParseInt(string(size), 16, 64)
		if err != nil || n == 0 || int(n)+2 > len(rest) {
			return data
		}
		data, body = append(data, rest[:n]...), rest[n+2:]
	}
}

func (m *mortal) keeps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept)
}

// reader is an agent that says what is in an attachment, and fails when it cannot read it.
type reader struct{}

func (reader) Info() plugins.Info { return plugins.Info{Name: "reader"} }

func (reader) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	last, _, err := run.Messages(ctx, 1)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	first := plugins.Attachments(&last[len(last)-1])[0]
	_, data, err := run.Attachment(ctx, first, 100)
	if err != nil {
		return agui.WorkerOutput{}, fmt.Errorf("attachment: %w", err)
	}
	return agui.WorkerOutput{Answer: string(data)}, nil
}

// TestAServiceThatDiesLosesNothingAndLeavesNothingHalf has the service with the files die in the middle of all that it is asked.
func TestAServiceThatDiesLosesNothingAndLeavesNothingHalf(t *testing.T) {
	service := &mortal{kept: make(map[string][]byte)}
	s3 := httptest.NewServer(service)
	defer s3.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	bucket, err := cloud.Open(t.Context(), "s3://files?region=eu-central-1&use_path_style=true&endpoint="+s3.URL)
	must(t, err)
	defer func() { _ = bucket.Close() }()
	s := serve(t, "", attach.Config{Blobs: bucket, Files: 3})
	text := file{"f", "a.txt", "", "hello, world"}
	up, _ := s.upload(text), s.upload(text)
	read := func(status runtime.Status) runtime.Run {
		t.Helper()
		metadata, _ := json.Marshal(map[string]any{"attachments": []any{up}})
		started, err := s.Runtime.StartRun(t.Context(), s.Caller, runtime.StartRequest{
			Agent: "reader", Messages: []agui.Message{{Role: agui.RoleUser, Content: "look", Metadata: metadata}},
		})
		must(t, err)
		s.Await(started.RunID, status)
		run, err := s.Runtime.Runs.Get(t.Context(), s.Caller, started.RunID)
		must(t, err)
		return run
	}
	if run := read(runtime.Completed); *run.OutputSummary != "hello, world" {
		t.Errorf("a worker reads %q", *run.OutputSummary)
	}

	service.dead.Store(true)
	for range 2 { // what did not come counts for nothing
		kind, body := form(text)
		if a := s.send("POST", uploads, kind, body); a.code() != "503 unavailable" || a.Header.Get("Retry-After") == "" {
			t.Errorf("an upload: %s", a.Body)
		}
	}
	if a := s.signed(up.Bucket, up.Path); a.Status != http.StatusOK || !strings.Contains(string(a.Body), s3.URL) {
		t.Errorf("a signed URL, which asks nobody: %d %s", a.Status, a.Body)
	}
	if run := read(runtime.Failed); run.Error == nil || run.Error.Code != "attachment_unavailable" || !run.Error.Retryable {
		t.Errorf("a run whose attachment breaks off fails with %+v", run.Error)
	}
	if a := s.send("DELETE", "/api/projects/default/users/local/data", "", nil); a.Status/100 != 2 {
		t.Errorf("all that a user has is deleted: %d %s", a.Status, a.Body)
	}
	if a := s.signed(up.Bucket, up.Path); a.code() != "404 attachment_not_found" {
		t.Errorf("what was deleted: %s", a.Body)
	}
	service.looks.Store(0)
	if err := s.Runtime.Uploads.Collect(t.Context()); err == nil {
		t.Error("files are removed of a service that is dead")
	}
	if n, tries := service.keeps(), service.looks.Load(); n != 2 || tries > 3 { // for the first file
		t.Errorf("the service keeps %d files, and was asked %d times about them", n, tries)
	}

	service.dead.Store(false)
	if err := s.Runtime.Uploads.Collect(t.Context()); err != nil {
		t.Error(err)
	}
	if n := service.keeps(); n != 0 {
		t.Errorf("the service that is back keeps %d files", n)
	}
	for range 3 {
		_ = s.upload(text)
	}
}
