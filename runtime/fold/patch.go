package fold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// Patched returns state with an RFC 6902 patch applied.
func Patched(state, patch json.RawMessage) (json.RawMessage, error) { return patched(state, patch) }

// compact returns a copy of raw on one line, or an error for invalid JSON.
func compact(raw []byte) (json.RawMessage, error) {
	buf := bytes.NewBuffer(make([]byte, 0, len(raw)))
	if err := json.Compact(buf, raw); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// MergePatch applies an RFC 7396 merge patch. It returns the next state and its event: a StateDelta, a StateSnapshot if
// a delta would replace the whole document or be too large, or nil if nothing changes.
func MergePatch(state, patch json.RawMessage) (next json.RawMessage, ev agui.Event, err error) {
	if state, err = compact(state); err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	if patch, err = compact(patch); err != nil {
		return nil, nil, fmt.Errorf("state patch: %w", err)
	}
	if !isObject(state) || !isObject(patch) {
		p := new(patcher)
		if next, err = p.merged(p.value(patch)); err != nil {
			return nil, nil, fmt.Errorf("state patch: %w", err)
		}
		if bytes.Equal(next, state) {
			return state, nil, nil
		}
		return next, agui.StateSnapshot{Snapshot: next}, nil
	}
	p := new(patcher)
	root := p.value(state)
	var ops diff
	if err = ops.merge(p, "", root, p.value(patch)); err != nil {
		return nil, nil, fmt.Errorf("state patch: %w", err)
	}
	if ops.n == 0 {
		return state, nil, nil
	}
	if next, err = p.append(make([]byte, 0, len(state)+len(patch)), root); err != nil {
		return nil, nil, fmt.Errorf("state patch: %w", err)
	}
	if ops.n > agui.MaxOperations || ops.refused {
		return next, agui.StateSnapshot{Snapshot: next}, nil
	}
	return next, agui.StateDelta{Delta: append(ops.json, ']')}, nil
}

// diff builds a patch.
type diff struct {
	json    []byte // the operations so far
	n       int
	refused bool // clients would refuse the patch
}

// merge merges the object changes into the object old at path, and appends the operations for it.
func (d *diff) merge(p *patcher, path string, old, changes *value) error {
	for _, v := range []*value{old, changes} {
		if err := p.open(v); err != nil {
			return err
		}
		p.index(v)
	}
	for _, m := range changes.in.members {
		if m.val == nil {
			continue
		}
		at := path + "/" + pointer.Replace(m.name)
		if err := p.spend(len(at)); err != nil {
			return err
		}
		was, i := p.member(old, m.name)
		switch {
		case string(m.val.raw) == "null":
			if was != nil {
				old.in.members[i].val = nil
				d.add("remove", at, nil)
			}
		case was != nil && isObject(was.raw) && isObject(m.val.raw):
			if err := d.merge(p, at, was, m.val); err != nil {
				return err
			}
		default:
			next, err := p.merged(m.val)
			if err != nil {
				return err
			}
			if was == nil {
				d.add("add", at, next)
			} else if !bytes.Equal(was.raw, next) {
				d.add("replace", at, next)
			}
			p.set(old, m.name, p.value(next))
		}
	}
	return nil
}

// pointer escapes a name for RFC 6901.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func (d *diff) add(op, path string, value json.RawMessage) {
	d.refused = d.refused || !agui.Patchable(path)
	switch d.n++; {
	case d.n > agui.MaxOperations:
		return
	case d.n == 1:
		d.json = append(d.json, '[')
	default:
		d.json = append(d.json, ',')
	}
	d.json = append(d.json, `{"op":"`+op+`","path":`...)
	d.json = append(d.json, quote(path)...)
	if value != nil {
		d.json = append(append(d.json, `,"value":`...), value...)
	}
	d.json = append(d.json, '}')
}

// merged returns a merge patch's value without null members.
func (p *patcher) merged(val *value) (json.RawMessage, error) {
	out, err := p.appendMerged(nil, val)
	return out, err
}

func (p *patcher) appendMerged(dst []byte, val *value) ([]byte, error) {
	if !isObject(val.raw) {
		return append(dst, val.raw...), p.spend(len(val.raw))
	}
	if err := p.open(val); err != nil {
		return nil, err
	}
	p.index(val)
	dst = append(dst, '{')
	begin := len(dst)
	for _, m := range val.in.members {
		if m.val == nil || string(m.val.raw) == "null" {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = append(agui.AppendString(dst, m.name), ':')
		var err error
		if dst, err = p.appendMerged(dst, m.val); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
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

// plain reports whether s needs no escaping in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// member returns a JSON object with one member.
func member(name string, val json.RawMessage) json.RawMessage {
	key := quote(name)
	obj := make(json.RawMessage, 0, len(key)+len(val)+3) // allocated once, as val may be megabytes
	obj = append(append(append(obj, '{'), key...), ':')
	return append(append(obj, val...), '}')
}

// object returns a JSON object of the non-empty string members, given as names and values, or nil if all are empty.
func object(pairs ...string) (obj json.RawMessage) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			obj = agui.MergeMetadata(obj, member(pairs[i], quote(pairs[i+1])))
		}
	}
	return obj
}
