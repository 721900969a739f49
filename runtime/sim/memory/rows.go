package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/data"
)

// rows are rows of one kind by key.
type rows[K comparable, V any] map[K]*V

// put inserts or replaces a row.
func (r rows[K, V]) put(tx *tx, key K, row *V) {
	old, had := r[key]
	tx.undo = append(tx.undo, func() {
		if had {
			r[key] = old
		} else {
			delete(r, key)
		}
	})
	r[key] = row
}

// drop removes a row.
func (r rows[K, V]) drop(tx *tx, key K) {
	if old, had := r[key]; had {
		tx.undo = append(tx.undo, func() { r[key] = old })
		delete(r, key)
	}
}

// change replaces an existing row by a changed copy.
func (r rows[K, V]) change(tx *tx, key K, change func(*V)) {
	if old := r[key]; old != nil {
		row := *old
		change(&row)
		r.put(tx, key, &row)
	}
}

// sorted returns the admitted rows in order.
func (r rows[K, V]) sorted(admits func(*V) bool, order func(a, b *V) int) []*V {
	var list []*V
	for _, row := range r {
		if admits(row) {
			list = append(list, row)
		}
	}
	slices.SortFunc(list, order)
	return list
}

func all[V any](*V) bool { return true }

// table has rows by owner, a run or thread, and by their key in it.
type table[K comparable, V any] map[int64]rows[K, V]

func (t table[K, V]) of(owner int64) rows[K, V] {
	if t[owner] == nil {
		t[owner] = make(rows[K, V])
	}
	return t[owner]
}

// dropAll removes an owner's rows.
func (t table[K, V]) dropAll(tx *tx, owner int64) {
	for key := range t[owner] {
		t[owner].drop(tx, key)
	}
}

// copies returns copies of rows that the caller may change.
func copies[V any](list []*V) []V {
	var rows []V
	for _, row := range list {
		rows = append(rows, copied(row))
	}
	return rows
}

// copied returns a deep copy of a row.
func copied[V any](row *V) V {
	c := *row
	_ = detach(reflect.ValueOf(&c).Elem(), false)
	return c
}

// kept returns a copy of a row in the databases' form, with times in milliseconds and nil for empty JSON. It refuses
// invalid JSON and text that some database cannot store.
func kept[V any](row *V) (*V, error) {
	c := *row
	if err := detach(reflect.ValueOf(&c).Elem(), true); err != nil {
		return nil, fmt.Errorf("%T: %w", row, err)
	}
	return &c, nil
}

var (
	timeType = reflect.TypeFor[time.Time]()
	jsonType = reflect.TypeFor[json.RawMessage]()
)

// partsOf returns the fields of a type of rows that detach may change or refuse. They are found once, as all rows go through detach.
func partsOf(t reflect.Type, in bool) []int {
	key := typeParts{t, in}
	if known, ok := knownParts.Load(key); ok {
		return known.([]int)
	}
	var list []int
	for i := range t.NumField() {
		if matters(t.Field(i).Type, in) {
			list = append(list, i)
		}
	}
	knownParts.Store(key, list)
	return list
}

type typeParts struct {
	of reflect.Type
	in bool
}

var knownParts sync.Map // of typeParts to []int

func matters(t reflect.Type, in bool) bool {
	switch t.Kind() {
	case reflect.String:
		return in
	case reflect.Struct:
		return t == timeType && in || t != timeType && len(partsOf(t, in)) > 0
	case reflect.Pointer, reflect.Slice:
		return true
	default:
		return false
	}
}

// detach replaces everything to which v points by copies. Before storing, it also normalizes v.
func detach(v reflect.Value, in bool) (err error) {
	switch v.Kind() {
	case reflect.String:
		if in {
			return checkText(v.String())
		}
	case reflect.Struct:
		if v.Type() == timeType {
			if in {
				t := v.Addr().Interface().(*time.Time)
				*t = t.UTC().Truncate(time.Millisecond)
			}
			return nil
		}
		for _, i := range partsOf(v.Type(), in) {
			if e := detach(v.Field(i), in); e != nil {
				err = errors.Join(err, e)
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		to := reflect.New(v.Type().Elem())
		to.Elem().Set(v.Elem())
		v.Set(to)
		return detach(to.Elem(), in)
	case reflect.Slice:
		if v.Type() == jsonType && in {
			return keepJSON(v.Addr().Interface().(*json.RawMessage))
		}
		if v.IsNil() {
			return nil
		}
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		v.Set(list)
		if v.Type() == jsonType {
			return nil
		}
		if !matters(v.Type().Elem(), in) {
			return nil
		}
		for i := range v.Len() {
			err = errors.Join(err, detach(v.Index(i), in))
		}
	default:
	}
	return err
}

func keepJSON(raw *json.RawMessage) error {
	if len(*raw) == 0 {
		*raw = nil
		return nil
	}
	*raw = bytes.Clone(*raw)
	if !json.Valid(*raw) {
		return errors.New("not JSON")
	}
	return checkText(string(*raw))
}

func checkText(s string) error {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return errors.New("text with a NUL, or not UTF-8")
	}
	return nil
}

func checkEvent(ev *data.StoredEvent) error {
	switch kind := string(ev.Kind); {
	case ev.ThreadKey <= 0 || ev.ID <= 0:
		return errors.New("without a thread or an id")
	case strings.ContainsAny(kind, " \n\"\\{\x00") || !utf8.ValidString(kind):
		return fmt.Errorf("of the kind %q", kind)
	case bytes.ContainsAny(ev.Payload, "\n\x00") || !utf8.Valid(ev.Payload):
		return errors.New("not one line of text")
	}
	return nil
}
