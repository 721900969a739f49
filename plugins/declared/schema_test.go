package declared_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/plugins/declared"
)

// compile compiles the schema of a file with declarations only.
func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(map[string]any{"type": "object", "properties": declared.Schema(), "additionalProperties": false})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("baton.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("baton.schema.json")
}

// admits validates a YAML file against a schema.
func admits(t *testing.T, s *jsonschema.Schema, file string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(file), &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestSchema_AgreesWithLoad(t *testing.T) {
	schema := compile(t)
	const head = "agents: {b: {command: [x]}}\n"
	for file, ok := range map[string]bool{
		strings.Replace(all, "listen:", "# listen:", 1): true,
		"agents: {}": true,
		"agents: # nothing yet\nmcp:\nworkflows:\n":                                 true,
		"agents: {a b: {command: [x]}}":                                             false,
		"mcp: {a.b: {command: [x]}}":                                                false,
		"workflows: {-w: {nodes: {n: {agent: echo}}}}":                              false,
		"agents: {a: {command: [x], limits: {timeout: 1h30m0.5s, concurrency: 0}}}": true,
		"agents: {a: {command: [x], limits: {timeout: 30}}}":                        false,
		"agents: {a: {command: [x], limits: {timeout: '30'}}}":                      false,
		"agents: {a: {command: [x], limits: {timeout: -1s}}}":                       false,
		"agents: {a: {command: [x], limits: {concurrency: -1}}}":                    false,
		"agents: {a: {command: [x], limits: {concurrency: 1.5}}}":                   false,
		"agents: {a: {command: [x], limits: {concurrency: '1'}}}":                   false,
		"agents: {a: {command: x}}":                                                 false,
		"agents: {a: {command: [1]}}":                                               false,
		"agents: {a: {command: [x], env: {A: 1, B: true, C: x}}}":                   true,
		"agents: {a: {command: [x], env: {A: [1]}}}":                                false,
		"agents: {a: {provider: mistral}}":                                          false,
		"agents: {a: {provider: ollama, command: [x]}}":                             false,
		model: true,
		"prices: {currency: USD, models: {m: {input: 1, output: 0.5}}}":              true,
		"prices: {currency: USD, models: {m: {input: cheap}}}":                       false,
		"prices: {currency: USD, models: {m: {input: -1}}}":                          false,
		"prices: {models: {m: {input: 1}}}":                                          false,
		"budgets: {b: {scope: user, per: month, unit: tokens, limit: 5, over: ask}}": true,
		"budgets: {b: {scope: run, unit: tokens, limit: 5, of: a}}":                  true,
		"budgets: {b: {scope: user, per: week, unit: tokens, limit: 5}}":             false,
		"budgets: {b: {scope: user, per: day, limit: 5}}":                            false,
		"budgets: {b: {scope: user, per: day, unit: tokens}}":                        false,
		"budgets: {b: {scope: user, per: day, unit: tokens, limit: much}}":           false,
		"agents: {a: {provider: ollama, fallback: [{model: m}]}}":                    false,
		"agents: {a: {provider: ollama, output: json}}":                              false,
		"agents: {a: {provider: ollama, history: {over: sumarise}}}":                 false,
		"mcp: {f: {url: 'http://x', required: maybe}}":                               false,
		"mcp: {f: {url: 'http://x', required: false}}":                               true,
		"agents: {a: {}}":                                                                            false,
		"agents: {a: {colour: red, command: [x]}}":                                                   false,
		"agents: [a]":                                                                                false,
		"mcp: {f: {url: 'http://x'}}":                                                                true,
		"mcp: {f: {url: 'http://x', command: [x]}}":                                                  false,
		"mcp: {f: {url: 'http://x', timeout: 5}}":                                                    false,
		head + "workflows: {w: {nodes: {n: {agent: b, input: 3}}}}":                                  true,
		head + "workflows: {w: {nodes: {n: {agent: b, input: [3, query]}}}}":                         true,
		head + "workflows: {w: {nodes: {n: {agent: b, approval: always}}}}":                          false,
		"workflows: {w: {nodes: {n: {wait: {for: 2d}}}}}":                                            true,
		"workflows: {w: {nodes: {n: {ask: {message: query, else: {fail: true}}, wait: {for: 2d}}}}}": true,
		"workflows: {w: {nodes: {n: {ask: {by: user}}}}}":                                            false,
		head + "workflows: {w: {nodes: {n: {agent: b, ask: {message: query}}}}}":                     false,
		"workflows: {w: {nodes: {n: {wait: {}}}}}":                                                   false,
		head + "workflows: {w: {nodes: {n: {agent: b, wait: {until: now()}}}}}":                      true,
		head + "workflows: {w: {nodes: {n: {agent: b, wait: {until: now(), for: 1h}}}}}":             false,
		head + "workflows: {w: {nodes: {n: {agent: b, approval: {by: operator, not: requester, message: query, expires: 2h, edit: false}}}}}": true,
		head + "workflows: {w: {nodes: {n: {agent: b, approval: {by: boss}}}}}":                                                               false,
		head + "workflows: {w: {nodes: {n: {agent: b, retry: 2.5}}}}":                                                                         false,
		head + "workflows: {w: {nodes: {n: {agent: b, needs: m}}}}":                                                                           false,
		head + "workflows: {w: {nodes: {n: {agent: b, retry: {max: 2}, repeat: {until: n.round == 2}, on_error: continue}}}}":                 true,
		head + "workflows: {w: {nodes: {n: {agent: b, retry: {on: [busy]}}}}}":                                                                false,
		head + "workflows: {w: {nodes: {n: {agent: b, repeat: {max: 2}}}}}":                                                                   false,
		head + "workflows: {w: {nodes: [b]}}":                                                                                                 false,
	} {
		_, loadErr := declared.Load(write(t, file), config(map[string]string{"KEY": "k", "TOKEN": "t"}), nil)
		if err := admits(t, schema, file); (err == nil) != ok || (loadErr == nil) != ok {
			t.Errorf("%s\nthe schema says %v\nLoad says %v", file, err, loadErr)
		}
	}
}
