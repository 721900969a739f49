package fold_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

func TestMergePatch(t *testing.T) {
	for _, tt := range []struct {
		state, patch, next string
		event              agui.Type // "" if nothing changes
	}{
		{`{}`, `{}`, `{}`, ""},
		{`{"a":1}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"a":1}`, `{"b":null}`, `{"a":1}`, ""},
		{`{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`, agui.TypeStateDelta},
		{`{"a":1,"b":{"c":1,"d":2}}`, `{"a":null,"b":{"c":null,"e":{"f":null}}}`, `{"b":{"d":2,"e":{}}}`, agui.TypeStateDelta},
		{`{"a/b~":{"":1}}`, `{"a/b~":{"":2}}`, `{"a/b~":{"":2}}`, agui.TypeStateDelta},
		{`{"a":{"b":1}}`, `{"a":[null]}`, `{"a":[null]}`, agui.TypeStateDelta},
		{`{"a":{}}`, `{"a":{"__proto__":{"b":1}}}`, `{"a":{"__proto__":{"b":1}}}`, agui.TypeStateSnapshot},
		{`{"constructor":{}}`, `{"constructor":{"prototype":1}}`, `{"constructor":{"prototype":1}}`, agui.TypeStateSnapshot},
		{`{"prototype":1}`, `{"prototype":null}`, `{}`, agui.TypeStateDelta},
		{`{"a":1}`, `7`, `7`, agui.TypeStateSnapshot},
		{`[1]`, `{"a":{"b":null}}`, `{"a":{}}`, agui.TypeStateSnapshot},
		{`null`, `null`, `null`, ""},
	} {
		next, ev, err := fold.MergePatch(json.RawMessage(tt.state), json.RawMessage(tt.patch))
		if err != nil {
			t.Errorf("%s + %s: %v", tt.state, tt.patch, err)
			continue
		}
		same(t, tt.state+" + "+tt.patch, string(next), tt.next)
		var got agui.Type
		if ev != nil {
			got = ev.Type()
		}
		if got != tt.event {
			t.Errorf("%s + %s: got event %q, want %q", tt.state, tt.patch, got, tt.event)
		}
	}
	for _, bad := range [][2]string{{`{`, `{}`}, {`{}`, ``}} {
		if _, _, err := fold.MergePatch(json.RawMessage(bad[0]), json.RawMessage(bad[1])); err == nil {
			t.Errorf("%q + %q: no error", bad[0], bad[1])
		}
	}
}

// mergeValues is RFC 7396's own pseudocode.
func mergeValues(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, val := range p {
		if val == nil {
			delete(t, name)
		} else {
			t[name] = mergeValues(t[name], val)
		}
	}
	return t
}

func FuzzMergePatch(f *testing.F) {
	f.Add(`{"a":1,"b":{"c":[]}}`, `{"a":null,"b":{"c":{"d":null}},"~/":"x"}`)
	f.Add(`{}`, `[1]`)
	f.Fuzz(func(t *testing.T, state, patch string) {
		next, ev, err := fold.MergePatch(json.RawMessage(state), json.RawMessage(patch))
		if err != nil {
			if json.Valid([]byte(state)) && json.Valid([]byte(patch)) {
				t.Fatal(err)
			}
			return
		}
		var s, p, got any
		for _, in := range []struct {
			raw string
			v   *any
		}{{state, &s}, {patch, &p}, {string(next), &got}} {
			if json.Unmarshal([]byte(in.raw), in.v) != nil {
				return // a number outside float64
			}
		}
		if want := mergeValues(s, p); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %s, want %v", next, want)
		}
		thread := fold.New(json.RawMessage(state), nil)
		var v agui.Verifier
		_ = v.Add(agui.RunStarted{})
		if ev == nil {
			return
		}
		if err := v.Add(ev); err != nil {
			t.Fatalf("the event is illegal: %v", err)
		}
		if _, err := thread.Apply(ev); err != nil {
			t.Fatalf("the event does not apply: %v", err)
		}
		var folded any
		if json.Unmarshal(thread.State(), &folded) == nil && !reflect.DeepEqual(folded, got) {
			t.Fatalf("the event makes %s, want %s", thread.State(), next)
		}
	})
}

// FuzzStateDelta applies patches that the Verifier accepts to any state.
func FuzzStateDelta(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}]}`, `[{"op":"move","from":"/a/1","path":"/c"},{"op":"copy","from":"/c","path":"/a/-"},{"op":"test","path":"/c/b","value":null}]`)
	f.Add(`null`, `[{"op":"add","path":"/a","value":1}]`)
	f.Add(`[]`, `[{"op":"add","path":"/1","value":1},{"op":"remove","path":"/-"}]`)
	f.Fuzz(func(t *testing.T, state, patch string) {
		var v agui.Verifier
		thread := fold.New(nil, nil)
		for i, ev := range []agui.Event{
			agui.RunStarted{},
			agui.StateSnapshot{Snapshot: json.RawMessage(state)},
			agui.StateDelta{Delta: json.RawMessage(patch)},
		} {
			if v.Add(ev) != nil {
				return
			}
			if _, err := thread.Apply(ev); err != nil && i < 2 {
				t.Fatalf("%s: %v", ev.Type(), err)
			}
			if !json.Valid(thread.State()) {
				t.Fatalf("state is %s", thread.State())
			}
		}
	})
}
