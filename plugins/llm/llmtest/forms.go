package llmtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Form is a response as some server sends it, with the result that a client must read from it.
type Form struct {
	Script    Script
	Text      string
	Reasoning string
	Calls     []string // name and arguments of each
	Finish    string   // "" for stop or tool_calls
	Code      string   // of the failure, if it is one; then Text is a part of the message
}

// Protocols are the names of the protocols, for Forms.
func Protocols() []string { return []string{"chat", "responses", "anthropic", "google", "ollama"} }

// Forms returns the forms of a protocol by name, each of which its documents do not have, or not as it is.
func Forms(protocol string) map[string]Form {
	forms := make(map[string]Form)
	for name, script := range framings(protocol) {
		forms[name] = Form{Script: script, Text: "Hello"}
	}
	maps.Copy(forms, failures(protocol))
	own := map[string]func() map[string]Form{
		"chat": chatForms, "responses": responsesForms, "anthropic": anthropicForms, "google": googleForms, "ollama": ollamaForms,
	}
	maps.Copy(forms, own[protocol]())
	maps.Copy(forms, callForms(protocol))
	return forms
}

// Events returns the script of events with the given data, or of lines for Ollama.
func Events(protocol string, data ...string) Script {
	return Script{Body: framed(protocol, data)}
}

func framed(protocol string, data []string) string {
	var all strings.Builder
	for _, d := range data {
		if protocol == "ollama" {
			all.WriteString(d + "\n")
			continue
		}
		all.WriteString("data: " + d + "\n\n")
	}
	return all.String()
}

// hello returns the events of the answer Hello.
func hello(protocol string) []string {
	switch protocol {
	case "chat":
		return []string{
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}`, `{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		}
	case "responses":
		return []string{
			`{"type":"response.created","response":{"status":"in_progress","error":null}}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`, `{"type":"response.output_text.delta","output_index":0,"delta":"lo"}`,
			`{"type":"response.completed","response":{"status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}}`,
		}
	case "anthropic":
		return []string{
			`{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`,
		}
	case "google":
		return []string{
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hel"}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}]}`,
		}
	}
	return []string{
		`{"message":{"role":"assistant","content":"Hel"},"done":false}`, `{"message":{"role":"assistant","content":"lo"},"done":false}`,
		`{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`,
	}
}

// document returns the answer Hello as one document of JSON.
func document(protocol string) string {
	switch protocol {
	case "chat":
		return `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	case "responses":
		return `{"object":"response","status":"completed","error":null,"output":[{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"Hello"}]}]}`
	case "anthropic":
		return `{"type":"message","role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`
	case "google":
		return `{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"finishReason":"STOP","index":0}]}`
	}
	return `{"message":{"role":"assistant","content":"Hello"},"done":true}`
}

// framings are the answer Hello in other bytes.
func framings(protocol string) map[string]Script {
	data := hello(protocol)
	events, lines := framed("chat", data), framed("ollama", data)
	plain := framed(protocol, data)
	var indented, spread strings.Builder
	indent := json.NewEncoder(&indented)
	indent.SetIndent("", "  ")
	_ = indent.Encode(json.RawMessage(document(protocol))) // cannot fail
	for _, d := range data {
		spread.WriteString("event: " + eventOf(d) + "\ndata:" + d + "\nid: 7\nretry: 100\n\n")
	}
	return map[string]Script{
		"events":                 {Body: events},
		"lines":                  {Body: lines},
		"lines as text/plain":    {Body: lines, Header: map[string]string{"Content-Type": "text/plain"}},
		"no end of the last":     {Body: strings.TrimRight(plain, "\n")},
		"one line end at last":   {Body: strings.TrimRight(plain, "\n") + "\n"},
		"no empty lines":         {Body: strings.ReplaceAll(events, "\n\n", "\n")},
		"CRLF":                   {Body: strings.ReplaceAll(plain, "\n", "\r\n")},
		"a byte order mark":      {Body: "\uFEFF" + plain},
		"blanks before":          {Body: "\n\n  \n" + plain},
		"other fields":           {Body: spread.String()},
		"a word as data":         {Body: strings.ReplaceAll(events, "data: ", "data: ping\n\ndata: : keep-alive\n\ndata: \n\ndata: ")},
		"comments":               {Body: strings.ReplaceAll(events, "data: ", ": PROCESSING\n\n:\n\nevent: ping\n\ndata: ")},
		"data twice":             {Body: strings.ReplaceAll(events, "data: ", "data: data: ")},
		"DONE":                   {Body: plain + framed(protocol, []string{"[DONE]"})},
		"DONE without data":      {Body: plain + "[DONE]\n"},
		"[END] after all":        {Body: plain + framed(protocol, []string{"[END]"})},
		"garbage after all":      {Body: plain + framed(protocol, []string{`{"choi`})},
		"no object after all":    {Body: plain + framed(protocol, []string{`{choices}`})},
		"gzip":                   {Body: plain, Gzip: true},
		"gzip that is not named": {Body: plain, Gzip: true, Header: map[string]string{"Content-Encoding": "identity"}},
		"a document":             {Body: document(protocol), Header: map[string]string{"Content-Type": "application/json"}},
		"an indented document":   {Body: indented.String(), Header: map[string]string{"Content-Type": "application/json"}},
		"a document as an event": {Body: "data: " + document(protocol) + "\n\n"},
		"a list of events":       {Body: "[" + strings.Join(data, ",\r\n") + "]"},
		"a list over lines":      {Body: "[" + strings.Join(data, "\n,\n") + "\n]\n"},
		"events in one line":     {Body: strings.Join(data, "") + "\n"},
		"events in one event":    {Body: "data: " + strings.Join(data, "") + "\n\n"},
		"events without ends":    {Body: "data: " + strings.Join(data, "data: ") + "data: [DONE]"},
		"a list without its end": {Body: "data: " + strings.Join(data, ", ") + "\n\n"},
	}
}

func eventOf(data string) string {
	var v struct{ Type string }
	_ = json.Unmarshal([]byte(data), &v) // has a type in some protocols
	return or(v.Type, "message")
}

// failures are errors in the forms of many servers, in the status of a success.
func failures(protocol string) map[string]Form {
	begin := hello(protocol)[:len(hello(protocol))-2]
	if protocol == "google" {
		begin = hello(protocol)[:1]
	}
	forms := make(map[string]Form)
	for name, data := range map[string]string{
		"error object":          `{"error":{"message":"The GPU is gone","type":"server_error","code":500}}`,
		"error string":          `{"error":"The GPU is gone"}`,
		"error type":            `{"type":"error","error":{"type":"api_error","message":"The GPU is gone"}}`,
		"error with choices":    `{"id":"1","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"The GPU is gone"}}`,
		"object error":          `{"object":"error","message":"The GPU is gone","type":"InternalServerError","param":null,"code":500}`,
		"detail":                `{"detail":"The GPU is gone"}`,
		"detail list":           `{"detail":[{"loc":["body"],"msg":"The GPU is gone","type":"server"}]}`,
		"message":               `{"message":"The GPU is gone","code":1234}`,
		"errors":                `{"errors":[{"message":"The GPU is gone"}]}`,
		"list":                  `[{"error":{"code":500,"message":"The GPU is gone","status":"INTERNAL"}}]`,
		"metadata of a gateway": `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"The GPU is gone\"}}"}}}`,
	} {
		forms[name+" in a stream"] = Form{Script: Events(protocol, append(slices.Clip(begin), data, "[DONE]")...), Code: "provider_error", Text: "The GPU is gone"}
		forms[name+" as document"] = Form{
			Script: Script{Body: data, Header: map[string]string{"Content-Type": "application/json"}}, Code: "provider_error", Text: "The GPU is gone",
		}
	}
	forms["error event"] = Form{Script: Script{Body: "event: error\ndata: {\"text\":\"The GPU is gone\"}\n\n"}, Code: "provider_error"}
	forms["a text"] = Form{Script: Script{Body: "The GPU is gone", Header: map[string]string{"Content-Type": "text/plain"}}, Code: "provider_error", Text: "The GPU is gone"}
	forms["a web page"] = Form{Script: Script{Body: "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"}, Code: "not_an_api", Text: "web page"}
	forms["half an event"] = Form{Script: Events("chat", append(slices.Clip(begin), `{"choices":[`, "[DONE]")...), Code: "provider_error", Text: `{"choices":[`}
	for name, garbled := range map[string]string{"half an event": `{"choices":[`, "no object": `{"choices":[{"delta":{"content":"Hel}}]}`, "a bare word": `{"choices":lost}`} {
		data := slices.Insert(hello(protocol), 1, garbled)
		forms[name+" in the middle"] = Form{Script: Events("chat", append(data, "[DONE]")...), Code: "provider_error", Text: garbled}
	}
	forms["cut in an event"] = Form{Script: Script{Body: framed(protocol, begin) + `data: {"choices":[{"del`}, Code: "connection_lost"}
	return forms
}

// delta returns an event with a delta of a chat completion.
func delta(members string) string { return `{"choices":[{"index":0,"delta":{` + members + `}}]}` }

func chatForms() map[string]Form {
	end := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	say := func(members ...string) Script {
		var data []string
		for _, m := range members {
			data = append(data, delta(m))
		}
		return Events("chat", append(data, end, "[DONE]")...)
	}
	return map[string]Form{
		"content of parts":     {Script: say(`"content":[{"type":"text","text":"Hel"}]`, `"content":[{"type":"text","text":"l"},{"type":"text","text":"o"}]`), Text: "Hello"},
		"thinking parts":       {Script: say(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]`, `"content":"Hello"`), Text: "Hello", Reasoning: "Hm"},
		"one part":             {Script: say(`"content":{"type":"text","text":"Hello"}`), Text: "Hello"},
		"reasoning object":     {Script: say(`"reasoning":{"content":"Hm"}`, `"content":"Hello"`), Text: "Hello", Reasoning: "Hm"},
		"reasoning details":    {Script: say(`"reasoning_details":[{"type":"reasoning.text","text":"H"},{"type":"reasoning.summary","summary":"m"},{"type":"reasoning.encrypted","data":"x"}]`, `"content":"Hello"`), Text: "Hello", Reasoning: "Hm"},
		"reasoning twice":      {Script: say(`"reasoning":"Hm","reasoning_content":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm"}]`, `"content":"Hello"`), Text: "Hello", Reasoning: "Hm"},
		"members of no use":    {Script: say(`"role":7,"content":null,"tool_calls":null,"refusal":null,"function_call":null,"audio":[]`, `"content":"Hello","tool_calls":"none","logprobs":true`), Text: "Hello"},
		"halves of characters": {Script: say(`"content":"a\ud83d"`, `"content":"\ude00b"`, `"content":"\\ud83d"`, `"content":"\ud83d\ude00\ud83d"`, `"content":"!"`), Text: "a😀b\\ud83d😀�!"},
		"halves of thoughts":   {Script: say(`"reasoning":"\uD83D"`, `"reasoning":"\uDE00"`, `"content":"Hello"`), Text: "Hello", Reasoning: "😀"},
		"finish number":        {Script: Events("chat", delta(`"content":"Hello"`), `{"choices":[{"index":"0","delta":[],"finish_reason":1}]}`), Text: "Hello", Finish: "1"},
		"finish empty first":   {Script: Events("chat", `{"choices":[{"delta":{"content":"Hello"},"finish_reason":""}]}`, end), Text: "Hello"},
		"choices object":       {Script: Events("chat", `{"choices":{"delta":{"content":"Hello"},"finish_reason":"stop"}}`), Text: "Hello"},
		"usage as text":        {Script: Events("chat", delta(`"content":"Hello"`), end, `{"choices":[],"usage":{"prompt_tokens":"3","completion_tokens":4.0,"prompt_tokens_details":null}}`), Text: "Hello"},
		"usage without finish": {Script: Events("chat", delta(`"content":"Hello"`), `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`), Text: "Hello"},
		"no finish":            {Script: Events("chat", delta(`"content":"Hello"`)), Code: "connection_lost"},
		"message for delta":    {Script: Events("chat", `{"choices":[{"message":{"content":"Hel"}}]}`, `{"choices":[{"message":{"content":"lo"},"finish_reason":"stop"}]}`), Text: "Hello"},
		"message after deltas": {Script: Events("chat", delta(`"content":"Hel"`), delta(`"content":"lo"`), `{"choices":[{"delta":{},"message":{"content":"Hello"},"finish_reason":"stop"}]}`), Text: "Hello"},
		"message with call": {
			Script: Events("chat", `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}}]},"finish_reason":"tool_calls"}]}`),
			Calls:  []string{`look{"at":1}`},
		},
		"chunks without choices": {Script: Events("chat", `{"choices":[],"prompt_filter_results":[]}`, `{"id":"1","object":"chat.completion.chunk"}`, `{}`, delta(`"content":"Hello"`), end), Text: "Hello"},
		"null error":             {Script: Events("chat", `{"error":null,"choices":[{"delta":{"content":"Hello"}}]}`, `{"error":"","choices":[{"delta":{},"finish_reason":"stop"}]}`), Text: "Hello"},
		"completions of old":     {Script: Events("chat", `{"choices":[{"text":"Hel","index":0,"finish_reason":null}]}`, `{"choices":[{"text":"lo","finish_reason":"stop"}]}`), Text: "Hello"},
		"error in a choice":      {Script: Events("chat", delta(`"content":"Hel"`), `{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502,"message":"The GPU is gone"}}]}`), Code: "provider_error", Text: "The GPU is gone"},
		"refusal":                {Script: say(`"refusal":"Hel"`, `"refusal":"lo"`), Text: "Hello", Finish: "content_filter"},
		"length of others":       {Script: Events("chat", delta(`"content":"Hello"`), `{"choices":[{"delta":{},"finish_reason":"model_length"}]}`), Text: "Hello", Finish: "length"},
	}
}

func responsesForms() map[string]Form {
	completed := `{"type":"response.completed","response":{"status":"completed"}}`
	return map[string]Form{
		"no types": {Script: Script{Body: "event: response.output_text.delta\ndata: {\"delta\":\"Hello\"}\n\nevent: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n"}, Text: "Hello"},
		"only the end": {
			Script: Events("responses", `{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}]},{"type":"message","content":[{"type":"output_text","text":"Hello"}]},{"type":"function_call","call_id":"1","name":"look","arguments":"{\"at\":1}"}]}}`),
			Text:   "Hello", Reasoning: "Hm", Calls: []string{`look{"at":1}`},
		},
		"items without pieces": {
			Script: Events("responses", `{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","content":[{"type":"output_text","text":"Hello"}]}}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"id":"f","type":"function_call","call_id":"1","name":"look","arguments":"{\"at\":1}"}}`, completed),
			Text: "Hello", Calls: []string{`look{"at":1}`},
		},
		"pieces and items": {
			Script: Events("responses", `{"type":"response.output_text.delta","item_id":"m","delta":"Hello"}`,
				`{"type":"response.output_item.done","item":{"id":"m","type":"message","content":[{"type":"output_text","text":"Hello"}]}}`, completed),
			Text: "Hello",
		},
		"text done alone": {Script: Events("responses", `{"type":"response.output_text.done","item_id":"m","output_index":0,"content_index":0,"text":"Hello"}`, completed), Text: "Hello"},
		"two parts, one done alone": {
			Script: Events("responses", `{"type":"response.output_text.delta","item_id":"m","content_index":0,"delta":"Hel"}`, `{"type":"response.output_text.done","item_id":"m","content_index":0,"text":"Hel"}`,
				`{"type":"response.output_text.done","item_id":"m","content_index":1,"text":"lo"}`, completed),
			Text: "Hello",
		},
		"pieces without id, items with": {
			Script: Events("responses", `{"type":"response.reasoning_summary_text.delta","delta":"Hm"}`, `{"type":"response.output_item.done","item":{"id":"r","type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}]}}`,
				`{"type":"response.output_text.delta","delta":"Hello"}`, `{"type":"response.output_text.done","text":"Hello"}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"id":"m","type":"message","content":[{"type":"output_text","text":"Hello"}]}}`, completed),
			Text: "Hello", Reasoning: "Hm",
		},
		"pieces without id, the end with": {
			Script: Events("responses", `{"type":"response.output_text.delta","delta":"Hello"}`,
				`{"type":"response.completed","response":{"status":"completed","output":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"Hm"}]},{"type":"message","id":"m","content":[{"type":"output_text","text":"Hello"}]}]}}`),
			Text: "Hello", Reasoning: "Hm",
		},
		"ids that change": {
			Script: Events("responses", `{"type":"response.output_text.delta","output_index":0,"item_id":"a","delta":"Hel"}`, `{"type":"response.output_text.delta","output_index":0,"item_id":"b","delta":"lo"}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"id":"c","type":"message","content":[{"type":"output_text","text":"Hello"}]}}`,
				`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","id":"d","content":[{"type":"output_text","text":"Hello"}]}]}}`),
			Text: "Hello",
		},
		"two messages": {
			Script: Events("responses", `{"type":"response.output_text.delta","item_id":"a","delta":"Hel"}`, `{"type":"response.output_item.done","item":{"id":"a","type":"message","content":[{"text":"Hel"}]}}`,
				`{"type":"response.output_item.done","item":{"id":"b","type":"message","content":[{"text":"lo"}]}}`, completed),
			Text: "Hello",
		},
		"index as text":      {Script: Events("responses", `{"type":"response.output_text.delta","output_index":"0","content_index":"0","delta":"Hello"}`, completed), Text: "Hello"},
		"response is failed": {Script: Events("responses", `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"The GPU is gone"}}}`), Code: "provider_error", Text: "The GPU is gone"},
		"error without object": {
			Script: Events("responses", `{"type":"error","code":"server_error","message":"The GPU is gone","param":null}`), Code: "provider_error", Text: "The GPU is gone",
		},
		"incomplete": {Script: Events("responses", `{"type":"response.output_text.delta","delta":"Hello"}`, `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), Text: "Hello", Finish: "length"},
	}
}

func anthropicForms() map[string]Form {
	end := []string{`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`}
	return map[string]Form{
		"no types":     {Script: Script{Body: "event: content_block_start\ndata: {\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hello\"}}\n\nevent: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {}\n\n"}, Text: "Hello"},
		"no stop":      {Script: Events("anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`, end[0]), Text: "Hello"},
		"DONE instead": {Script: Events("anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`, end[0], "[DONE]"), Text: "Hello"},
		"no block":     {Script: Events("anthropic", append([]string{`{"type":"content_block_start","index":0}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`}, end...)...), Text: "Hello"},
		"error of a gateway": {
			Script: Events("anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`, `{"error":{"message":"The GPU is gone"}}`), Code: "provider_error", Text: "The GPU is gone",
		},
		"members of no use": {Script: Events("anthropic", append([]string{`{"type":"message_start","message":"x"}`, `{"type":"vertex_event","v":1}`, `{"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"Hello","usage":[]}}`}, end...)...), Text: "Hello"},
		"message with call": {
			Script: Events("anthropic", `{"type":"message","content":[{"type":"thinking","thinking":"Hm","signature":"s"},{"type":"text","text":"Hello"},{"type":"tool_use","id":"1","name":"look","input":{"at":1}}],"stop_reason":"tool_use"}`),
			Text:   "Hello", Reasoning: "Hm", Calls: []string{`look{"at":1}`},
		},
	}
}

func googleForms() map[string]Form {
	return map[string]Form{
		"one part":             {Script: Events("google", `{"candidates":[{"content":{"parts":{"text":"Hello"}},"finishReason":"STOP"}]}`), Text: "Hello"},
		"finish of a call":     {Script: Events("google", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"look","args":{"at":1}}}]},"finishReason":"FUNCTION_CALL"}]}`), Calls: []string{`look{"at":1}`}},
		"members of no use":    {Script: Events("google", `{"candidates":[{"content":{"parts":[{"text":"Hm","thought":"true"},{"text":"Hello","inlineData":7}],"role":[]},"index":"0","finishReason":"STOP"}],"usageMetadata":"none","promptFeedback":[]}`), Text: "Hello", Reasoning: "Hm"},
		"halves of characters": {Script: Events("google", `{"candidates":[{"content":{"parts":[{"text":"\ud83d"}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":"\ude00"}]},"finishReason":"STOP"}]}`), Text: "😀"},
	}
}

func ollamaForms() map[string]Form {
	return map[string]Form{
		"reasoning of a gateway": {Script: Events("ollama", `{"message":{"reasoning_content":"Hm"},"done":false}`, `{"message":{"content":"Hello"},"done":true}`), Text: "Hello", Reasoning: "Hm"},
		"done as text":           {Script: Events("ollama", `{"message":{"content":"Hello","images":7},"done":"true","eval_count":"4"}`), Text: "Hello"},
		"call as text":           {Script: Events("ollama", `{"message":{"content":"","tool_calls":[{"function":{"index":0,"name":"look","arguments":"{\"at\":1}"}}]},"done":true}`), Calls: []string{`look{"at":1}`}},
	}
}
