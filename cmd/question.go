package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// answer asks the user all questions of a run and sends the answers. It reports false if the user has cancelled the run or
// another client has answered.
func (s *chat) answer(ctx context.Context, r *remote, asks []agui.Interrupt) (bool, error) {
	for {
		entries := make([]agui.ResumeEntry, 0, len(asks))
		for i := range asks {
			payload, err := s.question(ctx, &asks[i])
			if errors.Is(err, errCtrlC) {
				return false, s.cancelWaiting(ctx, r)
			}
			if err != nil {
				return false, err
			}
			entries = append(entries, agui.ResumeEntry{InterruptID: asks[i].ID, Status: "resolved", Payload: payload})
		}
		body, err := json.Marshal(map[string]any{"resume": entries})
		if err != nil {
			return false, err
		}
		path := r.server.runs() + "/" + url.PathEscape(r.runID) + "/resume"
		err = retry(ctx, restartTimeout, func() error { return r.post(ctx, path, body, "", nil) })
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			s.out.line(err.Error(), red)
			if refused.status == 409 { // answered by another client
				return false, s.out.err
			}
			continue
		}
		r.over = false
		return err == nil, err
	}
}

// cancelWaiting cancels a run that waits for an answer.
func (s *chat) cancelWaiting(ctx context.Context, r *remote) error {
	s.failed = true
	if err := r.cancel(ctx); err != nil {
		return err
	}
	s.out.line("cancelled", red)
	return s.out.err
}

// question asks until the answer is valid, and returns it.
func (s *chat) question(ctx context.Context, in *agui.Interrupt) (json.RawMessage, error) {
	var call struct {
		ToolName string          `json:"toolName"`
		Input    json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(in.Metadata, &call) // other interrupts have no call
	s.out.line("? "+in.Message, "")
	if in.Reason == "tool_call" {
		s.out.line("  "+call.ToolName+" "+compact(call.Input), "")
		return s.approval(ctx)
	}
	if in.Reason == "confirmation" && in.ResponseSchema == nil {
		for {
			line, err := s.keys.line(ctx, "[y]es or [n]o: ")
			if err != nil {
				return nil, err
			}
			if yes, ok := yesOrNo(line); ok {
				return json.RawMessage(fmt.Sprintf(`{"approved":%t}`, yes)), nil
			}
			if v := jsonOf(line); v != nil {
				return v, nil
			}
		}
	}
	if in.ResponseSchema != nil {
		s.out.line("  "+compact(in.ResponseSchema), dim)
	}
	line, err := s.keys.line(ctx, "answer: ")
	return reply(line, in.ResponseSchema), err
}

// approval asks whether to approve a tool call, with its arguments or edited ones.
func (s *chat) approval(ctx context.Context) (json.RawMessage, error) {
	for {
		line, err := s.keys.line(ctx, "[a]pprove, [e]dit or [r]efuse: ")
		if err != nil {
			return nil, err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if yes, ok := yesOrNo(word); ok {
			return json.RawMessage(fmt.Sprintf(`{"approved":%t}`, yes)), nil
		}
		if word != "e" && word != "edit" {
			continue
		}
		if rest == "" {
			if rest, err = s.keys.line(ctx, "arguments, a JSON object: "); err != nil {
				return nil, err
			}
		}
		if args := jsonOf(rest); len(args) > 0 && args[0] == '{' {
			return json.Marshal(map[string]any{"approved": true, "editedArgs": args})
		}
		s.out.line("the arguments are not a JSON object", red)
	}
}

func yesOrNo(word string) (yes, ok bool) {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "a", "approve", "y", "yes":
		return true, true
	case "r", "refuse", "n", "no":
		return false, true
	}
	return false, false
}

// jsonOf returns the line if it is valid JSON, otherwise nil.
func jsonOf(line string) json.RawMessage {
	line = strings.TrimSpace(line)
	if !json.Valid([]byte(line)) {
		return nil
	}
	return json.RawMessage(line)
}

// reply converts a line to an answer: JSON stays as it is, other lines become strings. If the schema has a single property, the
// line becomes its value.
func reply(line string, schema json.RawMessage) json.RawMessage {
	v := jsonOf(line)
	var shape struct {
		Type       string
		Properties map[string]struct{ Type string }
	}
	_ = json.Unmarshal(schema, &shape)
	text, _ := json.Marshal(line) // a string always encodes
	switch {
	case shape.Type == "string" && (v == nil || v[0] != '"'), v == nil && shape.Type != "object":
		return text
	case shape.Type == "object" && len(shape.Properties) == 1 && (v == nil || v[0] != '{'):
		for name, p := range shape.Properties {
			if v == nil || p.Type == "string" && v[0] != '"' {
				v = text
			}
			v, _ = json.Marshal(map[string]json.RawMessage{name: v})
		}
	case v == nil:
		return text
	}
	return v
}

// compact returns JSON on one line.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
