package wire_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/plugins/web"
	"github.com/batonrun/baton/runtime/agui"
)

func TestFault_HidesSecrets(t *testing.T) {
	e := &wire.Endpoint{Provider: "p", Secret: "sk/123", Header: http.Header{"X-Key": {"portkey-1"}, "Authorization": {"Bearer token-77"}}}
	for _, text := range []string{"sk/123", "sk%2F123", "portkey-1", "Bearer token-77", "token-77"} {
		for n := range 12 {
			body := strings.Repeat("x", problem.MaxSentence-n) + text
			if got := e.Fault(http.StatusBadRequest, []byte(body)).Message; strings.ContainsAny(got, "s%7tB") {
				t.Errorf("%s after %d bytes: …%s", text, problem.MaxSentence-n, got[len(got)-40:])
			}
		}
	}
}

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

// TestFault_Classifies has the sentences of servers.
func TestFault_Classifies(t *testing.T) {
	for _, test := range []struct {
		status    int
		said      string
		code      string
		retryable bool
	}{
		{400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", "context_too_long", false},
		{400, "prompt is too long: 210000 tokens > 200000 maximum", "context_too_long", false},
		{400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", "context_too_long", false},
		{400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "context_too_long", false},
		{400, "the request exceeds the available context size. try increasing the context size or enable context shift", "context_too_long", false},
		{400, "Please reduce the length of the messages or completion.", "context_too_long", false},
		{400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens", "context_too_long", false},
		{500, "input is too long for requested model", "context_too_long", false},
		{413, "", "context_too_long", false},
		{400, "Request body is too large", "context_too_long", false},
		{400, "Request payload size exceeds the limit: 20971520 bytes.", "context_too_long", false},
		{400, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 201 instead.", "too_many_tools", false},
		{400, "Incorrect API key provided: x", "invalid_api_key", false},
		{400, "API key not valid. Please pass a valid API key.", "invalid_api_key", false},
		{401, "invalid x-api-key", "invalid_api_key", false},
		{401, "No auth credentials found", "invalid_api_key", false},
		{401, "", "invalid_api_key", false},
		{403, "Country, region, or territory not supported", "permission_denied", false},
		{402, "Insufficient Balance", "quota_exceeded", false},
		{402, "This request requires more credits", "quota_exceeded", false},
		{429, "You exceeded your current quota, please check your plan and billing details.", "quota_exceeded", false},
		{400, "Your credit balance is too low to access the Anthropic API.", "quota_exceeded", false},
		{429, "Rate limit reached for m on tokens per min (TPM)", "rate_limited", true},
		{429, "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.", "context_too_long", false},
		{500, "Too many requests, please wait before trying again.", "rate_limited", true},
		{429, "", "rate_limited", true},
		{404, "The model `m` does not exist or you do not have access to it.", "model_not_found", false},
		{404, "model 'm' not found", "model_not_found", false},
		{400, "m is not a valid model ID", "model_not_found", false},
		{400, "Model Not Exist", "model_not_found", false},
		{404, "not_found_error: model: claude-0", "model_not_found", false},
		{404, "404 page not found", "not_an_api", false},
		{404, "", "not_an_api", false},
		{405, "Method Not Allowed", "not_an_api", false},
		{200, "Unexpected endpoint or method. (POST /chat/completions)", "not_an_api", false},
		{529, "Overloaded", "overloaded", true},
		{503, "The engine is currently overloaded, please try again later", "overloaded", true},
		{503, "", "overloaded", true},
		{524, "", "timeout", true},
		{504, "upstream request timeout", "timeout", true},
		{400, "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "content_refused", false},
		{400, "not_found_error: file_abc", "bad_request", false},
		{422, "body.messages: field required", "bad_request", false},
		{400, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens", "bad_request", false},
		{409, "", "bad_request", true},
		{500, "The GPU is gone", "provider_error", true},
		{0, "The GPU is gone", "provider_error", true},
		{0, "", "provider_error", true},
	} {
		e := &wire.Endpoint{Provider: "p", Model: "m"}
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": test.said}})
		got := e.Fault(test.status, body)
		if got.Code != test.code || got.Retryable != test.retryable || !strings.Contains(got.Message, test.said) || strings.HasSuffix(got.Message, ": ") {
			t.Errorf("%d %s: %+v, want %s", test.status, test.said, got, test.code)
		}
	}
}

// A wrong address is answered with the right one, if it can be guessed.
func TestPost_SuggestsAddress(t *testing.T) {
	page := "<html><title>LM Studio</title></html>"
	for _, test := range []struct {
		url, body string
		status    int
		want      string
	}{
		{"http://h:1234/chat/completions", "404 page not found", 404, "should base_url be http://h:1234/v1?"},
		{"http://h:1234/api/chat/completions", page, 200, "should base_url be http://h:1234/api/v1?"},
		{"http://h:1234/chat/completions", `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`, 200, "should base_url be http://h:1234/v1?"},
		{"http://h:1234/responses", `{"detail":"Not Found"}`, 404, "should base_url be http://h:1234/v1?"},
		{"https://h/v1/chat/completions?api-version=secret", page, 405, "not as an API at /v1/chat/completions: is base_url right?"},
		{"https://h/api/chat", page, 404, "not as an API at /api/chat: is base_url right?"},
	} {
		e := &wire.Endpoint{Provider: "p", Client: &http.Client{Transport: answering(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.status, Request: r, Body: io.NopCloser(strings.NewReader(test.body))}, nil
		})}}
		res, err := e.Post(t.Context(), test.url, nil)
		if err == nil {
			defer res.Body.Close()
			a := e.Answer(llm.Request{}, nil)
			_, err = a.Read(t.Context(), res, func(_ string, object []byte) (bool, error) { return false, a.Failed(object, false) })
		}
		var failed *llm.Error
		if !errors.As(err, &failed) || failed.Code != "not_an_api" || failed.Retryable || !strings.Contains(failed.Message, test.want) || strings.Contains(failed.Message, "secret") {
			t.Errorf("%s: %v, want %s", test.url, err, test.want)
		}
	}
}

// A redirect that would change the host, the scheme or the method is not followed; the message says where it leads.
func TestPost_TellsRedirect(t *testing.T) {
	for _, test := range []struct {
		status   int
		to, want string
	}{
		{301, "/v1/chat/completions", "301 redirects to http://h/v1/chat/completions, which is not followed (should base_url be http://h/v1?)"},
		{302, "/login?token=secret", "302 redirects to http://h/login, which is not followed (is base_url right?)"},
		{308, "https://h/chat/completions", "308 redirects to https://h/chat/completions, which is not followed (should base_url be https://h?)"},
		{307, "https://me:secret@other.example/api/v1/responses", "307 redirects to https://other.example/api/v1/responses, which is not followed (should base_url be https://other.example/api/v1?)"},
		{307, "/chat/completions", "307 redirects again and again, the last time to http://h/chat/completions (is base_url right?)"},
	} {
		e := &wire.Endpoint{Provider: "openai", Client: web.NewClient(&http.Client{Transport: answering(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.status, Request: r, Header: http.Header{"Location": {test.to}}, Body: http.NoBody}, nil
		})})}
		res, err := e.Post(t.Context(), "http://h/chat/completions", []byte("{}"))
		if err == nil {
			_ = res.Body.Close()
		}
		var failed *llm.Error
		if !errors.As(err, &failed) || failed.Code != "bad_request" || failed.Message != "openai: "+test.want {
			t.Errorf("%d to %s: %v, want %s", test.status, test.to, err, test.want)
		}
	}
}

// A body that cannot be decompressed is not shown as text.
func TestPost_RefusesOtherCompression(t *testing.T) {
	for _, status := range []int{200, 400} {
		for coding, want := range map[string]string{"br": "compressed with br", "gzip, zstd": "compressed with zstd"} {
			e := &wire.Endpoint{Provider: "p", Client: &http.Client{Transport: answering(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Header: http.Header{"Content-Encoding": {coding}}, Body: io.NopCloser(strings.NewReader("\x0b\x02\x80{}\x03"))}, nil
			})}}
			res, err := e.Post(t.Context(), "http://model.test", nil)
			if err == nil {
				defer res.Body.Close()
				_, err = e.Answer(llm.Request{}, nil).Read(t.Context(), res, nil)
			}
			var failed *llm.Error
			if !errors.As(err, &failed) || failed.Retryable || !strings.Contains(failed.Message, want) {
				t.Errorf("%d %s: %v", status, coding, err)
			}
		}
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

func TestPost_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]time.Duration{
			"7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "": 0, "1e300": 24 * time.Hour, "NaN": 0,
			time.Now().Add(time.Minute).UTC().Format(http.TimeFormat):  time.Minute,
			time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat): 0,
		} {
			e := &wire.Endpoint{Provider: "p", Client: &http.Client{Transport: answering(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {value}}, Body: http.NoBody}, nil
			})}}
			_, err := e.Post(t.Context(), "http://model.test", nil) //nolint:bodyclose // there is none
			got, ok := errors.AsType[*llm.Error](err)
			if !ok || got.RetryAfter != want {
				t.Errorf("%q: %v, want %s", value, err, want)
			}
		}
		e := &wire.Endpoint{Provider: "p"}
		if got := e.Fault(429, []byte(`{"error":{"code":429,"details":[{"retryDelay":"34s"}]}}`)); got.RetryAfter != 34*time.Second {
			t.Errorf("google: %s", got.RetryAfter)
		}
	})
}
