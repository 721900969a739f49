package agui_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
)

// events returns the events of a stream, each with its id in front if it has one.
func events(r io.Reader, limit int) (list []string, err error) {
	reader := agui.NewReader(r, limit)
	for {
		id, data, err := reader.Next()
		if err != nil {
			return list, err
		}
		if id != "" {
			id += " "
		}
		list = append(list, id+string(data))
	}
}

func TestReader_FollowsTheStandard(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"names and ids":       {"event: a\nid: 1\ndata: one\n\nevent: b\ndata:two\n\n", []string{"1 one", "two"}},
		"invalid id":          {"id: \x00\ndata: one\n\nid: " + strings.Repeat("1", 201) + "\ndata: two\n\n", []string{"one", "two"}},
		"comments":            {": hello\n\n:\n\ndata: one\n: in the middle\n\n", []string{"one"}},
		"several lines":       {"data: one\ndata:\ndata: two\n\n", []string{"one\n\ntwo"}},
		"CRLF":                {"data: one\r\n\r\ndata: two\r\n\r\n", []string{"one", "two"}},
		"CR":                  {"data: one\r\rdata: two\r\r", []string{"one", "two"}},
		"mixed":               {"data: one\r\n\ndata: two\r\r\ndata: three\n\r", []string{"one", "two", "three"}},
		"byte order mark":     {"\uFEFFdata: one\n\n", []string{"one"}},
		"long line":           {"data: " + long + "\n\ndata: short\n\n", []string{long, "short"}},
		"incomplete event":    {"data: one\n\ndata: two\n", []string{"one"}},
		"incomplete line":     {"data: one\n\ndata: tw", []string{"one"}},
		"empty":               {"", nil},
		"events without data": {"event: ping\n\nid: 1\n\ndata\n\ndata: one\n\n", []string{"one"}},
	} {
		for kind, r := range map[string]io.Reader{"": strings.NewReader(test.stream), "byte by byte": iotest.OneByteReader(strings.NewReader(test.stream))} {
			got, err := events(r, 1<<20)
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s%s: %v", name, kind, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s%s: %.200s", name, kind, diff)
			}
		}
	}
}

func TestReader_LimitsEvents(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   error
	}{
		"at the limit": {"data: " + strings.Repeat("x", 100) + "\n\n", io.EOF},
		"line":         {"data: " + strings.Repeat("x", 101), agui.ErrTooLong},
		"comment":      {": " + strings.Repeat("x", 200), agui.ErrTooLong},
		"event":        {strings.Repeat("data: xxxxxxxxx\n", 11), agui.ErrTooLong},
	} {
		if _, err := events(strings.NewReader(test.stream), 100); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	broken := errors.New("broken")
	if _, err := events(io.MultiReader(strings.NewReader("data: one\n\n"), iotest.ErrReader(broken)), 100); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestReader_RestOfLine(t *testing.T) {
	for stream, want := range map[string]string{
		"": "", "one": "one", "one\n": "", "one\ntw": "tw", "one\r": "", "\uFEFFone": "one", "one\n" + strings.Repeat("x", 100_000): strings.Repeat("x", 100_000),
	} {
		for _, in := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream)), iotest.DataErrReader(strings.NewReader(stream))} {
			r := agui.NewReader(in, 1<<20)
			var err error
			for err == nil {
				_, err = r.Line()
			}
			if got := string(r.Rest()); got != want || !errors.Is(err, io.EOF) {
				t.Errorf("%.20q: %.20q, %v", stream, got, err)
			}
		}
	}
}
