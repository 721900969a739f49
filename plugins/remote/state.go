package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// snapshot applies the remote's state: its changes are applied to the thread's state.
func (r *relay) snapshot(state json.RawMessage) error {
	if !isObject(state) {
		r.drop(string(agui.TypeStateSnapshot), errors.New("the state is not an object"))
		return nil
	}
	old := r.view.State()
	if _, err := r.view.Apply(agui.StateSnapshot{Snapshot: state}); err != nil {
		r.drop(string(agui.TypeStateSnapshot), err)
		return nil
	}
	return r.change(old)
}

// delta applies a patch of the remote's state. A patch that fails is dropped as a whole.
func (r *relay) delta(patch json.RawMessage) error {
	ev := agui.StateDelta{Delta: patch}
	old := r.view.State()
	next, err := fold.Patched(old, patch)
	if err == nil && !isObject(next) {
		err = errors.New("the state would not be an object")
	}
	if err == nil {
		_, err = r.view.Apply(agui.StateSnapshot{Snapshot: next})
	}
	if err != nil {
		r.drop(string(ev.Type()), err)
		return nil
	}
	if r.legal.Add(ev) != nil { // it has an operation on the whole state, which a log refuses
		return r.change(old)
	}
	return r.patch(old, patch)
}

// change applies the changes of the remote's state since old to the thread's state.
func (r *relay) change(old json.RawMessage) error {
	ops := diff(nil, "", members(old), members(r.view.State()))
	if len(ops) == 0 {
		return nil
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	return r.patch(old, patch)
}

// patch applies to the thread's state a patch that changed the remote's state from old. If it does not apply because
// another worker changed the thread's state, or after a crash, when it can already be applied, the differing members are
// merged; a null in them removes the member.
func (r *relay) patch(old, patch json.RawMessage) error {
	if !r.again {
		err := r.run.Emit(agui.StateDelta{Delta: patch})
		if refused, ok := errors.AsType[*plugins.Error](err); !ok || refused.Code != "illegal_event" {
			return err
		}
	}
	merge := map[string]any{}
	between(merge, members(old), members(r.view.State()))
	if len(merge) == 0 {
		return nil
	}
	return r.run.State(merge)
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte{'{'}) && json.Valid(raw)
}

// members decodes an object with its numbers as written.
func members(raw json.RawMessage) map[string]any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	_ = d.Decode(&m)
	return m
}

// operation is an RFC 6902 operation.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// diff appends the operations that change old into now at path.
func diff(ops []operation, path string, old, now map[string]any) []operation {
	for _, name := range sortedKeys(old, now) {
		was, had := old[name]
		is, has := now[name]
		at := path + "/" + pointer.Replace(name)
		wasObject, ok := was.(map[string]any)
		isObject, both := is.(map[string]any)
		switch {
		case !has:
			ops = append(ops, operation{Op: "remove", Path: at})
		case !had:
			ops = append(ops, operation{"add", at, encoded(is)})
		case ok && both:
			ops = diff(ops, at, wasObject, isObject)
		case reflect.DeepEqual(was, is):
		default:
			if more, ok := appended(was, is); ok {
				for _, v := range more {
					ops = append(ops, operation{"add", at + "/-", encoded(v)})
				}
				continue
			}
			ops = append(ops, operation{"replace", at, encoded(is)})
		}
	}
	return ops
}

// appended returns the new elements of a list that begins with another list.
func appended(was, is any) ([]any, bool) {
	old, ok := was.([]any)
	now, both := is.([]any)
	if !ok || !both || len(now) < len(old) || !reflect.DeepEqual(old, now[:len(old)]) {
		return nil, false
	}
	return now[len(old):], true
}

// between adds the RFC 7396 patch that changes old into now to merge.
func between(merge, old, now map[string]any) {
	for _, name := range sortedKeys(old, now) {
		was, had := old[name]
		is, has := now[name]
		wasObject, ok := was.(map[string]any)
		isObject, both := is.(map[string]any)
		switch {
		case !has:
			merge[name] = nil
		case had && ok && both:
			inner := map[string]any{}
			between(inner, wasObject, isObject)
			if len(inner) > 0 {
				merge[name] = inner
			}
		case !had || !reflect.DeepEqual(was, is):
			merge[name] = is
		}
	}
}
