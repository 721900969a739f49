package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

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

// delta applies a patch of the remote's state. A patch that fails is dropped as a whole. Before the remote's first snapshot it
// can begin with a state that we do not know: then as much as possible of the patch is applied, as by a snapshot.
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
	if err != nil && !r.based {
		if next = forced(old, patch); next != nil {
			return r.snapshot(next)
		}
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

// maxForced limits the operations of a patch that is applied in part, and the segments of their paths.
const maxForced = 1000

// forced applies the additions, replacements and removals of a patch that are possible, with new parents for members without
// one. It returns nil if it has applied none.
func forced(state, patch json.RawMessage) json.RawMessage {
	var ops []struct {
		Op, Path string
		Value    any
	}
	d := json.NewDecoder(bytes.NewReader(patch))
	d.UseNumber()
	if d.Decode(&ops) != nil || len(ops) > maxForced {
		return nil
	}
	root := any(members(state))
	did := false
	for _, op := range ops {
		path := strings.Split(op.Path, "/")
		if len(path) < 2 || path[0] != "" || len(path) > maxForced {
			continue
		}
		for i := range path {
			path[i] = unpointer.Replace(path[i])
		}
		switch op.Op {
		case "add", "replace":
			root, did = put(root, path[1:], op.Value), true
		case "remove":
			did = remove(root, path[1:]) || did
		}
	}
	if !did {
		return nil
	}
	return encoded(root)
}

var unpointer = strings.NewReplacer("~1", "/", "~0", "~")

// remove deletes the member of an object and reports whether there was one.
func remove(node any, path []string) bool {
	parent, _ := node.(map[string]any)
	val, known := parent[path[0]]
	if known && len(path) > 1 {
		return remove(val, path[1:])
	}
	delete(parent, path[0])
	return known
}

// put returns node with a value at a path. A list gets it at its end, unless the path names one of its elements.
func put(node any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	name, path := path[0], path[1:]
	at, err := strconv.Atoi(name)
	isIndex := err == nil && at >= 0 || name == "-"
	if node == nil && !isIndex {
		node = map[string]any{}
	}
	switch n := node.(type) {
	case map[string]any:
		n[name] = put(n[name], path, value)
	case nil:
		return []any{put(nil, path, value)}
	case []any:
		if err == nil && at >= 0 && at < len(n) {
			n[at] = put(n[at], path, value)
		} else if isIndex {
			return append(n, put(nil, path, value))
		}
	}
	return node
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
