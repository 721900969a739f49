package wire_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/runtime/agui"
)

func TestFault_ReadsAllForms(t *testing.T) {
	e := &wire.Endpoint{Provider: "p", Model: "m", Secret: "sk-123"}
	for body, want := range map[string]string{
		`{"error":{"message":"no","type":"t","code":"c"}}`: "p: 400: no",
		`{"error":"no"}`: "p: 400: no",
		`{"type":"error","error":{"type":"invalid","message":"no"}}`:     "p: 400: no",
		`{"object":"error","message":"no","type":"BadRequest","code":4}`: "p: 400: no",
		`{"detail":"no"}`:                         "p: 400: no",
		`[{"error":{"code":400,"message":"no"}}]`: "p: 400: no",
		`plain no`:                        "p: 400: plain no",
		`<html><body>nginx</body></html>`: "p: 400: Bad Request",
		``:                                "p: 400: Bad Request",
		`{"error":{"message":"key sk-123 is\nno"}}`: "p: 400: key [key] is no",
	} {
		if got := e.Fault(http.StatusBadRequest, []byte(body)); got.Message != want || got.Code != "bad_request" || got.Retryable {
			t.Errorf("%s: %+v, want %s", body, got, want)
		}
	}
	if got := e.Fault(http.StatusBadRequest, []byte(strings.Repeat("ü", 5000))); len(got.Message) > 1100 {
		t.Errorf("a message of %d bytes", len(got.Message))
	}
}

// ceaseless is an endless body.
type ceaseless string

func (e ceaseless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(string(e), len(p)/len(e)+1)), nil
}

func (ceaseless) Close() error { return nil }

type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a(req) }

func TestPost_LimitsAnswer(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for _, said := range []string{": " + long + "\n", "data: " + long + "\n\n", "data: " + long} {
		e := &wire.Endpoint{Provider: "p", Client: &http.Client{Transport: answering(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: ceaseless(said)}, nil
		})}}
		res, err := e.Post(t.Context(), "http://model.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		events := agui.NewReader(res.Body, wire.MaxEvent)
		for err == nil {
			_, _, err = events.Next()
		}
		var lost *llm.Error
		if !errors.As(e.Lost(t.Context(), err), &lost) || lost.Code != "answer_too_large" || lost.Retryable {
			t.Errorf("%.10q: %+v", said, lost)
		}
	}
}

func TestRefused_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "": 0, "1e300": 24 * time.Hour, "NaN": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
		} {
			e := &wire.Endpoint{Provider: "p"}
			got := e.Refused(&http.Response{
				StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {value}}, Body: io.NopCloser(strings.NewReader("")),
			})
			if got.RetryAfter != want {
				t.Errorf("%q: %s, want %s", value, got.RetryAfter, want)
			}
		}
		e := &wire.Endpoint{Provider: "p"}
		if got := e.Fault(429, []byte(`{"error":{"code":429,"details":[{"retryDelay":"34s"}]}}`)); got.RetryAfter != 34*time.Second {
			t.Errorf("google: %s", got.RetryAfter)
		}
	})
}
