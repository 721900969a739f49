package child

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// record is a log in memory.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func (r *record) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf.Reset()
}

func TestStandardError_ReportsDroppedLinesAtWindowEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out record
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() { // ends with w
			logLines(r, new(words), slog.New(slog.NewTextHandler(&out, nil)))
			close(done)
		}()
		const flood = 10_000
		write := func(n int) {
			for range n {
				fmt.Fprintln(w, "careful")
			}
			synctest.Wait()
		}
		write(flood)
		fit := strings.Count(out.String(), "msg=careful")
		if want := perWindow / (perLine + len("careful")); fit != want {
			t.Errorf("%d lines are logged, want %d", fit, want)
		}
		<-time.After(window - time.Nanosecond) // of the bubble's clock
		if strings.Contains(out.String(), "WARN") {
			t.Error("reported within the window")
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		want := fmt.Sprintf(`level=WARN msg="standard error is not all logged" lines=%d bytes=%d`, flood-fit, (flood-fit)*len("careful"))
		if got := out.String(); !strings.HasSuffix(got, want+"\n") {
			t.Errorf("got %s, want %s", got[max(0, len(got)-200):], want)
		}
		out.reset()
		write(1)
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=careful") {
			t.Errorf("in the next window: %s", got)
		}
		write(flood)
		_ = w.Close()
		<-done
		if got := out.String(); strings.Count(got, "WARN") != 1 || !strings.HasSuffix(got, fmt.Sprintf("lines=%d bytes=%d\n", flood+1-fit, (flood+1-fit)*len("careful"))) {
			t.Errorf("at the end: %s", got[max(0, len(got)-200):])
		}
	})
}
