package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/plugins/web"
	"github.com/batonrun/baton/runtime/agui"
)

// A fault is a provider's error response in all its forms.
type fault struct {
	Error   json.RawMessage `json:"error"` // a nested fault or a string
	Type    string          `json:"type"`
	Code    any             `json:"code"` // a number from Google, otherwise a word
	Status  string          `json:"status"`
	Details []struct {
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
	} `json:"details"`
}

// Fault returns the failure in body, which is a response with status or, if status is 0, an event.
func (e *Endpoint) Fault(status int, body []byte) *llm.Error { return e.fault(status, body, 0) }

// fault is Fault for a response with headers such as Retry-After.
func (e *Endpoint) fault(status int, body []byte, after time.Duration) *llm.Error {
	var f fault
	if json.Unmarshal(bytes.Trim(body, "[] \r\n"), &f) == nil { // Google can send a list with one element
		var inner fault
		if json.Unmarshal(f.Error, &inner) == nil {
			f = inner
		}
	}
	text := problem.Sentence(body, e.redact)
	if n, ok := f.Code.(float64); ok && status == 0 {
		status = int(n)
	}
	words := []string{f.Type, fmt.Sprint(f.Code), f.Status, e.sent.unquoted(text)}
	for _, d := range f.Details {
		words = append(words, d.Reason)
		after = cmp.Or(after, delay(d.RetryDelay))
	}
	code, retryable := codeOf(status, strings.ToLower(strings.Join(words, " ")))
	if code == "model_not_found" && !strings.Contains(text, e.Model) {
		text += " (model " + e.Model + ")"
	}
	if text == "" {
		text = cmp.Or(http.StatusText(status), "an error without a description: "+string(body))
	}
	message := e.Provider + ": " + e.clean(text)
	if status > 0 {
		message = fmt.Sprintf("%s: %d: %s", e.Provider, status, e.clean(text))
	}
	failed := &llm.Error{Code: code, Message: message + e.advice(code), Status: status, RetryAfter: after, Retryable: retryable}
	if code == "rate_limited" {
		e.pace.Model(e.Model).Refused(after)
	}
	e.teach(failed)
	return failed
}

// classes are the codes of failures by their descriptions. Words are more specific than the status, which providers
// use loosely.
var classes = []struct {
	code      string
	retryable bool
	words     *regexp.Regexp
}{
	{"bad_answer", true, regexp.MustCompile(`tool_use_failed|failed_generation|failed to (call a function|parse (the )?tool call)|tool call validation failed`)},
	{"quota_exceeded", false, regexp.MustCompile(`insufficient_quota|insufficient balance|insufficient credits|more credits|credit balance is too low|billing[_ ]\w`)},
	{"too_many_tools", false, regexp.MustCompile(`tools'?\W+(array too long|.{0,20}maximum length)|too many (tools|functions|function declarations)`)},
	{"context_too_long", false, regexp.MustCompile(`context_length_exceeded|request[_ ]too[_ ]large|context (window|size|length|limit)|maximum context|model_max_prompt_tokens|` +
		`(prompt|input|request|messages?) (is|are|was) too (long|large)|(exceeds?|over) the (maximum|model's) (number of )?(input |context )?tokens?|input token count|` +
		`too many (input |total )?tokens in|payload size exceeds|(payload|body|entity) (is )?too large|reduce (the length|your prompt)|maximum prompt length|longer than the model`)},
	{"content_refused", false, regexp.MustCompile(`content_policy|content_filter|content management policy|content policy|safety system|data_inspection_failed`)},
	{"invalid_api_key", false, regexp.MustCompile(`invalid_api_key|api_key_invalid|api key not valid|authentication_error|unauthenticated|(incorrect|invalid|missing|wrong|no) (x-)?api[- _]key|no auth credentials`)},
	{"model_not_found", false, regexp.MustCompile(`model_not_found|deploymentnotfound|not_found_error.*model|model.*not_found_error|model.{0,80} (not found|does not exist|is not a valid model|not exist)|not a valid model id`)},
	{"not_an_api", false, regexp.MustCompile(`unexpected endpoint`)},
	{"overloaded", true, regexp.MustCompile(`overloaded|engine is currently|server is busy|no capacity|at capacity|model is loading|currently loading`)},
	{"rate_limited", true, regexp.MustCompile(`rate[_ ]limit|resource_exhausted|too many requests|per minute`)},
}

// codeOf classifies a failure by its words and, if these say nothing, its status. A refusal of the request cannot pass with time,
// whatever it says; that of the model's own answer can.
func codeOf(status int, words string) (code string, retryable bool) {
	refusal := status >= 400 && status < 500 && status != http.StatusTooManyRequests
	for _, c := range classes {
		if (!c.retryable || !refusal || c.code == "bad_answer") && c.words.MatchString(words) {
			return c.code, c.retryable
		}
	}
	if c, ok := statuses[status]; ok {
		return c.code, c.retryable
	}
	switch {
	case (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) && strings.Contains(words, "model"):
		return "model_not_found", false
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return "not_an_api", false
	case status >= 300 && status < 500: // a redirect, which is not followed, is a wrong address
		return "bad_request", status == http.StatusConflict
	}
	return "provider_error", true
}

// statuses are the codes of failures by their status.
var statuses = map[int]struct {
	code      string
	retryable bool
}{
	http.StatusUnauthorized:          {"invalid_api_key", false},
	http.StatusPaymentRequired:       {"quota_exceeded", false},
	http.StatusForbidden:             {"permission_denied", false},
	http.StatusRequestEntityTooLarge: {"context_too_long", false},
	http.StatusTooManyRequests:       {"rate_limited", true},
	http.StatusServiceUnavailable:    {"overloaded", true},
	529:                              {"overloaded", true}, // Anthropic's
	http.StatusRequestTimeout:        {"timeout", true},
	http.StatusGatewayTimeout:        {"timeout", true},
	524:                              {"timeout", true}, // Cloudflare's
}

// advice returns the cure of a failure, as the end of its message.
func (e *Endpoint) advice(code string) string {
	switch code {
	case "invalid_api_key":
		return " (the key is api_key of the agent, or the provider's environment variable)"
	case "too_many_tools":
		return " (narrow the patterns in tools of the agent)"
	case "not_an_api":
		return e.instead()
	}
	return ""
}

// instead returns where the API can be, as the end of a message that it is not where it was asked.
func (e *Endpoint) instead() string {
	if e.asked == nil {
		return ""
	}
	place := e.asked.Scheme + "://" + e.asked.Host
	base := strings.TrimSuffix(strings.TrimSuffix(e.asked.Path, "/chat/completions"), "/responses")
	if base != e.asked.Path && !strings.HasSuffix(base, "/v1") {
		return fmt.Sprintf(" (%s answers, but not as an API at %s: should base_url be %s/v1?)", place, e.asked.Path, place+base)
	}
	return fmt.Sprintf(" (%s answers, but not as an API at %s: is base_url right?)", place, e.asked.Path)
}

// redirected returns where a redirect leads, and the base URL that it can mean.
func (e *Endpoint) redirected(r *web.Redirect) string {
	to := url.URL{Scheme: r.To.URL.Scheme, Host: r.To.URL.Host, Path: r.To.URL.Path} // without secrets
	told := fmt.Sprintf("%d redirects to %s, which is not followed", r.To.Response.StatusCode, &to)
	if r.Loop {
		told = fmt.Sprintf("%d redirects again and again, the last time to %s", r.To.Response.StatusCode, &to)
	} else if end := endings[e.Provider]; end != nil && end.FindString(to.Path) != "" {
		to.Path = strings.TrimRight(end.ReplaceAllString(to.Path, ""), "/")
		return fmt.Sprintf("%s (should base_url be %s?)", told, &to)
	}
	return told + " (is base_url right?)"
}

// Lost returns the failure of a request after its connection broke or its answer ended early, for which err is nil or
// io.EOF. It returns ctx's error if ctx is done.
func (e *Endpoint) Lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // without the address, which can contain secrets
	}
	var timeout net.Error
	var led *web.Redirect
	var compressed web.Coding
	switch {
	case errors.As(err, &led):
		return &llm.Error{Code: "bad_request", Message: e.Provider + ": " + e.clean(e.redirected(led))}
	case errors.As(err, &compressed):
		return &llm.Error{Code: "bad_response", Message: e.Provider + ": " + compressed.Error()}
	case errors.Is(err, agui.ErrTooLong):
		return &llm.Error{Code: "answer_too_large", Message: e.Provider + ": the answer is too long"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &llm.Error{Code: "timeout", Message: e.Provider + ": " + e.clean(err.Error()), Retryable: true}
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &llm.Error{Code: "connection_lost", Message: e.Provider + ": the connection was closed before the answer was complete", Retryable: true}
	}
	return &llm.Error{Code: "connection_lost", Message: e.Provider + ": " + e.clean(err.Error()), Retryable: true}
}

// Refuse returns the failure of a request that the provider does not support.
func (e *Endpoint) Refuse(format string, args ...any) error {
	return &llm.Error{Code: "bad_request", Message: e.Provider + ": " + e.clean(fmt.Sprintf(format, args...))}
}

// delay returns the time until a provider wants to be asked again: seconds, a duration such as 6m0s, or a date. It is 0 for other texts and
// a day at most.
func delay(text string) time.Duration {
	d, _ := time.ParseDuration(text) // 0 for another text
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		d = time.Duration(min(s, 86400) * float64(time.Second))
	} else if at, err := http.ParseTime(text); err == nil {
		d = time.Until(at)
	} else if at, err := time.Parse(time.RFC3339, text); err == nil {
		d = time.Until(at)
	}
	return min(max(d, 0), 24*time.Hour)
}

// redact returns s without the key and the values of the request's headers, which can be keys.
func (e *Endpoint) redact(s string) string {
	secrets := []string{e.Secret}
	for name, values := range e.Header {
		if slices.Contains(open, name) {
			continue
		}
		for _, v := range values {
			secrets = append(secrets, v, v[strings.LastIndexByte(v, ' ')+1:])
		}
	}
	for _, secret := range secrets {
		if len(secret) >= minSecret || secret == e.Secret && secret != "" {
			s = strings.ReplaceAll(s, secret, "[key]")
			s = strings.ReplaceAll(s, url.QueryEscape(secret), "[key]")
		}
	}
	return s
}

// minSecret is the length of the shortest value of a header that is taken for a secret.
const minSecret = 8

// open are the headers without secrets.
var open = []string{"Accept", "Anthropic-Version", "Anthropic-Beta", "Content-Type", "User-Agent"}

// clean returns s without the key, on one line, and with limited length.
func (e *Endpoint) clean(s string) string {
	s = strings.Join(strings.Fields(e.redact(s)), " ")
	if len(s) > problem.MaxSentence {
		s = strings.ToValidUTF8(s[:problem.MaxSentence], "") + "…"
	}
	return s
}
