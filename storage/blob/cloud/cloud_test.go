package cloud

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestBucket_TimesOut uses a service that does not answer, or stops in the middle of an answer.
func TestBucket_TimesOut(t *testing.T) {
	over := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/half") {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "hello")
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	}))
	defer service.Close()
	defer close(over)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	b, err := Open(t.Context(), "s3://files?region=eu-central-1&use_path_style=true&endpoint="+service.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	b.timeout = 50 * time.Millisecond
	for name, do := range map[string]func() error{
		"put": func() error { return b.Put(t.Context(), "a", "text/plain", "", strings.NewReader("hello")) },
		"put parts": func() error {
			return b.Put(t.Context(), "a", "text/plain", "", iotest.HalfReader(strings.NewReader(strings.Repeat("x", 3*part))))
		},
		"open": func() error {
			_, err := b.Open(t.Context(), "a")
			return err
		},
		"read": func() error {
			r, err := b.Open(t.Context(), "half")
			if err != nil {
				return err
			}
			defer func() { _ = r.Close() }()
			_, err = io.ReadAll(r)
			return err
		},
		"delete": func() error { return b.Delete(t.Context(), "a") },
	} {
		if err := do(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	slow := &pausing{r: strings.NewReader("hello"), wait: 4 * b.timeout}
	if err := b.Put(t.Context(), "a", "text/plain", "", slow); !errors.Is(err, os.ErrDeadlineExceeded) || slow.r.Len() > 0 {
		t.Errorf("a slow client: got %v, with %d unread", err, slow.r.Len())
	}
}

// pausing is a slow client.
type pausing struct {
	r    *strings.Reader
	wait time.Duration
}

func (p *pausing) Read(b []byte) (int, error) {
	<-time.After(p.wait)
	return p.r.Read(b)
}
