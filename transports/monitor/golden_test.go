package monitor_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

var (
	anEpoch   = regexp.MustCompile(`id: [0-9a-f]{12}`)
	aDuration = regexp.MustCompile(`"duration_ms":[0-9]+`)
)

// masker replaces values that differ from run to run.
func masker() func(string) string {
	ids := transporttest.IDMask()
	return func(s string) string {
		s = anEpoch.ReplaceAllString(ids(s), "id: <epoch>")
		return aDuration.ReplaceAllString(s, `"duration_ms":<ms>`)
	}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	const tools = `{"say": "hello world"}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"tool": "fail", "args": {"message": "<no>"}}`
	const finished, failed = `"type":"RUN_FINISHED"`, `"type":"RUN_ERROR"`
	ends := map[string]string{"tools": finished, "subagent": finished, "failure": failed, "waiting": finished, "cancelled": failed}
	for name, run := range map[string]func(s *server){
		"tools":    func(s *server) { s.script("first", tools) },
		"subagent": func(s *server) { s.start("lead", "first", "hi there") },
		"failure":  func(s *server) { s.script("first", `{"say": "so far"}, {"fail": "no luck", "code": "unlucky"}`) },
		"waiting":  func(s *server) { s.script("first", `{"ask": {"message": "Deploy?"}}`) },
		"cancelled": func(s *server) {
			r := s.get("/api/v1/events")
			s.start("typist", "first", "x")
			s.Keys <- "abc"
			r.Until(`"text":"abc"`)
			if _, err := s.Runtime.Cancel(context.Background(), local, "first"); err != nil {
				s.Error(err)
			}
		},
	} {
		transcript := func(t *testing.T, s, watched *server) {
			t.Helper()
			paths := []string{"/api/v1/events", "/api/v1/agents/stream?agent=echo", "/api/v1/agui/events"}
			var open []*response
			for _, path := range paths {
				open = append(open, watched.get(path))
			}
			began := make([]string, len(open))
			for i, r := range open {
				began[i] = r.Next()
			}
			seen := watched.get(paths[len(paths)-1])
			run(s)
			seen.Until(ends[name]) // logs of several threads are read in any order
			mark(s)
			var text strings.Builder
			for i, r := range open {
				mask := masker()
				fmt.Fprintf(&text, "-- GET %s --\n< %s\n", paths[i], r.Status)
				for _, header := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering"} {
					fmt.Fprintf(&text, "< %s: %s\n", header, r.Header.Get(header))
				}
				all := began[i] + r.Until(`"thread_id":"t-mark"`)
				all = all[:strings.LastIndex(strings.TrimSuffix(all, "\n\n"), "\n\n")+2]
				fmt.Fprintf(&text, "\n%s", mask(all))
			}
			transporttest.Golden(t, name, text.String())
		}
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{})
			transcript(t, s, s)
		})
		t.Run(name+" elsewhere", func(t *testing.T) {
			database := postgrestest.New(t)
			s := serveCluster(t, database)
			transcript(t, s, serveCluster(t, database))
		})
	}
}

// mark waits until the runs have ended, and then shows a token on every stream.
func mark(s *server) {
	s.Helper()
	s.ended("first")
	s.start("echo", "mark", "mark")
}

// ended waits until a run of the local user is at rest.
func (s *server) ended(run string) {
	s.Helper()
	s.Eventually("run "+run+" rests", func() bool {
		r, err := s.Runtime.Runs.Get(context.Background(), local, run)
		return err == nil && (r.Status.Final() || r.Status == runtime.Waiting)
	})
}
