package fold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/batonrun/baton/runtime/agui"
)

// maxCopied bounds what the copy operations of one patch may add up to: a few of them can double a
// document each.
const maxCopied = 8 << 20

// Patched is the document that a state becomes by an RFC 6902 patch.
func Patched(state, patch json.RawMessage) (json.RawMessage, error) { return patched(state, patch) }

// patched returns doc with an RFC 6902 patch applied.
func patched(doc, patch json.RawMessage) (json.RawMessage, error) {
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	opts := jsonpatch.NewApplyOptions()
	opts.SupportNegativeIndices = false
	opts.EscapeHTML = false
	opts.AccumulatedCopySizeLimit = maxCopied
	next, err := ops.ApplyWithOptions(doc, opts)
	if err != nil {
		return nil, err
	}
	return compact(next)
}

// compact returns a copy of raw on one line. It fails unless raw is valid JSON.
func compact(raw []byte) (json.RawMessage, error) {
	buf := bytes.NewBuffer(make([]byte, 0, len(raw)))
	if err := json.Compact(buf, raw); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// MergePatch applies an RFC 7396 merge patch to state. It returns the next state and the event that says
// so: a StateDelta; a StateSnapshot where a delta would have to name the whole document; nil when the
// patch changes nothing.
func MergePatch(state, patch json.RawMessage) (next json.RawMessage, ev agui.Event, err error) {
	if state, err = compact(state); err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	if patch, err = compact(patch); err != nil {
		return nil, nil, fmt.Errorf("state patch: %w", err)
	}
	if !isObject(state) || !isObject(patch) {
		if next = merged(patch); bytes.Equal(next, state) {
			return state, nil, nil
		}
		return next, agui.StateSnapshot{Snapshot: next}, nil
	}
	ops := appendDiff([]byte{'['}, "", state, patch)
	if len(ops) == 1 {
		return state, nil, nil
	}
	delta := json.RawMessage(append(ops, ']'))
	if next, err = patched(state, delta); err != nil {
		return nil, nil, fmt.Errorf("state patch: %w", err)
	}
	return next, agui.StateDelta{Delta: delta}, nil
}

// appendDiff appends the operations that merge patch, an object, into the object state at path.
func appendDiff(ops []byte, path string, state, patch json.RawMessage) []byte {
	old, changes := members(state), members(patch)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		at := path + "/" + pointer.Replace(name)
		was, has := old[name]
		val := changes[name]
		switch {
		case string(val) == "null":
			if has {
				ops = appendOp(ops, "remove", at, nil)
			}
		case has && isObject(was) && isObject(val):
			ops = appendDiff(ops, at, was, val)
		case !has:
			ops = appendOp(ops, "add", at, merged(val))
		default:
			if next := merged(val); !bytes.Equal(was, next) {
				ops = appendOp(ops, "replace", at, next)
			}
		}
	}
	return ops
}

// pointer escapes a name for RFC 6901.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func appendOp(ops []byte, op, path string, value json.RawMessage) []byte {
	if len(ops) > 1 {
		ops = append(ops, ',')
	}
	ops = append(ops, `{"op":"`+op+`","path":`...)
	ops = append(ops, quote(path)...)
	if value != nil {
		ops = append(append(ops, `,"value":`...), value...)
	}
	return append(ops, '}')
}

// merged returns what val, from a merge patch, makes of nothing: itself without null members.
func merged(val json.RawMessage) json.RawMessage {
	if !isObject(val) {
		return val
	}
	all := members(val)
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if string(all[name]) == "null" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, quote(name)...), ':')
		out = append(out, merged(all[name])...)
	}
	return append(out, '}')
}

func members(obj json.RawMessage) (all map[string]json.RawMessage) {
	_ = json.Unmarshal(obj, &all)
	return all
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// quote returns s as a JSON string.
func quote(s string) []byte {
	if plain(s) {
		return slices.Concat([]byte{'"'}, []byte(s), []byte{'"'})
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// plain reports whether s stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// member returns an object of one member that is JSON already.
func member(name string, val json.RawMessage) json.RawMessage {
	key := quote(name)
	obj := make(json.RawMessage, 0, len(key)+len(val)+3) // at once, as val may be megabytes
	obj = append(append(append(obj, '{'), key...), ':')
	return append(append(obj, val...), '}')
}

// object returns an object of the string members that are not empty, given as name and value in turn;
// nil when all are.
func object(pairs ...string) (obj json.RawMessage) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			obj = agui.MergeMetadata(obj, member(pairs[i], quote(pairs[i+1])))
		}
	}
	return obj
}
