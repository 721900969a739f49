package sse_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
)

// Viewers who wait at the end of a log are written to together. Those who read slowly, come later, leave or speak
// HTTP/1.0 get the same events as the others, and none of them twice.
func TestCrowdOfUnlikeViewers(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]transports.StreamConfig{
		"paced": {PaceAbove: 1, SendBuffer: 4 << 10}, "unpaced": {PaceAbove: 1 << 20, SendBuffer: 4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, cfg)
			for range 3 { // one after the other
				s.Script("main", `{"tokens": 300, "size": 1000, "delayMs": 1}, {"say": "and done"}`)
			}
			var viewers sync.WaitGroup
			var mu sync.Mutex
			got := make(map[string]string)
			for kind, view := range map[string]func() string{
				"quick":   func() string { return s.get("main", "").All() },
				"slow":    func() string { return slowly(s.Dial(watch("1.0", ""))) },
				"of old":  func() string { return body(s.Dial(watch("1.0", ""))) },
				"leaving": func() string { return s.inParts() },
			} {
				for i := range 8 {
					viewers.Go(func() {
						stream := view()
						mu.Lock()
						defer mu.Unlock()
						got[fmt.Sprint(kind, " ", i)] = strings.Join(frames(stream), "")
					})
				}
			}
			viewers.Wait()
			want := got["quick 0"]
			if n := strings.Count(want, "event: RUN_FINISHED\n"); n != 3 {
				t.Fatalf("the log shows the end of %d runs, want 3", n)
			}
			for kind, stream := range got {
				if stream != want {
					t.Errorf("%s got %d bytes of events, want %d", kind, len(stream), len(want))
				}
			}
			for i, f := range frames(want) {
				if !strings.HasPrefix(f, fmt.Sprintf("id: %d\n", i+1)) {
					t.Fatalf("event %d is %.200s", i+1, f)
				}
			}
		})
	}
}

// slowly reads an answer in small pieces, so that its server cannot write as it likes.
func slowly(c *net.TCPConn) string {
	_ = c.SetReadBuffer(64 << 10)
	var all bytes.Buffer
	for buf := make([]byte, 16<<10); ; {
		n, err := c.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			return body(&all)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// body is the body of an answer that ends with its connection.
func body(r io.Reader) string {
	all, _ := io.ReadAll(r)
	_, b, _ := strings.Cut(string(all), "\r\n\r\n")
	return b
}

// inParts reads the thread as a client does that is cut off now and then, and resumes.
func (s *server) inParts() string {
	var all strings.Builder
	for last := 0; ; {
		r := s.get("main", "", "Last-Event-ID", fmt.Sprint(last))
		if r.StatusCode == http.StatusNoContent {
			return all.String()
		}
		for range 1 + rand.N(200) {
			b, err := r.Block()
			if err != nil {
				return all.String()
			}
			if strings.Contains(b, "data: ") {
				all.WriteString(strings.TrimPrefix(b, "retry: 1000\n"))
				last++
			}
		}
		r.Drop()
	}
}
