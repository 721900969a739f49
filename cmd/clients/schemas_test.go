package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// record is the list of events that one reader got.
type record struct {
	Thread     string            `json:"thread"`
	Projection string            `json:"projection"` // seed, agui or agui.1
	Events     []json.RawMessage `json:"events"`
	Joined     []json.RawMessage `json:"joined,omitempty"` // events for a client that joins the thread after them
}

// All events of every scenario satisfy the schemas and order rules of AG-UI's packages: those of each dialect its own package's, and
// the seed projection both. A whole log results in the messages and state that clients get when they join after it.
func TestEvents_PassSchemas(t *testing.T) {
	t.Parallel()
	projections := map[string][]string{"agui0": {"seed", "agui"}, "agui1": {"seed", "agui", "agui.1"}}
	eachDialect(t, func(t *testing.T, folder, database string) {
		records := play(t, startProgram(t, testBinary, database))
		checkTypes(t, records)
		in, err := json.Marshal(slices.DeleteFunc(records, func(r record) bool {
			return !slices.Contains(projections[folder], r.Projection)
		}))
		must(t, err)
		judge(t, folder, "../agui/schemas.mjs", bytes.NewReader(in))
	})
}

// checkTypes checks that the scenarios contain every type of event in every projection that may have it.
func checkTypes(t *testing.T, records []record) {
	seen := make(map[string]bool)
	for _, r := range records {
		for _, raw := range r.Events {
			var ev struct{ Type string }
			if err := json.Unmarshal(raw, &ev); err != nil {
				t.Fatalf("%s, %s: %s: %v", r.Thread, r.Projection, raw, err)
			}
			seen[r.Projection+" "+ev.Type] = true
		}
	}
	for _, projection := range []string{"seed", "agui", "agui.1"} {
		for _, typ := range []string{
			"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "STEP_STARTED", "STEP_FINISHED",
			"TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
			"REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END",
			"REASONING_ENCRYPTED_VALUE", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
			"STATE_SNAPSHOT", "STATE_DELTA", "MESSAGES_SNAPSHOT", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "CUSTOM", "RAW",
		} {
			if !seen[projection+" "+typ] {
				t.Errorf("no %s in projection %s", typ, projection)
			}
		}
		for _, typ := range []string{"SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR", "THEIR_OWN"} {
			if seen[projection+" "+typ] != (projection == "agui.1") {
				t.Errorf("%s in projection %s: got %t", typ, projection, seen[projection+" "+typ])
			}
		}
	}
}

// dialects maps the projections of AG-UI's clients to the protocolVersion that the clients send.
var dialects = map[string]string{"agui": "", "agui.1": "1.0"}

// play plays every scenario for clients of both dialects, and returns the events of their streams and every thread's log in every
// projection.
func play(t *testing.T, s *server) []record {
	t.Helper()
	var players []*player
	t.Run("play", func(t *testing.T) {
		for name, scenario := range allScenarios(t) {
			for projection, version := range dialects {
				p := &player{s: s, thread: name + ", " + projection, projection: projection, version: version}
				players = append(players, p)
				t.Run(p.thread, func(t *testing.T) {
					t.Parallel()
					p.t = t
					scenario(p)
				})
			}
		}
	})
	crash := &player{t: t, s: s, thread: "crash"}
	crash.crash()
	var records []record
	for _, p := range append(players, crash) {
		records = append(records, p.streams...)
		records = append(records, record{Thread: p.thread, Projection: "seed", Events: s.events(t, p.log()+"/events")})
		for projection, version := range dialects {
			whole := s.mirror(t, p.log()+"/ws", projection)
			joined := s.post(t, "/api/v1/agui/echo/connect", object{"threadId": p.thread, "protocolVersion": version})
			records = append(records, record{p.thread, projection, whole, joined})
		}
	}
	return records
}

// allScenarios returns scenarios and those of agui/events.json, with events that no built-in plugin emits.
func allScenarios(t *testing.T) map[string]func(p *player) {
	t.Helper()
	raw, err := os.ReadFile("agui/events.json")
	must(t, err)
	var scripts map[string]json.RawMessage
	must(t, json.Unmarshal(raw, &scripts))
	all := maps.Clone(scenarios)
	for name, moves := range scripts {
		all[name] = func(p *player) {
			p.run(object{"agent": "outer", "content": fmt.Sprintf(`{"do":%s}`, moves)})
			for p.asked() {
				p.answer()
			}
		}
	}
	return all
}

// scenarios cover the contents of threads.
var scenarios = map[string]func(p *player){
	"echo": func(p *player) { p.run(object{"agent": "echo", "content": "hello there"}) },
	"demo": func(p *player) { p.run(object{"workflowId": "demo", "content": "rivers"}) },
	"write": func(p *player) {
		p.script(`{"say":"one two"},{"tokens":40},{"reason":"let me see"},{"say":"three"}`)
	},
	"tools": func(p *player) {
		p.script(`{"tool":"calculator","args":{"expression":"6*7"}},{"tool":"clock"},{"say":"done"}`)
	},
	"failing tools": func(p *player) {
		p.script(`{"tool":"fail","args":{"message":"no"}},{"tool":"nothing"},{"tool":"calculator","args":{"expression":"1/"}}`)
	},
	"state": func(p *player) {
		p.run(object{"agent": "scripted", "state": object{"given": true}, "content": `{"do":[{"state":{"n":1,"a/b":{"~":[1]}}},{"state":{"n":null}},{"state":{"n":2}}]}`})
	},
	"progress": func(p *player) {
		p.script(`{"progress":0,"message":"begun"},{"progress":0.5},{"progress":1,"message":"done"}`)
	},
	"ask": func(p *player) {
		p.script(`{"say":"first"},{"ask":{"message":"Deploy?","schema":{"type":"object"}}},{"say":"after"}`)
		p.answer()
	},
	"two questions": func(p *player) {
		p.script(`{"ask":{"message":"One?"}},{"ask":{"message":"Two?"}}`)
		p.answer()
		p.answer()
	},
	"frontend tool": func(p *player) {
		tools := []object{{"name": "pick", "description": "Pick one.", "parameters": object{"type": "object"}}}
		p.run(object{"agent": "scripted", "tools": tools, "content": `{"do":[{"say":"choose"},{"tool":"pick","args":{"of":[1,2]}},{"say":"thanks"}]}`})
		call := p.find("TOOL_CALL_START")["toolCallId"]
		p.run(object{"agent": "scripted", "tools": tools, "messages": []object{{"id": "picked", "role": "tool", "toolCallId": call, "content": "2"}}})
	},
	"frontend tool nobody answers": func(p *player) {
		p.run(object{"agent": "scripted", "tools": []object{{"name": "pick", "description": "", "parameters": object{}}}, "content": `{"do":[{"tool":"pick"}]}`})
		p.script(`{"say":"next"}`)
	},
	"failure":  func(p *player) { p.script(`{"say":"so far"},{"fail":"boom","code":"x"}`) },
	"panic":    func(p *player) { p.script(`{"say":"so far"},{"panic":"boom"}`) },
	"retry":    func(p *player) { p.script(`{"say":"so far"},{"fail":"boom","retryable":true,"times":1}`) },
	"too late": func(p *player) { p.script(`{"say":"a"},{"emitAfterEnd":true}`) },
	"cancelled at work": func(p *player) {
		run, wait := p.begin(object{"agent": "scripted", "content": `{"do":[{"reason":"hm"},{"say":"so far"},{"tool":"sleep","args":{"ms":60000}}]}`})
		p.says(run, 2)
		p.cancel(run)
		wait()
	},
	"cancelled while it waits": func(p *player) {
		p.cancel(p.script(`{"say":"so far"},{"ask":{"message":"Deploy?"}}`))
	},
	"appended": func(p *player) {
		run, wait := p.begin(object{"agent": "scripted", "content": `{"do":[{"tokens":50,"delayMs":5}]}`})
		p.until(run, "RUNNING")
		p.append(run, "meanwhile")
		wait()
	},
	"restarted": func(p *player) {
		run := p.script(`{"say":"first"}`)
		p.append(run, "once more")
		p.until(run, "COMPLETED")
	},
	"rolled back": func(p *player) {
		p.script(`{"say":"kept"},{"state":{"kept":true}}`)
		run, wait := p.begin(object{"agent": "scripted", "content": `{"do":[{"say":"gone"},{"state":{"gone":true}},{"tool":"sleep","args":{"ms":60000}}]}`})
		p.says(run, 2)
		p.run(object{"agent": "scripted", "multitask": "rollback", "content": `{"do":[{"say":"instead"}]}`})
		wait()
	},
	"a megabyte": func(p *player) {
		p.run(object{"agent": "echo", "content": strings.Repeat("é-", 350_000)})
		p.script(`{"tokens":64,"size":16384}`)
	},
	"many deltas": func(p *player) {
		n := 1000
		if soaks {
			n = 5000
		}
		p.script(fmt.Sprintf(`{"tokens":%d}`, n))
	},
	"rewound": func(p *player) {
		p.run(object{"agent": "echo", "messages": []object{{"id": "first", "role": "user", "content": "one"}}})
		p.run(object{"agent": "echo", "messages": []object{{"id": "second", "role": "user", "content": "two"}}})
		p.run(object{"agent": "echo", "rewindTo": "first", "content": "two again"})
	},
}
