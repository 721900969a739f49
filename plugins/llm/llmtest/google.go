package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

// generate speaks Google's streamGenerateContent: the answer ends with the last chunk's finish reason, calls have no ids,
// and the signature of the reasoning comes with the first call.
func generate(s *stream, r *Request, script Script) {
	model := geminiModel(r)
	chunk := func(candidate object) {
		v := object{"candidates": []object{candidate}, "modelVersion": model, "responseId": "r-1"}
		if u := script.Usage; u != nil {
			v["usageMetadata"] = object{
				"promptTokenCount": u.InputTokens, "cachedContentTokenCount": u.CachedInputTokens,
				"candidatesTokenCount": u.OutputTokens - u.ReasoningTokens, "thoughtsTokenCount": u.ReasoningTokens,
				"totalTokenCount":     u.InputTokens + u.OutputTokens,
				"promptTokensDetails": []object{{"modality": "TEXT", "tokenCount": u.InputTokens}},
			}
		}
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		s.write("data: " + string(data) + "\r\n\r\n")
	}
	part := func(p object) {
		chunk(object{"content": object{"parts": []object{p}, "role": "model"}, "index": 0})
	}
	thought, called := false, false
	text := "" // since the last call
	s.play(script, whole(script.Steps), func(step Step) {
		switch {
		case step.KeepAlive:
			s.write(": keep-alive\r\n\r\n")
		case step.Fail != nil:
			data, _ := json.Marshal(googleFault(step.Fail))
			s.write("data: " + string(data) + "\r\n\r\n")
			s.end()
		case step.Refusal != "": // not reported
		case step.Reasoning != "":
			thought = true
			part(object{"text": step.Reasoning, "thought": true})
		case step.Call != nil:
			p := object{"functionCall": object{"name": step.Call.Name, "args": whatever(step.Call.Arguments)}}
			if thought && !called {
				p["thoughtSignature"] = signature(model, step.Call.Name, compact([]byte(step.Call.Arguments)))
			}
			called, text = true, ""
			part(p)
		default:
			text += step.Text
			part(object{"text": step.Text})
		}
	})
	finish := map[string]string{"length": "MAX_TOKENS", "content_filter": "SAFETY"}[script.finish()]
	last := object{"finishReason": or(finish, "STOP"), "index": 0}
	if finish != "SAFETY" {
		end := object{"text": ""}
		if thought && text != "" {
			end["thoughtSignature"] = signature(model, text)
		}
		last["content"] = object{"parts": []object{end}, "role": "model"}
	}
	chunk(last)
}

// geminiModel returns the model named in a request's path.
func geminiModel(r *Request) string {
	model, _, _ := strings.Cut(r.Path[strings.LastIndex(r.Path, "/")+1:], ":")
	return model
}

func googleFault(e *llm.Error) any {
	status := map[int]string{
		http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
		http.StatusNotFound: "NOT_FOUND", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE",
	}[e.Status]
	fault := object{"code": e.Status, "message": or(e.Message, "An internal error has occurred."), "status": or(or(e.Code, status), "INTERNAL")}
	if e.RetryAfter > 0 {
		fault["details"] = []object{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", e.RetryAfter.Seconds())}}
	}
	return object{"error": fault}
}
