package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// snapshot takes the remote's state: what differs from what it was changes in the thread's.
func (r *relay) snapshot(state json.RawMessage) error {
	if !isObject(state) {
		r.drop(string(agui.TypeStateSnapshot), errors.New("the state is no object"))
		return nil
	}
	old := r.view.State()
	if _, err := r.view.Apply(agui.StateSnapshot{Snapshot: state}); err != nil {
		r.drop(string(agui.TypeStateSnapshot), err)
		return nil
	}
	return r.change(old)
}

// delta takes a patch of the remote's state. Operations that are none, or do not apply, are left out.
func (r *relay) delta(patch json.RawMessage) error {
	old := r.view.State()
	ev := agui.StateDelta{Delta: patch}
	if r.legal.Add(ev) == nil {
		if _, err := r.view.Apply(ev); err == nil && isObject(r.view.State()) {
			return r.patch(old, patch)
		}
	}
	var ops []json.RawMessage
	if err := json.Unmarshal(patch, &ops); err != nil {
		r.drop(string(ev.Type()), err)
		return nil
	}
	for _, op := range ops {
		if err := r.operation(op); err != nil {
			r.drop(string(ev.Type()), err)
		}
	}
	return r.change(old)
}

// operation applies one operation to the remote's state.
func (r *relay) operation(op json.RawMessage) error {
	var o struct {
		Op    string          `json:"op"`
		Path  *string         `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(op, &o) == nil && o.Path != nil && *o.Path == "" && (o.Op == "replace" || o.Op == "add") {
		if !isObject(o.Value) {
			return errors.New("the state would be no object")
		}
		_, err := r.view.Apply(agui.StateSnapshot{Snapshot: o.Value})
		return err
	}
	ev := agui.StateDelta{Delta: append(append(json.RawMessage{'['}, op...), ']')}
	if err := r.legal.Add(ev); err != nil {
		return err
	}
	_, err := r.view.Apply(ev)
	return err
}

// change changes the thread's state as the remote's has changed since old.
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

// patch changes the thread's state by a patch that brings the remote's from old to where it is. Where another worker has
// changed ours so that the patch does not apply, and after a crash, when it may have been applied already, the members
// that differ are merged; a null in them is a member that is not there.
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

// members decodes an object; numbers stay as they are written.
func members(raw json.RawMessage) map[string]any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	_ = d.Decode(&m)
	return m
}

// operation is one of RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// diff appends the operations that make now of old at path.
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

// appended returns what a list has more than one that it begins with.
func appended(was, is any) ([]any, bool) {
	old, ok := was.([]any)
	now, both := is.([]any)
	if !ok || !both || len(now) < len(old) || !reflect.DeepEqual(old, now[:len(old)]) {
		return nil, false
	}
	return now[len(old):], true
}

// between puts into merge the RFC 7396 patch that makes now of old.
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
