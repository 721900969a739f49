package transporttest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares a text with testdata/name.txtar. With the flag -update it writes the file, for a person to read
// the diff.
func Golden(tb testing.TB, name, text string) {
	tb.Helper()
	file := filepath.Join("testdata", name+".txtar")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); diff != "" {
		tb.Errorf("%s differs (run with -update and read the diff):\n%s", file, diff)
	}
}

var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

var aTime = regexp.MustCompile(`"timestamp":\d+`)

// IDMask returns a function that replaces ids, which differ from run to run, by <id 1>, <id 2> … in the order they appear, and
// events' times by <ms>.
func IDMask() func(string) string {
	names := make(map[string]string)
	return func(s string) string {
		s = aTime.ReplaceAllString(s, `"timestamp":<ms>`)
		return anID.ReplaceAllStringFunc(s, func(id string) string {
			if names[id] == "" {
				names[id] = fmt.Sprintf("<id %d>", len(names)+1)
			}
			return names[id]
		})
	}
}

// Transcript is a list of requests and answers, frame by frame, with masked ids.
type Transcript struct {
	s    *Server
	text bytes.Buffer
	mask func(string) string
}

// Transcript returns an empty transcript.
func (s *Server) Transcript() *Transcript { return &Transcript{s: s, mask: IDMask()} }

// Say sends a request as Do does, and appends it and its answer.
func (tr *Transcript) Say(method, path, body string, header ...string) {
	tr.s.Helper()
	r := tr.s.Do(method, path, body, header...)
	fmt.Fprintf(&tr.text, "-- %s %s --\n", method, path)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&tr.text, "> %s: %s\n", header[i], header[i+1])
	}
	if body != "" {
		fmt.Fprintf(&tr.text, "> %s\n", body)
	}
	fmt.Fprintf(&tr.text, "< %s\n", r.Status)
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering", "Connection"} {
		if v := r.Header.Get(name); v != "" {
			fmt.Fprintf(&tr.text, "< %s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&tr.text, "%s\n", tr.mask(r.All()))
}

// Golden compares the transcript with testdata/name.txtar.
func (tr *Transcript) Golden(name string) {
	tr.s.Helper()
	Golden(tr.s, name, tr.text.String())
}
