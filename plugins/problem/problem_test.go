package problem_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins/problem"
)

func redact(s string) string { return strings.ReplaceAll(s, "sk-123", "[key]") }

func TestSentence(t *testing.T) {
	for body, want := range map[string]string{
		``:     "",
		`null`: "",
		`{}`:   "",
		`{"statusCode":400,"error":"Bad Request","message":["no"]}`: "no",
		`{"error":{"message":"no"},"message":"failed"}`:             "no",
		`{"error":null,"message":""}`:                               "",
		`plain no`:                                                  "plain no",
		"\ufeff{\"error\":\"no\"}":                                  "no",
		`"no"`:                                                      "no",
		`{"error":"no"}`:                                            "no",
		`{"message":"no","code":7}`:                                 "no",
		`{"error":{"message":"no"}}`:                                "no",
		`[{"error":{"message":"no"}}]`:                              "no",
		`{"errors":[{"message":"no"}]}`:                             "no",
		`{"error":true,"message":"no"}`:                             "no",
		`{"error":{"code":7},"msg":"no"}`:                           "no",
		`{"object":"error","message":"no"}`:                         "no",
		`{"type":"about:blank","title":"No","status":400,"detail":"no such thing"}`:                             "no such thing",
		`{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"x"}]}`:                          "body.messages.0: field required",
		`{"error":"invalid_token","error_description":"expired"}`:                                               "expired",
		`{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"no\"}}"}}}`: "no",
		`{"error":"{\"error\":{\"message\":\"no\"}}"}`:                                                          "no",
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`:                                       "no",
		"<html><head><title>502\n Bad Gateway</title></head></html>":                                            "502 Bad Gateway",
		`<html><body>nginx</body></html>`:                                                                       "",
		"one\ntwo\xff":                                                                                          "one two",
	} {
		if got := problem.Sentence([]byte(body), redact); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestSentence_CutsNoSecret(t *testing.T) {
	for n := range 12 {
		body := strings.Repeat("x", problem.MaxSentence-n) + "sk-123"
		if got := problem.Sentence([]byte(body), redact); strings.Contains(got, "s") {
			t.Errorf("%d bytes before: …%s", len(body), got[len(got)-20:])
		}
	}
}

func FuzzSentence(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"no"}}`))
	f.Add([]byte(strings.Repeat(`{"error":`, 2000)))
	f.Add([]byte(strings.Repeat("ü", 5000)))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := problem.Sentence(body, redact)
		if len(got) > problem.MaxSentence || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}
