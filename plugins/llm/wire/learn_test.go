package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

var everything = llm.Request{Messages: append(dialog("s|S", "a|welcome", "u|a", "a|~1|!1", "t|=1:", "u|b"), llms.MessageContent{
	Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLPart("https://x.example/1.png"), llms.ImageURLPart("https://x.example/2.png")},
})}

// TestLearn_FromSentences has the sentences of real servers.
func TestLearn_FromSentences(t *testing.T) {
	const calls, content = "call_ids: nine", "content: absent"
	const earlier = "1 pieces of reasoning of earlier turns were refused"
	body := json.RawMessage(`{"stream_options":{},"temperature":1,"top_p":1,"seed":1,"stop":["x"],"response_format":{},"reasoning_effort":"low",` +
		`"max_completion_tokens":1,"thinking":{},"include":[],"messages":[{"content":"S"},{"content":[{"url":"https://x.example/1.png"}]}]}`)
	for sentence, want := range map[string]string{
		"Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.":                                        calls,
		"Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got 51": calls,
		"messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'":                              calls,
		"Unexpected role 'user' after role 'tool'":                                                                      "first: user, bridge: true",
		"Conversation roles must alternate user/assistant/user/assistant/...":                                           "first: user, bridge: true",
		"System role not supported":                    "system: user",
		"Only user and assistant roles are supported!": "system: user",
		"thinking is enabled but reasoning_content is missing in assistant tool call message at index 2":                                    "reasoning: reasoning_content",
		"The `reasoning_content` in the thinking mode must be passed back to the API.":                                                      "reasoning: reasoning_content",
		"'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]": "reasoning: none",
		"Invalid 'content': 'content' field must be a string or an array of objects.":                                                       content,
		"Invalid value for 'content': expected a string, got null.":                                                                         content,
		"messages[2]: missing field `content`":                                                                                              content,
		"messages 中 content 不能为空":                                                                                                           content,
		"Unrecognized request argument supplied: stream_options":                                                                            "without stream_options",
		"body.stream_options: Extra inputs are not permitted":                                                                               "without stream_options",
		"Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.":                   "without temperature",
		"`temperature` and `top_p` cannot both be specified for this model. Please use only one.":                                           "without temperature",
		"Unsupported parameter: 'stop' is not supported with this model.":                                                                   "without stop",
		"Unknown parameter: 'max_completion_tokens'. Did you mean max_tokens":                                                               "max_tokens: max_tokens",
		"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.":                                      "without response_format",
		"Corrupted thought signature.":                                                                                                      earlier,
		"messages.1.assistant.reasoning_details: Extra inputs are not permitted":                                                            "reasoning: none",
		"Unsupported parameter: 'reasoning_effort' is not supported with this model.":                                                       "without reasoning_effort",
		"Function call is missing a thought_signature in functionCall parts.":                                                               "signatures: true",
		"The encrypted content for item rs_1 could not be verified.":                                                                        earlier,
		"Encrypted content is not supported with this model.":                                                                               "without include",
		"messages.1.content.0: Invalid `signature` in `thinking` block":                                                                     earlier,
		"messages.1.content.0.image.source.base64.data: Image does not match the provided media type image/png":                             "the newest image or file was refused",
		"Could not process image":                                                   "the newest image or file was refused",
		"This model does not support images larger than 20 MB":                      "the newest image or file was refused",
		"This model does not support more than 1 image per request":                 "the newest image or file was refused",
		"image_url with http URLs is not supported, use base64":                     "the newest image or file was refused",
		"You uploaded an unsupported image. Please make sure your image is valid.":  "the newest image or file was refused",
		"This model does not support image input.":                                  "media: no images",
		"No endpoints found that support image input":                               "media: no images",
		"unknown variant `image_url`, expected `text`":                              "media: no images",
		"Please ensure that function call turn comes immediately after a user turn": "first: user, bridge: true",
		"This model's maximum context length is 8192 tokens.":                       "",
		"Invalid 'messages[1].content': unknown word 'text'":                        content,
		"Unsupported parameter: 'messages'":                                         content,
		"Unknown parameter: 'model'":                                                content,
		"Invalid schema for function 'x'":                                           content,
		"Incorrect API key provided":                                                "",
	} {
		caps := Caps{MaxTokens: "max_completion_tokens", URLs: true, Media: []string{"image/png"}}
		s := &state{caps: caps}
		c, err := (&Endpoint{Provider: "p", Model: "m"}).arrange(everything, s)
		if err != nil {
			t.Fatal(err)
		}
		next := new(climb).next(&llm.Error{Status: 400, Code: code(400, sentence), Message: "p: 400: " + sentence}, &sent{s, c, body})
		got := ""
		if next != nil {
			got = next.learned[0].what
		}
		if got != want {
			t.Errorf("%s: %q, want %q", sentence, got, want)
		}
		if len(s.learned)+len(s.refused) > 0 || s.caps.System != "" || len(s.caps.Without) > 0 {
			t.Errorf("%s: what was known has changed", sentence)
		}
		for _, status := range []int{0, 401, 403, 413, 429, 503} {
			if new(climb).next(&llm.Error{Status: status, Code: code(status, sentence), Message: sentence}, &sent{s, c, body}) != nil {
				t.Errorf("%d %s: was learned from", status, sentence)
			}
		}
	}
}

func code(status int, sentence string) string {
	code, _ := codeOf(status, strings.ToLower(sentence))
	return code
}

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(req *http.Request) (*http.Response, error) { return a(req) }

// endpoint returns an Endpoint whose provider refuses bodies, and the list of bodies.
func endpoint(t *testing.T, refuse func(body string) string) (*Endpoint, *[]string, *strings.Builder) {
	t.Helper()
	var bodies []string
	log := new(strings.Builder)
	cfg := Config{Model: "m", HTTPClient: &http.Client{Transport: answers(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		res := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}
		if sentence := refuse(string(body)); sentence != "" {
			res.StatusCode, res.Body = http.StatusBadRequest, io.NopCloser(strings.NewReader(sentence))
		}
		return res, nil
	})}, Log: slog.New(slog.NewTextHandler(log, nil))}
	e, err := cfg.Endpoint("p", "http://x.example", Caps{URLs: true, Media: []string{"image/png"}})
	if err != nil {
		t.Fatal(err)
	}
	return e, &bodies, log
}

// plainShape is the shape of a provider for tests.
func plainShape(c *Conversation, caps Caps) any {
	return map[string]any{"messages": heard(c), "content": caps.Content, "seed": 1, "media": len((&sent{c: c}).media())}
}

// A quote of the request teaches nothing and does not classify the refusal.
func TestLearn_NotFromQuotations(t *testing.T) {
	tools := []llms.Tool{{Function: &llms.FunctionDefinition{Name: "pay"}}, {Function: &llms.FunctionDefinition{Name: "look"}}}
	for _, test := range []struct{ words, sentence string }{
		{"it says it must be a-z, A-Z, 0-9, with a length of 9", "Input should be valid: 'input': 'it says it must be a-z, A-Z, 0-9, with a length of 9'"},
		{"System role not supported", `{'content': 'System role not supported'} is odd`},
		{"image input", "cannot read 'image input'"},
		{"https://x.example/tools.0.png", "Error while downloading https://x.example/tools.0.png. Upstream status code: 404."},
		{"tools[0].png", "Error while downloading tools[0].png"},
		{"see\n\nthe tools.1\n\nof mine", "Invalid text 'see the tools.1 of mine'"},
		{"how do I raise the rate limit", "Invalid name: 'how do I raise the rate limit'"},
		{"how does billing work", "Invalid text: 'how does billing work'"},
		{"billing", "Invalid text: 'billing'"},
	} {
		for place, message := range map[string]llms.MessageContent{
			"text":  llms.TextParts(llms.ChatMessageTypeHuman, test.words),
			"image": {Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLPart(test.words)}},
			"call": {Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{
				ID: "call", FunctionCall: &llms.FunctionCall{Name: "pay", Arguments: string(must(json.Marshal(map[string]string{test.words: test.words})))},
			}}},
		} {
			e, bodies, _ := endpoint(t, func(string) string { return test.sentence })
			req := llm.Request{Messages: append(dialog("s|S"), message), Options: llms.CallOptions{Tools: tools}}
			_, err := e.Exchange(t.Context(), "http://x.example", req, func(c *Conversation, _ Caps) any { return c }) //nolint:bodyclose // there is none
			failed, ok := errors.AsType[*llm.Error](err)
			if !ok || failed.Code != "bad_request" {
				t.Errorf("%s in a %s: %v", test.words, place, err)
			}
			plain, asWell, _ := endpoint(t, func(string) string { return "Something is wrong" })
			_, _ = plain.Exchange(t.Context(), "http://x.example", req, func(c *Conversation, _ Caps) any { return c }) //nolint:bodyclose // there is none
			if diff := cmp.Diff(*asWell, *bodies); diff != "" {
				t.Errorf("%s in a %s has taught something: %s", test.words, place, diff)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The lesson of a failed answer is tried by the next request, and remembered once that is answered.
func TestExchange_LearnsFromAnswersByProof(t *testing.T) {
	e, bodies, _ := endpoint(t, func(string) string { return "" })
	fail := &llm.Error{Code: "provider_error", Message: "p: unknown parameter: 'seed'"}
	for _, helps := range []bool{false, true} {
		for n, want := range []bool{true, false, helps == false} { // the third request has the member if the second had no answer
			res, err := e.Exchange(t.Context(), "http://x.example", everything, plainShape)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if has := strings.Contains((*bodies)[len(*bodies)-1], `"seed"`); has != want {
				t.Errorf("helps %v: request %d has the member: %v", helps, n, has)
			}
			switch {
			case n == 0:
				e.teach(fail)
			case n == 1 && helps:
				e.complete()
			}
		}
	}
}

func TestExchange_LearnsOnce(t *testing.T) {
	e, bodies, log := endpoint(t, func(body string) string {
		switch {
		case strings.Contains(body, `"seed"`):
			return "Unknown parameter: 'seed'"
		case !strings.Contains(body, `"content":"absent"`):
			return "'content' field must be a string"
		}
		return ""
	})
	for range 2 {
		res, err := e.Exchange(t.Context(), "http://x.example", everything, plainShape)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if len(*bodies) != 4 || strings.Count(log.String(), "level=INFO") != 2 || !strings.Contains(log.String(), "without seed") || strings.Contains(log.String(), "Unknown") {
		t.Errorf("%d requests\n%s", len(*bodies), log)
	}
	if got := (Plain{endpoint: e}).Learned(); !slices.Equal(got, []string{"without seed", "content: absent"}) {
		t.Errorf("learned %q", got)
	}
}

// A lesson that did not help is forgotten, and a provider that refuses everything is not asked for ever.
func TestExchange_ForgetsWhatDidNotHelp(t *testing.T) {
	e, bodies, log := endpoint(t, func(body string) string {
		if strings.Contains(body, `"seed"`) {
			return "Unknown parameter: 'seed'"
		}
		return "Could not process image"
	})
	for range 2 {
		if res, err := e.Exchange(t.Context(), "http://x.example", everything, plainShape); err == nil {
			_ = res.Body.Close()
			t.Error("was accepted")
		}
	}
	if len(*bodies) > 2*maxSends || (Plain{endpoint: e}).Learned() != nil || log.Len() > 0 {
		t.Errorf("%d requests, learned %q\n%s", len(*bodies), Plain{endpoint: e}.Learned(), log)
	}
}

// If a provider refuses a request both ways, the first refusal is returned.
func TestExchange_SendsNothingTwice(t *testing.T) {
	e, bodies, _ := endpoint(t, func(body string) string {
		if strings.Contains(body, "max_completion_tokens") {
			return "Unknown parameter: 'max_completion_tokens'"
		}
		return "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'"
	})
	e.known.caps.MaxTokens = "max_tokens"
	_, err := e.Exchange(t.Context(), "http://x.example", everything, func(_ *Conversation, caps Caps) any { return map[string]int{caps.MaxTokens: 1} }) //nolint:bodyclose // there is none
	if err == nil || !strings.Contains(err.Error(), "Unsupported parameter: 'max_tokens'") || len(*bodies) != 2 {
		t.Errorf("%v after %q", err, *bodies)
	}
}

func TestRefused_HasEachKeyOnce(t *testing.T) {
	one, two, three := keyOf("one"), keyOf("two"), keyOf("three")
	if got := (refused{one, two}).with(three, one, three); !slices.Equal(got, refused{two, three, one}) {
		t.Errorf("%x", got)
	}
}

// The lessons of a model are limited: equal ones are one, and the oldest go.
func TestLearn_IsLimited(t *testing.T) {
	s := &state{}
	for i := range 3 * maxLearned {
		s.learned = s.with(lesson{fmt.Sprint("without tool ", i), "no"})
		s.learned = s.with(lesson{"an image or a file was refused", fmt.Sprint("image ", i)})
	}
	n := len(s.learned)
	if last := s.learned[n-1]; n != maxLearned || last.sentence != fmt.Sprint("image ", 3*maxLearned-1) || s.learned[n-2].what != fmt.Sprint("without tool ", 3*maxLearned-1) {
		t.Errorf("%d lessons, the last %v", n, last)
	}
}

func TestExchange_RefusesTheNewestImageFirst(t *testing.T) {
	e, bodies, _ := endpoint(t, func(body string) string {
		if strings.Contains(body, `"media":2`) {
			return "Could not process image"
		}
		return ""
	})
	for range 2 {
		res, err := e.Exchange(t.Context(), "http://x.example", everything, plainShape)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if len(*bodies) != 3 || !strings.Contains((*bodies)[2], "2.png that the model has refused") {
		t.Errorf("%q", *bodies)
	}
}

// A slower request that knew less forgets nothing of what another has learned.
func TestExchange_KeepsLessonsOfOthers(t *testing.T) {
	e, _, _ := endpoint(t, func(body string) string {
		if strings.Contains(body, `"seed"`) {
			return "Unknown parameter: 'seed'"
		}
		return ""
	})
	before := e.known.of(e.Model)
	res, err := e.Exchange(t.Context(), "http://x.example", everything, plainShape)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	e.remember(before)
	if got := (Plain{endpoint: e}).Learned(); !slices.Equal(got, []string{"without seed"}) {
		t.Errorf("learned %q", got)
	}
}
