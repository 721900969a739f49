package wire_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// read returns the objects of a body, and the error of an answer of them.
func read(tb testing.TB, body io.Reader) (list []string, err error) {
	tb.Helper()
	return readAs(tb, "", body)
}

// readAs reads a body with a Content-Encoding.
func readAs(tb testing.TB, coding string, body io.Reader) (list []string, err error) {
	tb.Helper()
	e := &wire.Endpoint{Provider: "p", Client: &http.Client{Transport: answering(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Encoding": {coding}}, Body: io.NopCloser(body)}, nil
	})}}
	res, err := e.Post(tb.Context(), "http://model.test", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := e.Answer(llm.Request{}, func(llm.Piece) error { return nil })
	a.Ended = true
	_, err = a.Read(tb.Context(), res, func(event string, object []byte) (bool, error) {
		list = append(list, strings.TrimSpace(event+" "+string(object)))
		return false, nil
	})
	return list, err
}

func TestRead_FindsObjects(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", 100_000) + `"}`
	for body, want := range map[string][]string{
		"data: {\"a\":1}\n\n":                       {`{"a":1}`},
		"data:{\"a\":1}":                            {`{"a":1}`},
		"event: x\ndata: {}\n\ndata: {}\n\n":        {"x {}", "{}"},
		"data: {\"a\":\ndata: 1}\n\ndata: {}\n\n":   {"{\"a\":\n1}", "{}"},
		"data: {\"a\":\nid: 7\ndata: 1}\n\n":        {"{\"a\":\n1}"},
		"{\"a\": \"}\\\"}\"}{\"b\":[{}]}\n":         {`{"a": "}\"}"}`, `{"b":[{}]}`},
		"{\n\n\"a\":1\n}\n{}":                       {"{\n\n\"a\":1\n}", "{}"},
		"[{\"a\":1},{}]":                            {`{"a":1}`, "{}"},
		"data: [{\"a\":1},\ndata: {}]\n\ndata: {}":  {`{"a":1}`, "{}", "{}"},
		"data: [DONE]\n\ndata: {}\n\n":              nil,
		"data: {}\n\n[DONE]\n{}":                    {"{}"},
		"data: " + long + "\n\n" + long + "\n":      {long, long},
		"\uFEFF{}":                                  {"{}"},
		"data: {\"a\":1}data: {\"b\":2}\n\n":        {`{"a":1}`, `{"b":2}`},
		"data: {\"a\":1},{\"b\":2}, data:{}\n\n":    {`{"a":1}`, `{"b":2}`, "{}"},
		"data: {\"a\":1}{\"b\":\ndata: 2}[{}]\n\n":  {`{"a":1}`, "{\"b\":\n2}", "{}"},
		"data: {\"a\":1}data: [DONE]\n\ndata: {}\n": {`{"a":1}`},
		"{\"a\":1},\n{\"b\":2},{\n}\n":              {`{"a":1}`, `{"b":2}`, "{\n}"},
		"retry: 10\r\n\r\ndata: {}\r\n\r\n{}\r\n[]": {"{}", "{}"},
	} {
		for _, in := range []io.Reader{strings.NewReader(body), iotest.OneByteReader(strings.NewReader(body)), zipped(body)} {
			got, err := read(t, in)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%.60q: %v %.300s", body, err, diff)
			}
		}
	}
}

func zipped(body string) io.Reader {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	return &buf
}

// A body is read by its content, whatever its header says.
func TestRead_Decompresses(t *testing.T) {
	body := "data: {\"a\":\"ü\"}\n\n"
	var zlibbed, deflated bytes.Buffer
	z := zlib.NewWriter(&zlibbed)
	d, _ := flate.NewWriter(&deflated, flate.BestSpeed)
	for _, w := range []io.WriteCloser{z, d} {
		_, _ = io.WriteString(w, body)
		_ = w.Close()
	}
	for _, coding := range []string{"", "identity", "gzip", "deflate", "Deflate", "br", "zstd"} {
		bodies := []io.Reader{strings.NewReader(body), zipped(body)}
		if strings.EqualFold(coding, "deflate") {
			bodies = append(bodies, bytes.NewReader(zlibbed.Bytes()), bytes.NewReader(deflated.Bytes()))
		}
		for i, in := range bodies {
			if got, err := readAs(t, coding, in); err != nil || !slices.Equal(got, []string{`{"a":"ü"}`}) {
				t.Errorf("%q, body %d: %q, %v", coding, i, got, err)
			}
		}
	}
}

func TestRead_FailsForOtherBodies(t *testing.T) {
	for body, want := range map[string]string{
		"<html><title>Sign in": "not_an_api",
		" \n<!DOCTYPE html>":   "not_an_api",
		"":                     "empty_answer",
		": hello\n\n":          "empty_answer",
		"data: ping\n\ndata: 7\n\ndata: \"{}\"\n\n": "empty_answer",
		"upstream is gone":                          "provider_error",
		"data: {\"a\":\n\n":                         "provider_error",
		"{malformed json: <<<chaos>>>\n":            "provider_error",
		"\x1f\x8bnot zipped":                        "connection_lost",
	} {
		list, err := read(t, strings.NewReader(body))
		var failed *llm.Error
		quote := strings.TrimSpace(strings.TrimPrefix(body, "data: "))
		if !errors.As(err, &failed) || failed.Code != want || len(list) > 0 || want == "provider_error" && !strings.HasSuffix(failed.Message, quote) {
			t.Errorf("%.40q: %v, want %s", body, err, want)
		}
	}
}

func FuzzRead_AnyBytes(f *testing.F) {
	for _, body := range []string{"data: {}\n\n", "{}\n[{}]", "[DONE]", "<html>", "\x1f\x8b", "data: {\"a\":\"\\ud83d\"}\r\r"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := read(t, bytes.NewReader(body))
		var failed *llm.Error
		if err != nil && !errors.As(err, &failed) {
			t.Errorf("%q: %v", body, err)
		}
		for _, object := range list {
			if _, text, _ := strings.Cut(object, "{"); text == "" {
				t.Errorf("%q: %q", body, object)
			}
		}
	})
}
