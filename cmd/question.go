package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// answer asks the user all questions of a run and sends the answers. It reports false if the user has cancelled the run or
// another client has answered.
func (s *chat) answer(ctx context.Context, r *remote, asks []agui.Interrupt) (bool, error) {
	for {
		entries, err := s.questions(ctx, asks)
		if errors.Is(err, errCtrlC) {
			return false, s.cancelWaiting(ctx, r)
		}
		if err != nil {
			return false, err
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

// questions asks the user all questions and returns the answers.
func (s *chat) questions(ctx context.Context, asks []agui.Interrupt) ([]agui.ResumeEntry, error) {
	entries := make([]agui.ResumeEntry, len(asks))
	for i := range asks {
		payload, err := s.question(ctx, &asks[i])
		if err != nil {
			return nil, err
		}
		entries[i] = agui.ResumeEntry{InterruptID: asks[i].ID, Status: "resolved", Payload: payload}
	}
	return entries, nil
}

// question asks until the answer has the right form, and returns it. The server validates it.
func (s *chat) question(ctx context.Context, in *agui.Interrupt) (json.RawMessage, error) {
	s.out.question(in)
	if in.Reason == "tool_call" {
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
	fields := fieldsOf(in.ResponseSchema)
	if len(fields) < 2 {
		line, err := s.keys.line(ctx, "answer: ")
		return reply(line, in.ResponseSchema), err
	}
	return s.fields(ctx, fields)
}

// fields asks for each field of an answer. A JSON object answers all of them.
func (s *chat) fields(ctx context.Context, fields []field) (json.RawMessage, error) {
	given := make(map[string]json.RawMessage)
	for i := 0; i < len(fields); i++ {
		f := &fields[i]
		line, err := s.keys.line(ctx, printable(f.name)+": ")
		if err != nil {
			return nil, err
		}
		v := jsonOf(line)
		yes, ok := yesOrNo(line)
		switch {
		case i == 0 && v != nil && v[0] == '{':
			return v, nil
		case strings.TrimSpace(line) == "" && f.required:
			i-- // ask again
		case strings.TrimSpace(line) == "":
		case f.kind == "boolean" && ok:
			given[f.name], _ = json.Marshal(yes)
		case f.kind == "string" || v == nil:
			given[f.name], _ = json.Marshal(line)
		default:
			given[f.name] = v
		}
	}
	return json.Marshal(given)
}

// question writes a question with its subject, and the fields of its answer.
func (t *transcript) question(in *agui.Interrupt) {
	var about struct {
		ToolName, Agent, Query string
		Input                  json.RawMessage
	}
	_ = json.Unmarshal(in.Metadata, &about) // other questions are about nothing
	t.line("? "+in.Message, "")
	switch {
	case in.Reason == "tool_call":
		t.line("  "+about.ToolName, "")
		for _, m := range membersOf(about.Input) {
			t.value(m.name, m.value)
		}
	case about.Query != "":
		t.line("  "+about.Agent, "")
		query, _ := json.Marshal(about.Query)
		t.value("query", query)
	case in.Metadata != nil:
		for _, m := range membersOf(in.Metadata) {
			t.value(m.name, m.value)
		}
	}
	for _, f := range fieldsOf(in.ResponseSchema) {
		t.line("  "+f.String(), dim)
	}
}

// value writes a named value: a text as it is, anything else as JSON. A very long value is cut.
func (t *transcript) value(name string, v json.RawMessage) {
	text := compact(v)
	var s string
	if json.Unmarshal(v, &s) == nil {
		text = strings.ReplaceAll(s, "\n", "\n      ")
	}
	if len(text) > maxDetail {
		text = fmt.Sprintf("%s … and %d more bytes; baton runs --json has all", strings.ToValidUTF8(text[:maxDetail], ""), len(text)-maxDetail)
	}
	t.line("    "+strings.ReplaceAll(name, "\n", " ")+": "+text, "")
}

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of a JSON object in their order, and none of other values.
func membersOf(raw json.RawMessage) (list []member) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for dec.More() {
		var m member
		name, err := dec.Token()
		if m.name, _ = name.(string); err != nil || dec.Decode(&m.value) != nil {
			return list
		}
		list = append(list, m)
	}
	return list
}

// field is a member that a schema describes.
type field struct {
	name, kind, about string
	choices           []json.RawMessage
	required          bool
}

// fieldsOf returns the fields of an object that a schema describes, in the order of the schema.
func fieldsOf(schema json.RawMessage) []field {
	var shape struct {
		Properties json.RawMessage
		Required   []string
	}
	_ = json.Unmarshal(schema, &shape) // other schemas have no fields
	members := membersOf(shape.Properties)
	fields := make([]field, len(members))
	for i, m := range members {
		var of struct {
			Type        any
			Description string
			Enum        []json.RawMessage
		}
		_ = json.Unmarshal(m.value, &of) // true admits anything
		fields[i] = field{name: m.name, about: of.Description, choices: of.Enum, required: slices.Contains(shape.Required, m.name)}
		fields[i].kind, _ = of.Type.(string)
	}
	return fields
}

func (f *field) String() string {
	kind := f.kind
	for i, c := range f.choices {
		if i == 0 {
			kind = string(c)
		} else {
			kind += " or " + string(c)
		}
	}
	if !f.required {
		kind += ", optional"
	}
	text := f.name + " (" + strings.TrimPrefix(kind, ", ") + ")"
	if f.about != "" {
		text += ": " + f.about
	}
	return text
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
