package wire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins/llm/wire"
)

func all(r io.Reader) (list []string, err error) {
	events := wire.NewEvents(r)
	for {
		data, err := events.Next()
		if err != nil {
			return list, err
		}
		list = append(list, string(data))
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"names and ids":       {"event: a\nid: 1\ndata: one\n\nevent: b\ndata:two\n\n", []string{"one", "two"}},
		"comments":            {": hello\n\n:\n\ndata: one\n: in the middle\n\n", []string{"one"}},
		"several lines":       {"data: one\ndata:\ndata: two\n\n", []string{"one\n\ntwo"}},
		"windows":             {"data: one\r\n\r\ndata: two\r\n\r\n", []string{"one", "two"}},
		"a long line":         {"data: " + long + "\n\ndata: short\n\n", []string{long, "short"}},
		"cut before the end":  {"data: one\n\ndata: two\n", []string{"one"}},
		"cut in a line":       {"data: one\n\ndata: tw", []string{"one"}},
		"nothing":             {"", nil},
		"an event of no data": {"event: ping\n\ndata: one\n\n", []string{"one"}},
	} {
		got, err := all(strings.NewReader(test.stream))
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %.200s", name, diff)
		}
	}
}

func TestAnEndlessLineIsNotRead(t *testing.T) {
	_, err := all(io.MultiReader(strings.NewReader("data: "), endless{}))
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	_, err = all(strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 20) + "\n"))
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("many lines: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }
