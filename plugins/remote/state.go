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

// delta takes a patch of the remote's state. One that does not apply is left out whole.
func (r *relay) delta(patch json.RawMessage) error {
	ev := agui.StateDelta{Delta: patch}
	old := r.view.State()
	next, err := fold.Patched(old, patch)
	if err == nil && !isObject(next) {
		err = errors.New("the state would be no object")
	}
	if err == nil {
		_, err = r.view.Apply(agui.StateSnapshot{Snapshot: next})
	}
	if err != nil {
		r.drop(string(ev.Type()), err)
		return nil
	}
	if r.legal.Add(ev) != nil { // it has an operation on the whole, which a log does not take
		return r.change(old)
	}
	return r.patch(old, patch)
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
