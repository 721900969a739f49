package web_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/web"
	"github.com/batonrun/baton/runtime/agui"
)

func of(kind, coding, body string, limit int64) *web.Body {
	return web.BodyOf(&http.Response{
		Header: http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}}, Body: io.NopCloser(strings.NewReader(body)),
	}, limit)
}

// packed compresses a text.
func packed(t *testing.T, text string, writer func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := writer(&b)
	_, err := io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A body is read by what it is: its headers need not say so.
func TestBody_IsReadByContent(t *testing.T) {
	zipped := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	deflated := func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 1); return z }
	zlibbed := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	for text, events := range map[string]bool{
		"data: {}\n\n": true, "data:{}": true, ": ping\n\n": true, ":": true, "event: x\ndata: 1\n\n": true, "id: 1\n": true, "retry: 5\n": true,
		"\n\n data: 1\n\n": true, `{"error":"no"}`: false, ` [1]`: false, "<html></html>": false, "no such page": false, "": false, "d": false, "data": false,
	} {
		for _, bom := range []string{"", "\ufeff"} {
			for name, tt := range map[string]struct{ coding, body string }{
				"plain":            {"", bom + text},
				"said to be gzip":  {"gzip", bom + text},
				"gzip":             {"gzip", packed(t, bom+text, zipped)},
				"gzip not said":    {"", packed(t, bom+text, zipped)},
				"gzip said as br":  {"br", packed(t, bom+text, zipped)},
				"raw deflate":      {"deflate", packed(t, bom+text, deflated)},
				"deflate of zlib":  {"Deflate", packed(t, bom+text, zlibbed)},
				"identity and all": {"identity, gzip", packed(t, bom+text, zipped)},
			} {
				for _, kind := range []string{"", "application/json", "text/plain; charset=utf-8", "not a type"} {
					b := of(kind, tt.coding, tt.body, 1<<20)
					if b.HasEvents() != events {
						t.Errorf("%s %q of type %q: events %v", name, text, kind, !events)
					}
					if got, err := io.ReadAll(b); err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(text) {
						t.Errorf("%s %q of type %q: %q, %v", name, text, kind, got, err)
					}
				}
			}
		}
	}
	for text, events := range map[string]bool{"": true, "odd": true, "{}": false, "<html>": false} {
		if got := of("text/event-stream; charset=utf-8", "", text, 9).HasEvents(); got != events {
			t.Errorf("%q declared as events: %v", text, got)
		}
	}
}

func TestBody_EndsAtLimit(t *testing.T) {
	got, err := io.ReadAll(of("", "", strings.Repeat("x", 1000), 100))
	if len(got) != 100 || !errors.Is(err, agui.ErrTooLong) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	bomb := packed(t, strings.Repeat("x", 1<<20), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	if got, err = io.ReadAll(of("", "", bomb, 100)); len(got) != 100 || !errors.Is(err, agui.ErrTooLong) {
		t.Errorf("%d bytes of a packed body, %v", len(got), err)
	}
	if got := of("", "", strings.Repeat("x", 1<<20), 1<<30).Fault(); len(got) > 64<<10 {
		t.Errorf("a fault of %d bytes", len(got))
	}
}

// Whatever the body of an error is, there is a sentence, and no secret.
func TestBody_SaysWhatIsWrong(t *testing.T) {
	hide := strings.NewReplacer("s3cret", "***").Replace
	for want, b := range map[string]*web.Body{
		"no *** here": of("application/json", "", `{"error":{"message":"no s3cret here"}}`, 1<<20),
		"Sign in":     of("text/event-stream", "", "\ufeff<html><title>Sign in</title></html>", 1<<20),
		"packed":      of("", "", packed(t, `{"detail":"packed"}`, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), 1<<20),
		"the answer is compressed with zstd, which is not read": of("", "zstd", "\x28\xb5\x2f\xfd\x00", 1<<20),
	} {
		if got := b.Sentence(hide); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
