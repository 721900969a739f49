package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// patched returns doc with an RFC 6902 patch applied.
func patched(doc, patch json.RawMessage) (json.RawMessage, error) {
	n := 0
	err := agui.EachElement(patch, func([]byte) error {
		if n++; n > agui.MaxOperations {
			return fmt.Errorf("a patch may have %d operations", agui.MaxOperations)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return new(patcher).patch(doc, patch)
}

// patcher applies a patch to a JSON document. It parses only the parts that the patch addresses, and counts its work: a few
// operations can each double a document, shift a long array or descend through many levels.
type patcher struct{ work int }

// maxWork limits the bytes that one patch may read, compare and copy, to some ten milliseconds of work.
const maxWork = 32 << 20

// maxDepth is how deep a document may be nested, the limit of encoding/json.
const maxDepth = 10_000

var (
	errWork    = errors.New("the patch reads and moves too much of the document for one: send a snapshot")
	errMissing = errors.New("there is nothing at its path")
)

// spend counts work.
func (p *patcher) spend(n int) error {
	if p.work += n; p.work > maxWork {
		return errWork
	}
	return nil
}

// value is a JSON value: its text, and its members or elements once opened.
type value struct {
	raw []byte
	in  *inside
}

// inside is the contents of an object or array.
type inside struct {
	members []entry        // of an object, in order, including removed ones
	index   map[string]int // of members, built for the first search
	list    []*value       // of an array
}

type entry struct {
	name string
	val  *value // nil if removed
}

// per is the work for a member or an element beyond its bytes. perCopied is the work for a copied byte, whose memory is allocated.
const (
	per       = 128
	perCopied = 1
)

func (p *patcher) value(raw []byte) *value { return &value{raw: bytes.TrimSpace(raw)} }

// open parses a value's members or elements.
func (p *patcher) open(v *value) error {
	if v.in != nil {
		return nil
	}
	if err := p.spend(len(v.raw)); err != nil {
		return err
	}
	v.in = new(inside)
	switch {
	case isObject(v.raw):
		return agui.EachMember(v.raw, func(name string, val []byte) error {
			v.in.members = append(v.in.members, entry{name, p.value(val)})
			return p.spend(per)
		})
	case isArray(v.raw):
		return agui.EachElement(v.raw, func(val []byte) error {
			v.in.list = append(v.in.list, p.value(val))
			return p.spend(per)
		})
	}
	return nil
}

func isArray(raw []byte) bool { return len(raw) > 0 && raw[0] == '[' }

// member returns a member of an opened object and its index, or nil and -1.
func (p *patcher) member(v *value, name string) (*value, int) {
	p.index(v)
	if i, ok := v.in.index[name]; ok {
		return v.in.members[i].val, i
	}
	return nil, -1
}

// index builds the index of an opened object. The last of equal names wins.
func (p *patcher) index(v *value) {
	in := v.in
	if in.index != nil {
		return
	}
	p.work += per / 2 * len(in.members)
	in.index = make(map[string]int, len(in.members))
	for i, m := range in.members {
		if first, twice := in.index[m.name]; twice {
			in.members[first].val, in.members[i].val = m.val, nil
		} else {
			in.index[m.name] = i
		}
	}
}

// append appends v as JSON.
func (p *patcher) append(dst []byte, v *value) (_ []byte, err error) {
	switch {
	case v.in == nil:
		return append(dst, v.raw...), p.spend(len(v.raw))
	case isArray(v.raw):
		dst = append(dst, '[')
		for i, el := range v.in.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = p.append(dst, el); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case isObject(v.raw):
		dst = append(dst, '{')
		begin := len(dst)
		for _, m := range v.in.members {
			if m.val == nil {
				continue
			}
			if len(dst) > begin {
				dst = append(dst, ',')
			}
			dst = append(agui.AppendString(dst, m.name), ':')
			p.work += len(m.name)
			if dst, err = p.append(dst, m.val); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return append(dst, v.raw...), nil
}

// patch applies a patch to doc.
func (p *patcher) patch(doc, patch json.RawMessage) (json.RawMessage, error) {
	root := p.value(doc)
	n := 0
	err := agui.EachElement(patch, func(raw []byte) error {
		var op map[string]json.RawMessage
		err := json.Unmarshal(raw, &op)
		if err == nil {
			root, err = p.operation(root, op)
		}
		if err != nil {
			return fmt.Errorf("operation %d: %w", n, err)
		}
		n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.append(make([]byte, 0, len(doc)+len(patch)), root)
}

// operation applies one operation and returns the document's root.
func (p *patcher) operation(root *value, op map[string]json.RawMessage) (*value, error) {
	var kind string
	if err := json.Unmarshal(op["op"], &kind); err != nil {
		return nil, errors.New("it has no op")
	}
	path, err := pathOf(op["path"])
	if err != nil {
		return nil, err
	}
	switch kind {
	case "remove":
		return root, p.remove(root, path)
	case "move", "copy":
		from, err := pathOf(op["from"])
		if err != nil {
			return nil, err
		}
		source, err := p.at(root, from)
		if err != nil {
			return nil, err
		}
		raw, err := p.append(nil, source)
		if err == nil {
			err = p.spend(perCopied * len(raw))
		}
		if err != nil {
			return nil, err
		}
		if kind == "move" {
			if err := p.remove(root, from); err != nil {
				return nil, err
			}
		}
		return p.add(root, path, raw, "add")
	case "add", "replace", "test":
		if op["value"] == nil {
			return nil, fmt.Errorf("%s without value", kind)
		}
		raw, err := compact(op["value"])
		if err != nil {
			return nil, err
		}
		if kind == "test" {
			return root, p.test(root, path, raw)
		}
		return p.add(root, path, raw, kind)
	}
	return nil, fmt.Errorf("op %q is none of RFC 6902", kind)
}

// pathOf parses a JSON pointer.
func pathOf(raw json.RawMessage) ([]string, error) {
	var text string
	if raw == nil || json.Unmarshal(raw, &text) != nil {
		return nil, errors.New("its path is no string")
	}
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, errors.New("its path does not begin with a slash")
	}
	path := strings.Split(text[1:], "/")
	for i, name := range path {
		path[i] = names.Replace(name)
	}
	return path, nil
}

// names is the inverse of pointer.
var names = strings.NewReplacer("~1", "/", "~0", "~")

// at returns the value at a path.
func (p *patcher) at(v *value, path []string) (*value, error) {
	for _, name := range path {
		if err := p.open(v); err != nil {
			return nil, err
		}
		if isArray(v.raw) {
			i, ok := indexOf(name, len(v.in.list)-1)
			if !ok {
				return nil, errMissing
			}
			v = v.in.list[i]
		} else if v, _ = p.member(v, name); v == nil {
			return nil, errMissing
		}
	}
	return v, p.spend(per * len(path))
}

// indexOf parses an array index up to most. Like clients, it refuses leading zeros.
func indexOf(name string, most int) (int, bool) {
	n, err := strconv.ParseUint(name, 10, 31)
	return int(n), err == nil && int(n) <= most && (len(name) == 1 || name[0] != '0')
}

// parent returns the opened container of a path's last element.
func (p *patcher) parent(root *value, path []string) (v *value, name string, err error) {
	v, err = p.at(root, path[:len(path)-1])
	if err == nil {
		err = p.open(v)
	}
	return v, path[len(path)-1], err
}

func (p *patcher) remove(root *value, path []string) error {
	if len(path) == 0 {
		return errors.New("the whole document cannot be removed")
	}
	v, name, err := p.parent(root, path)
	if err != nil {
		return err
	}
	if isArray(v.raw) {
		i, ok := indexOf(name, len(v.in.list)-1)
		if !ok {
			return errMissing
		}
		v.in.list = append(v.in.list[:i], v.in.list[i+1:]...)
		return p.spend(len(v.in.list) - i)
	}
	found, i := p.member(v, name)
	if found == nil {
		return errMissing
	}
	v.in.members[i].val = nil
	return nil
}

// add sets the value at a path, replacing an existing one if kind is replace.
func (p *patcher) add(root *value, path []string, raw []byte, kind string) (*value, error) {
	if len(path)+depth(raw) > maxDepth {
		return nil, fmt.Errorf("the document would be nested deeper than %d levels", maxDepth)
	}
	added := &value{raw: raw}
	if err := p.spend(len(raw) + per); err != nil || len(path) == 0 {
		return added, err
	}
	v, name, err := p.parent(root, path)
	if err != nil {
		return nil, err
	}
	switch {
	case isArray(v.raw):
		return root, p.insert(v, name, added, kind)
	case !isObject(v.raw):
		return nil, errMissing
	}
	if found, _ := p.member(v, name); found == nil && kind == "replace" {
		return nil, errMissing
	}
	p.set(v, name, added)
	return root, nil
}

// set sets a member of an opened object.
func (p *patcher) set(v *value, name string, val *value) {
	if found, i := p.member(v, name); found != nil {
		v.in.members[i].val = val
		return
	}
	// A removed member of that name stays removed: for clients, the new one stands last.
	v.in.index[name] = len(v.in.members)
	v.in.members = append(v.in.members, entry{name, val})
}

// insert inserts an array element.
func (p *patcher) insert(v *value, name string, added *value, kind string) error {
	most := len(v.in.list)
	if kind == "replace" {
		most--
	}
	i, ok := indexOf(name, most)
	if name == "-" && kind == "add" {
		i, ok = most, true
	}
	switch {
	case !ok:
		return errMissing
	case kind == "replace":
		v.in.list[i] = added
		return nil
	}
	v.in.list = append(v.in.list, nil)
	copy(v.in.list[i+1:], v.in.list[i:])
	v.in.list[i] = added
	return p.spend(len(v.in.list) - i)
}

func (p *patcher) test(root *value, path []string, want []byte) error {
	v, err := p.at(root, path)
	if err != nil {
		return err
	}
	same, err := p.same(v, p.value(want))
	if err == nil && !same {
		err = errors.New("the test has failed")
	}
	return err
}

// same reports whether two values are equal. Integers are compared exactly, other numbers as float64.
func (p *patcher) same(a, b *value) (bool, error) {
	if a.in == nil && b.in == nil {
		if err := p.spend(min(len(a.raw), len(b.raw))); err != nil || bytes.Equal(a.raw, b.raw) {
			return err == nil, err
		}
	}
	if isObject(a.raw) != isObject(b.raw) || isArray(a.raw) != isArray(b.raw) {
		return false, nil
	}
	if !isObject(a.raw) && !isArray(a.raw) {
		return sameScalar(a.raw, b.raw), p.spend(len(a.raw) + len(b.raw))
	}
	for _, v := range []*value{a, b} {
		if err := p.open(v); err != nil {
			return false, err
		}
	}
	if isObject(a.raw) {
		return p.sameMembers(a, b)
	}
	if len(a.in.list) != len(b.in.list) {
		return false, nil
	}
	for i, el := range a.in.list {
		if same, err := p.same(el, b.in.list[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// sameMembers compares two opened objects.
func (p *patcher) sameMembers(a, b *value) (bool, error) {
	p.index(a)
	p.index(b)
	more := 0 // members of b that a may not have
	for _, m := range b.in.members {
		if m.val != nil {
			more++
		}
	}
	for _, m := range a.in.members {
		if m.val == nil {
			continue
		}
		other, _ := p.member(b, m.name)
		if other == nil {
			return false, nil
		}
		if same, err := p.same(m.val, other); !same || err != nil {
			return false, err
		}
		more--
	}
	return more == 0, nil
}

// depth returns the nesting depth of raw.
func depth(raw []byte) (most int) {
	n := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			n++
			most = max(most, n)
		case ']', '}':
			n--
		}
	}
	return most
}

func sameScalar(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if isInteger(a) && isInteger(b) { // JSON has one form for each, and -0
		return string(a) == "-0" && string(b) == "0" || string(a) == "0" && string(b) == "-0"
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

func isInteger(number []byte) bool {
	return (number[0] == '-' || number[0] >= '0' && number[0] <= '9') && !bytes.ContainsAny(number, ".eE")
}
