package monitor_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

var update = flag.Bool("update", false, "write the golden files anew")

var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|id: [0-9a-f]{12}|"duration_ms":[0-9]+`)

// masker replaces what differs from run to run, ids by their order.
func masker() func(string) string {
	names := make(map[string]string)
	return func(s string) string {
		return varying.ReplaceAllStringFunc(s, func(v string) string {
			switch {
			case strings.HasPrefix(v, "id: "):
				return "id: <epoch>"
			case strings.HasPrefix(v, `"dur`):
				return `"duration_ms":<ms>`
			case names[v] == "":
				names[v] = fmt.Sprintf("<id %d>", len(names)+1)
			}
			return names[v]
		})
	}
}

func TestTranscripts(t *testing.T) {
	const tools = `{"say": "hello world"}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"tool": "fail", "args": {"message": "<no>"}}`
	for name, run := range map[string]func(s *server){
		"tools":    func(s *server) { s.script(local, "first", tools) },
		"subagent": func(s *server) { s.start(local, "lead", "", "first", "hi there") },
		"failure":  func(s *server) { s.script(local, "first", `{"say": "so far"}, {"fail": "no luck", "code": "unlucky"}`) },
		"waiting":  func(s *server) { s.script(local, "first", `{"ask": {"message": "Deploy?"}}`) },
		"cancelled": func(s *server) {
			r := s.get("/api/v1/events")
			s.start(local, "typist", "", "first", "x")
			s.keys <- "abc"
			r.until(`"text":"abc"`)
			if _, err := s.rt.Cancel(context.Background(), local, "first"); err != nil {
				s.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{})
			paths := []string{"/api/v1/events", "/api/v1/agents/stream?agent=echo", "/api/v1/agui/events"}
			var open []*response
			for _, path := range paths {
				open = append(open, s.get(path))
			}
			began := make([]string, len(open))
			for i, r := range open {
				began[i] = r.next()
			}
			run(s)
			mark(s)
			var text strings.Builder
			for i, r := range open {
				mask := masker()
				fmt.Fprintf(&text, "-- GET %s --\n< %s\n", paths[i], r.Status)
				for _, header := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering"} {
					fmt.Fprintf(&text, "< %s: %s\n", header, r.Header.Get(header))
				}
				all := began[i] + r.until(`"thread_id":"t-mark"`)
				all = all[:strings.LastIndex(strings.TrimSuffix(all, "\n\n"), "\n\n")+2]
				fmt.Fprintf(&text, "\n%s", mask(all))
			}
			path := filepath.Join("testdata", name+".txtar")
			if *update {
				if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// mark waits until what runs has ended, and then shows a token on every stream.
func mark(s *server) {
	s.Helper()
	s.ended("first")
	s.start(local, "echo", "", "mark", "mark")
}

// ended waits until a run of the local user is at rest.
func (s *server) ended(run string) {
	s.Helper()
	s.eventually("run "+run+" rests", func() bool {
		r, err := s.rt.Run(context.Background(), local, run)
		return err == nil && (r.Status.Final() || r.Status == runtime.Waiting)
	})
}
