package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

// Dialect is the JSON Schema that a provider accepts for the parameters of tools.
type Dialect string

// The dialects. A server that is not known gets OpenAISchema without references, which all servers accept.
const (
	AnySchema       Dialect = ""
	PlainSchema     Dialect = "json" // JSON Schema whose root is an object with properties
	OpenAISchema    Dialect = "openai"
	AnthropicSchema Dialect = "anthropic"
	GeminiSchema    Dialect = "gemini"
	OllamaSchema    Dialect = "ollama"
	BareSchema      Dialect = "bare" // types, descriptions, properties, items and texts in an enum, which all servers accept
)

// Limits on the schema of a tool.
const (
	maxSchema   = 256 << 10 // bytes
	maxDepth    = 64
	maxNodes    = 20_000 // after references are resolved
	maxResolved = 5      // references inside each other; a deeper one is any object
)

// members that no provider needs, and those that Gemini and Ollama refuse.
var (
	notSent  = []string{"$schema", "$id", "$anchor", "$comment", "$vocabulary"}
	notTaken = []string{
		"propertyNames", "patternProperties", "if", "then", "else", "not", "dependentSchemas", "dependentRequired", "dependencies",
		"unevaluatedProperties", "unevaluatedItems", "contains", "minContains", "maxContains", "additionalItems", "examples",
	}
)

// normalise returns a tool's schema in a dialect, and the names of its properties by their aliases in it. It fails for a schema that has
// no form in the dialect; its error is for the tool's author.
func normalise(raw json.RawMessage, d Dialect) (json.RawMessage, map[string]string, error) {
	if len(raw) > maxSchema {
		return nil, nil, fmt.Errorf("its schema is larger than %d kB", maxSchema>>10)
	}
	if !json.Valid(raw) {
		return nil, nil, errors.New("its schema is not JSON")
	}
	given, _ := decode(raw).(object)
	n := &normaliser{dialect: d, nodes: maxNodes, defs: given}
	out, err := n.root(given)
	if err != nil {
		return nil, nil, err
	}
	if reflect.DeepEqual(any(out), decode(raw)) {
		return raw, nil, nil // with its members in their order
	}
	schema, err := json.Marshal(out)
	return schema, n.names, err
}

type object = map[string]any

func decode(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // is valid
	return v
}

// normaliser converts one schema.
type normaliser struct {
	dialect  Dialect
	defs     object // the root, in which references are resolved
	nodes    int    // that are left
	resolved int    // references around the current node
	names    map[string]string
}

// references reports whether the dialect has references.
func (n *normaliser) references() bool {
	return n.dialect == OpenAISchema || n.dialect == AnthropicSchema || n.dialect == PlainSchema
}

// root returns the schema of an object.
func (n *normaliser) root(given object) (object, error) {
	s := maps.Clone(n.resolve(given))
	if s == nil {
		s = object{}
	}
	for _, defs := range []string{"$defs", "definitions"} {
		if given[defs] != nil {
			s[defs] = given[defs]
		}
	}
	s["type"] = "object"
	if _, ok := s["properties"].(object); !ok {
		s["properties"] = object{}
	}
	if n.dialect != PlainSchema {
		n.mergeBranches(s)
		delete(s, "enum")
		delete(s, "const")
		delete(s, "not")
	}
	out, err := n.node(s, 0)
	if err != nil {
		return nil, err
	}
	return out.(object), nil
}

// resolve returns the target of a local reference, an empty object for another reference, or s if it is none.
func (n *normaliser) resolve(s object) object {
	ref, ok := s["$ref"].(string)
	if !ok {
		return s
	}
	at := any(n.defs)
	steps := strings.Split(ref, "/")
	for _, step := range steps[1:] {
		in, _ := at.(object)
		at = in[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	target, ok := at.(object)
	if !ok || steps[0] != "#" {
		return object{}
	}
	if len(s) > 1 { // a description beside the reference
		target = maps.Clone(target)
		maps.Copy(target, without(s, "$ref"))
	}
	return target
}

// branches returns the alternatives of a kind in a schema.
func (n *normaliser) branches(s object, kind string) (all []object) {
	list, _ := s[kind].([]any)
	for _, b := range list {
		branch, _ := b.(object)
		all = append(all, n.resolve(branch))
	}
	return all
}

func without(s object, names ...string) object {
	s = maps.Clone(s)
	for _, name := range names {
		delete(s, name)
	}
	return s
}

// mergeBranches merges the alternatives of a root, which providers refuse, into one object: a property is required if all
// alternatives require it.
func (n *normaliser) mergeBranches(s object) {
	properties := maps.Clone(s["properties"].(object))
	required := texts(s["required"])
	for _, kind := range []string{"allOf", "anyOf", "oneOf"} {
		branches := n.branches(s, kind)
		delete(s, kind)
		var common []string
		for i, branch := range branches {
			own, _ := branch["properties"].(object)
			for _, name := range slices.Sorted(maps.Keys(own)) {
				properties[name] = either(properties[name], own[name])
			}
			needs := texts(branch["required"])
			switch {
			case kind == "allOf":
				required = append(required, needs...)
			case i == 0:
				common = needs
			default:
				common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(needs, name) })
			}
		}
		required = append(required, common...)
		if len(branches) > 0 {
			s["required"] = list(required)
		}
	}
	s["properties"] = properties
}

// either returns the schema of values that one of two schemas accepts.
func either(a, b any) any {
	if a == nil || reflect.DeepEqual(a, b) {
		return b
	}
	if both, ok := a.(object); ok && len(both) == 1 {
		if all, ok := both["anyOf"].([]any); ok {
			if slices.ContainsFunc(all, func(v any) bool { return reflect.DeepEqual(v, b) }) {
				return a
			}
			return object{"anyOf": append(slices.Clip(all), b)}
		}
	}
	return object{"anyOf": []any{a, b}}
}

func texts(v any) (names []string) {
	all, _ := v.([]any)
	for _, name := range all {
		if s, ok := name.(string); ok && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

func list(names []string) []any {
	out := []any{}
	for _, name := range names {
		if !slices.Contains(out, any(name)) {
			out = append(out, name)
		}
	}
	return out
}

// maps of schemas, lists of schemas, and schemas among the members of a schema.
var (
	schemaMaps  = []string{"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
	schemaLists = []string{"anyOf", "oneOf", "allOf", "prefixItems"}
	schemas     = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties", "additionalItems"}
)

// node converts a schema.
func (n *normaliser) node(v any, depth int) (any, error) {
	if n.nodes--; n.nodes < 0 || depth > maxDepth {
		return nil, errors.New("its schema is too deep or too large")
	}
	s, ok := v.(object)
	if !ok {
		return object{}, nil // true, false or null: anything
	}
	ref, refers := s["$ref"].(string)
	if refers && (!n.references() || strings.HasPrefix(ref, "#/properties/")) { // whose names can change
		if n.resolved == maxResolved {
			return object{"type": "object"}, nil
		}
		n.resolved++
		defer func() { n.resolved-- }()
		return n.node(n.resolve(s), depth+1)
	} else if refers && !strings.HasPrefix(ref, "#") {
		s = without(s, "$ref")
	}
	s = without(s, notSent...)
	if !n.references() {
		s = without(s, "$defs", "definitions")
	}
	if n.dialect == BareSchema {
		n.firstBranch(s)
	}
	n.properties(s)
	correct(s)
	if n.dialect != PlainSchema && isArray(s["type"]) && s["items"] == nil && s["prefixItems"] == nil {
		s["items"] = object{}
	}
	switch n.dialect {
	case GeminiSchema:
		s = geminiNode(without(s, notTaken...))
	case OllamaSchema:
		s = ollamaNode(without(s, notTaken...))
	case BareSchema:
		s = geminiNode(ollamaNode(s))
		maps.DeleteFunc(s, func(member string, _ any) bool { return !slices.Contains(bare, member) })
	case AnySchema, OpenAISchema, AnthropicSchema, PlainSchema:
	}
	return s, n.inside(s, depth)
}

// typeNames are the names of types in JSON Schema and in programming languages. Others mean any value.
var typeNames = map[string]string{
	"object": "object", "dict": "object", "map": "object", "record": "object", "struct": "object",
	"array": "array", "list": "array", "tuple": "array", "set": "array",
	"string": "string", "str": "string", "text": "string",
	"number": "number", "float": "number", "double": "number", "decimal": "number",
	"integer": "integer", "int": "integer", "long": "integer", "int32": "integer", "int64": "integer",
	"boolean": "boolean", "bool": "boolean",
	"null": "null", "none": "null",
}

// correct corrects parts that no draft of JSON Schema has, or only an old one: names of types, an empty enum, and limits that are true
// or false.
func correct(s object) {
	types, several := s["type"].([]any)
	if !several {
		types = []any{s["type"]}
	}
	var known []any
	for _, t := range types {
		word, _ := t.(string)
		name, ok := typeNames[strings.ToLower(word)]
		if !ok {
			known = nil
			break
		}
		if !slices.Contains(known, any(name)) {
			known = append(known, name)
		}
	}
	switch len(known) {
	case 0:
		delete(s, "type")
	case 1:
		s["type"] = known[0]
	default:
		s["type"] = known
	}
	if values, ok := s["enum"].([]any); !ok || len(values) == 0 {
		delete(s, "enum")
	}
	for limit, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		exclusive, ok := s[limit].(bool)
		if !ok {
			continue
		}
		if delete(s, limit); exclusive && s[bound] != nil {
			s[limit] = s[bound]
			delete(s, bound)
		}
	}
}

func isArray(t any) bool {
	several, _ := t.([]any)
	return t == "array" || slices.Contains(several, any("array"))
}

// inside converts the schemas in a schema.
func (n *normaliser) inside(s object, depth int) (err error) {
	for _, name := range schemas {
		if _, isSchema := s[name].(object); !isSchema {
			if all, tuple := s[name].([]any); tuple && name == "items" { // of old drafts
				s["items"] = object{}
				if len(all) > 0 {
					s["items"] = all[0]
				}
			} else {
				continue
			}
		}
		if s[name], err = n.node(s[name], depth+1); err != nil {
			return err
		}
	}
	for _, name := range schemaLists {
		all, _ := s[name].([]any)
		out := make([]any, len(all))
		for i := range all {
			if out[i], err = n.node(all[i], depth+1); err != nil {
				return err
			}
		}
		if all != nil {
			s[name] = out
		}
	}
	for _, name := range schemaMaps {
		all, _ := s[name].(object)
		out := object{}
		for key := range all {
			if out[key], err = n.node(all[key], depth+1); err != nil {
				return err
			}
		}
		if all != nil {
			s[name] = out
		}
	}
	return nil
}

var properName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// bare are the members of a schema in BareSchema.
var bare = []string{"type", "description", "properties", "required", "items", "enum"}

// firstBranch replaces alternatives by the first that is more than null.
func (n *normaliser) firstBranch(s object) {
	for _, kind := range []string{"allOf", "anyOf", "oneOf"} {
		branches := n.branches(s, kind)
		i := slices.IndexFunc(branches, func(branch object) bool { return branch["type"] != "null" })
		if i < 0 {
			continue
		}
		for member, value := range branches[i] {
			if s[member] == nil {
				s[member] = value
			}
		}
	}
}

// properties corrects the properties and the required list of an object. A property whose name providers refuse gets an alias.
func (n *normaliser) properties(s object) {
	if v, there := s["properties"]; there {
		if _, ok := v.(object); !ok {
			s["properties"] = object{}
		}
	}
	properties, ok := s["properties"].(object)
	if !ok {
		if _, list := s["required"].([]any); !list {
			delete(s, "required")
		}
		return
	}
	required := texts(s["required"])
	if n.dialect != PlainSchema && n.dialect != GeminiSchema && n.dialect != OllamaSchema {
		properties = maps.Clone(properties)
		for name, property := range properties {
			if properName.MatchString(name) {
				continue
			}
			alias := llm.Alias(name)
			if n.names == nil {
				n.names = make(map[string]string)
			}
			n.names[alias] = name
			delete(properties, name)
			properties[alias] = property
			if i := slices.Index(required, name); i >= 0 {
				required[i] = alias
			}
		}
		s["properties"] = properties
	}
	if _, there := s["required"]; !there {
		return
	}
	known := slices.DeleteFunc(required, func(name string) bool { _, ok := properties[name]; return !ok })
	if s["required"] = list(known); len(known) == 0 {
		delete(s, "required")
	}
}

// geminiNode converts parts that Gemini refuses: other values than texts in an enum, a const, and lists of types.
func geminiNode(s object) object {
	if value, ok := s["const"]; ok {
		delete(s, "const")
		if s["enum"] == nil {
			s["enum"] = []any{value}
		}
	}
	if values, ok := s["enum"].([]any); ok {
		values = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == nil })
		_, numbers := s["type"].(string)
		numbers = numbers && s["type"] != "string"
		words := make([]any, len(values))
		for i, v := range values {
			_, text := v.(string)
			numbers = numbers || !text && s["type"] != "string"
			words[i] = fmt.Sprint(v)
		}
		if s["enum"] = words; numbers {
			delete(s, "enum")
			description, _ := s["description"].(string)
			s["description"] = strings.TrimSpace(description + " One of: " + strings.Join(texts(words), ", ") + ".")
		}
	}
	if types, ok := s["type"].([]any); ok {
		delete(s, "type")
		var each []any
		for _, t := range types {
			each = append(each, object{"type": t})
		}
		if s["anyOf"] == nil && len(each) > 0 {
			s["anyOf"] = each
		}
	}
	if format, ok := s["format"].(string); ok && format != "enum" && format != "date-time" {
		delete(s, "format")
	}
	return s
}

// ollamaNode converts lists of types, which older versions of Ollama cannot read, into their first type.
func ollamaNode(s object) object {
	if types, ok := s["type"].([]any); ok {
		delete(s, "type")
		if i := slices.IndexFunc(types, func(t any) bool { return t != "null" }); i >= 0 {
			s["type"] = types[i]
		}
	}
	return s
}
