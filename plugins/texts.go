package plugins

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// textsOf returns the texts of values: all their strings, and the strings, names and numbers of their JSON. So a member that a type gets
// later is judged, too.
func textsOf(values ...any) (all []string) {
	for _, v := range values {
		all = appendTexts(all, reflect.ValueOf(v))
	}
	return all
}

func appendTexts(all []string, v reflect.Value) []string {
	switch v.Kind() {
	case reflect.String:
		return appendText(all, v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return appendTexts(all, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(all, textsIn(v.Bytes())...)
		}
		for i := range v.Len() {
			all = appendTexts(all, v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			all = appendTexts(all, field)
		}
	}
	return all
}

// appendText adds a text, and what it says without the escapes of JSON if it begins as JSON: some providers get it decoded, from JSON inside
// JSON too.
func appendText(all []string, text string) []string {
	for range 4 {
		if text == "" {
			return all
		}
		all = append(all, text)
		plain := unescape(text)
		if plain == text || !likeJSON.MatchString(text) {
			return all
		}
		text = plain
	}
	return all
}

var likeJSON = regexp.MustCompile("^\\s*(?:```(?:json)?\\s*)?[{\\[\"]")

var escape = regexp.MustCompile(`(?:\\u[0-9a-fA-F]{4})+|\\.`)

// unescape decodes the escapes of JSON in a text, which need not be valid JSON.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(found string) string {
		var plain string
		if json.Unmarshal([]byte(`"`+found+`"`), &plain) != nil {
			return found[1:]
		}
		return plain
	})
}

// messageTexts returns the texts of a message that can be rewritten, which are its content and the arguments of its calls, and the fixed
// ones: all others but its id and its role, which is one of a few words. Images and files have none, except those that are texts.
func messageTexts(m *agui.Message) (texts, fixed []string) {
	rest := *m
	rest.ID, rest.Role, rest.Content, rest.Parts, rest.Metadata = "", "", "", nil, nil
	var raws []json.RawMessage
	_ = json.Unmarshal(m.Parts, &raws) // it was checked when it was read
	for _, raw := range raws {
		own, others := partTexts(raw)
		texts, fixed = append(texts, own...), append(fixed, others...)
	}
	texts = appendText(texts, m.Content)
	for _, part := range m.ContentParts() { // as models get them: their members may have other spellings, and forms
		read := part.Text
		if part.Source != nil {
			read = part.Source.Text()
		}
		if !slices.Contains(texts, read) && !slices.Contains(fixed, read) {
			texts = appendText(texts, read)
		}
	}
	rest.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range rest.ToolCalls {
		texts = appendText(texts, rest.ToolCalls[i].Arguments)
		rest.ToolCalls[i].Arguments = ""
	}
	fixed = append(fixed, textsOf(rest)...)
	var metadata map[string]json.RawMessage
	_ = json.Unmarshal(m.Metadata, &metadata) // absent metadata has no members
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if name != "workerAgentOutput" && name != "agent" { // the server's own: the text again, and the agent that has rewritten it
			fixed = append(append(fixed, name), textsIn(metadata[name])...)
		}
	}
	return texts, fixed
}

// partTexts returns the texts and the fixed texts of a part of a message. The bytes of an image or a file have none, except those that are a
// text.
func partTexts(raw json.RawMessage) (texts, fixed []string) {
	var members, source map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // it was checked when it was read
	_ = json.Unmarshal(members["source"], &source)
	var file agui.Source
	if source != nil && json.Unmarshal(members["source"], &file) == nil {
		delete(members, "source")
		delete(source, "value")
	}
	for _, object := range []map[string]json.RawMessage{members, source} {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !slices.Contains(ownNames, name) {
				fixed = append(fixed, name)
			}
			to := &fixed
			if name == "text" {
				to = &texts
			}
			*to = append(*to, textsIn(object[name])...)
		}
	}
	return appendText(texts, file.Text()), append(fixed, file.MediaTypes()...)
}

// ownNames are the names of members of parts and sources, which no client has chosen.
var ownNames = []string{"type", "id", "text", "source", "metadata", "mimeType", "provider", "image_url"}

// resultTexts returns the texts of the result of a call that a client has made.
func resultTexts(out *agui.ToolOutput) []string {
	rest := *out
	rest.ToolName, rest.ToolCallID, rest.ToolCallArgs, rest.Status, rest.Parts = "", "", nil, "", nil
	texts, fixed := messageTexts(&agui.Message{Role: agui.RoleTool, Parts: out.Parts})
	return slices.Concat(textsOf(rest), texts, fixed)
}

// textsIn returns all texts of a JSON value, the names of members among them.
func textsIn(raw json.RawMessage) (all []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		switch t, err := d.Token(); t := t.(type) {
		case string:
			all = appendText(all, t)
		case json.Number:
			all = append(all, t.String())
		default:
			if err != nil {
				return all
			}
		}
	}
}

// join joins the texts that are not empty.
func join(texts []string, with string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" }), with)
}
