package llmtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins/llm"
)

// Chaos returns an answer to each request in a random way: in one of the Forms, whole, cut or damaged, as steps that call the
// tools look, lookup and now and can end anywhere, refused with or without reason, failed, late, or empty. The seed and the
// number of the request determine the way.
func Chaos(seed uint64) func(*Request) Script {
	forms := make(map[string][]Script)
	for _, protocol := range Protocols() {
		all := Forms(protocol)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			forms[protocol] = append(forms[protocol], all[name].Script)
		}
	}
	var n atomic.Uint64
	return func(r *Request) Script {
		c := &chaos{rand.New(rand.NewPCG(seed, n.Add(1)))} //nolint:gosec // no secret
		path, _, _ := strings.Cut(r.Path, "?")
		protocol := protocolOf(path).name
		script := pick(c, forms[protocol])
		switch c.IntN(10) {
		case 0, 1:
		case 2:
			script.Body = script.Body[:c.IntN(len(script.Body)+1)]
		case 3:
			script.Body = c.damaged(script.Body)
		case 4, 5, 6:
			script = Script{Steps: c.steps(), Finish: pick(c, []string{"", "", "", "stop", "length", "tool_calls", "content_filter"})}
		case 7:
			script = c.refusal(r, protocol, script)
		case 8:
			script = c.failure()
		case 9:
			script = pick(c, []Script{{Status: http.StatusOK}, {Status: http.StatusNoContent}, Events(protocol, "[DONE]"), Events(protocol, "{}", "null", "[]"), {Body: ": hello\n\n"}, {}, {Body: c.noAnswer()}})
		}
		script.Gzip = script.Gzip || c.IntN(20) == 0
		script.NoEnd = script.NoEnd || c.IntN(10) == 0
		script.Loose = c.IntN(4) == 0
		if c.IntN(10) == 0 {
			script.Pace = time.Duration(c.IntN(100)) * time.Millisecond
		}
		return script
	}
}

// chaos chooses the fate of one request.
type chaos struct{ *rand.Rand }

func pick[T any](c *chaos, list []T) T { return list[c.IntN(len(list))] }

// damaged returns body with one of its lines gone, doubled or cut, or with one of its bytes changed.
func (c *chaos) damaged(body string) string {
	lines := strings.SplitAfter(body, "\n")
	i := c.IntN(len(lines))
	line := lines[i]
	switch at := c.IntN(len(line) + 1); c.IntN(4) {
	case 0:
		line = ""
	case 1:
		line += line
	case 2:
		line = line[:at]
	case 3:
		line = line[:at] + string(rune(c.IntN(256))) + line[min(at+1, len(line)):]
	}
	return strings.Join(lines[:i], "") + line + strings.Join(lines[i+1:], "")
}

// steps returns an answer that can be interrupted.
func (c *chaos) steps() (steps []Step) {
	for range c.IntN(3) {
		steps = append(steps, Reasoning(pick(c, []string{"Hm", "\n", "<think>", "é"})))
	}
	for range c.IntN(4) {
		steps = append(steps, Text(pick(c, []string{"Hello", " ", "\n\n", "</think>", "🙂", "\x00", `{"answer":`, "```json", `<tool_call>{"name":"look","arguments":{"at":1}}</tool_call>`})))
	}
	id := pick(c, []string{"", "call_%d", "call", "functions.look:%d", strings.Repeat("x", 60) + "%d", "a b/%d"})
	for i := range c.IntN(4) {
		if strings.Contains(id, "%") {
			id = fmt.Sprintf(id, i)
		}
		steps = append(steps, Call(i, id, pick(c, []string{"look", "lookup", "now", "functions.look", "unknown", "查询", "look up!"})))
		arguments := pick(c, []string{`{"at":1}`, `{"at":1}`, "", "{}", `{"at":1,}`, `{"at":`, `"{\"at\":1}"`, "[1]", "at=1", "```json\n{\"at\":1}\n```", "null", `{"at":"🙂"}`, `{"at":1}{"at":2}`, "{}\n" + `{"at":1}`})
		at := c.IntN(len(arguments) + 1)
		steps = append(steps, Arguments(i, arguments[:at]), Arguments(i, arguments[at:]))
	}
	if len(steps) > 1 && c.IntN(4) == 0 {
		c.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	odd := pick(c, []Step{
		Cut(), Cut(), KeepAlive(), Fault(&llm.Error{Status: http.StatusServiceUnavailable, Message: "overloaded"}), Refusal("I cannot help with that."),
		Fault(c.groundless()), Raw("data: ping\n\n"), Raw("\n<html>\n"), Raw("data: {\"\n\n"), Raw("\x00\xff\n"),
	})
	if c.IntN(2) == 0 {
		steps = slices.Insert(steps, c.IntN(len(steps)+1), odd)
	}
	return steps
}

// rules are the strict servers of each protocol.
var rules = map[string][]Rule{
	"chat":      {Mistral, MistralTemplate, Gemma, LMStudio, Hunyuan, Kimi, OpenAI},
	"responses": {Responses}, "anthropic": {Anthropic}, "google": {Gemini}, "ollama": {Ollama},
}

// refusal returns the refusal of a strict server, another one that the request gave no reason for, or script.
func (c *chaos) refusal(r *Request, protocol string, script Script) Script {
	err := pick(c, rules[protocol])(r)
	if err == nil && c.IntN(2) == 0 {
		err = c.groundless()
	}
	if err != nil {
		return Script{Fail: err}
	}
	return script
}

// groundless returns a refusal that says nothing of the request.
func (c *chaos) groundless() *llm.Error {
	return &llm.Error{Status: pick(c, []int{http.StatusBadRequest, http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError}), Message: pick(c, []string{
		"Tool call id was x but must be a-z, A-Z, 0-9, with a length of 9.",
		"Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 41 instead.",
		"messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
		"Unexpected role 'user' after role 'tool'",
		"Conversation roles must alternate user/assistant/user/assistant/...",
		"System role not supported",
		"thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
		"Extra inputs are not permitted: reasoning_content",
		"Invalid 'content': 'content' field must be a string or an array of objects.",
		"messages 中 content 不能为空",
		"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
		"Unknown parameter: 'stream_options'.", "Unknown parameter: 'messages'.", "Unknown parameter: 'tools'.", "stream is not supported",
		"Invalid signature in thinking block", "Corrupted thought signature.",
		"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 201 instead.",
		"Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 10, but got a string with length 20 instead.",
		"Invalid schema for function 'look': In context=(), object schema missing properties.", "tools.1.custom.input_schema.type: Field required",
		"messages.0.content.0.image.source.base64: Could not process image", "Could not process image", "This model does not support image input",
		"This model's maximum context length is 8192 tokens.", "Something is wrong",
	})}
}

// noAnswer returns a body that is no answer in any protocol.
func (c *chaos) noAnswer() string {
	return pick(c, []string{
		`{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, `{"code":500,"msg":"系统繁忙","data":null}`, `{"success":false}`,
		"<!DOCTYPE html><title>Sign in</title>", "ok", `"ok"`, "\uFEFF", "\uFEFF{}", `{"object":"list","data":[]}`,
	})
}

// Stranger returns a rule that refuses one part of a chat completion, which the seed chooses, in words that say nothing of it.
func Stranger(seed uint64) Rule {
	c := &chaos{rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // no secret
	silent := func(m *chatBodyMessage) bool { return len(m.ToolCalls) > 0 && m.blank() }
	bad := []func(m, before *chatBodyMessage) bool{
		func(m, _ *chatBodyMessage) bool { return silent(m) && m.Content != nil },
		func(m, _ *chatBodyMessage) bool { return silent(m) && string(m.Content) != `""` },
		func(m, _ *chatBodyMessage) bool { return m.ToolCallID != "" && !nine.MatchString(m.ToolCallID) },
		func(m, _ *chatBodyMessage) bool { return m.Role == "system" },
		func(m, before *chatBodyMessage) bool { return m.Role == "user" && before.Role == "tool" },
		func(m, _ *chatBodyMessage) bool { return m.ReasoningContent != "" },
	}[seed%6]
	words := pick(c, []string{"", "Bad Request", "请求无效", "E1017", "Something is wrong (request id: %016x)", "upstream error %016x"})
	status := pick(c, []int{http.StatusBadRequest, http.StatusUnprocessableEntity})
	var n atomic.Uint64
	return func(r *Request) *llm.Error {
		before := &chatBodyMessage{}
		for _, m := range chatOf(r).Messages {
			if bad(&m, before) {
				said := words
				if strings.Contains(words, "%") {
					said = fmt.Sprintf(words, rand.NewPCG(seed, n.Add(1)).Uint64())
				}
				return &llm.Error{Status: status, Message: said}
			}
			before = &m
		}
		return nil
	}
}

// failure returns a response of a server or a proxy that is in trouble.
func (c *chaos) failure() Script {
	body := pick(c, []string{
		"", "Bad gateway", "<html><head><title>502 Bad Gateway</title></head></html>", `{"error":{"message":"Something is wrong"}}`, `{"error":"Something is wrong"}`,
		`{"detail":"Something is wrong"}`, `{"error":null}`, "[]", "null", `{"error":{"message":`,
	})
	status := pick(c, []int{201, 202, 301, 400, 401, 402, 403, 404, 405, 408, 409, 413, 422, 429, 429, 500, 502, 503, 504, 524, 529, 599})
	header := pick(c, []map[string]string{nil, nil, {"Retry-After": "0"}, {"Retry-After": "1"}, {"Retry-After": "3600"}, {"Retry-After": "soon"}, {"Location": "/v1/elsewhere"}})
	return Script{Status: status, Body: body, Header: header}
}
