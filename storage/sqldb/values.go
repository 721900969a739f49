package sqldb

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/data"
)

// Time is a time as both databases store it, to the millisecond; NULL for a nil pointer.
func Time[T time.Time | *time.Time](at T) any {
	t, ok := any(at).(time.Time)
	if p, _ := any(at).(*time.Time); p != nil {
		t, ok = *p, true
	}
	if !ok {
		return nil
	}
	return t.UTC().Truncate(time.Millisecond)
}

// OrNull is NULL for a zero value.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// JSON is v as JSON text, NULL for a nil slice or pointer and for empty JSON. An error becomes the parameter, with which the statement
// fails.
func JSON(v any) any {
	if text, ok := v.(json.RawMessage); ok {
		return OrNull(string(text))
	}
	if at := reflect.ValueOf(v); !at.IsValid() || (at.Kind() == reflect.Slice || at.Kind() == reflect.Pointer) && at.IsNil() {
		return nil
	}
	text, err := data.JSON(v)
	switch {
	case err != nil:
		return err
	case string(text) == "null":
		return nil
	}
	return string(text)
}

// CheckText refuses text with NUL or invalid UTF-8, which not every database can store, so that all databases behave
// alike.
func CheckText(args ...any) error {
	for _, arg := range args {
		switch arg := arg.(type) {
		case error:
			return arg
		case string:
			if err := checkString(arg); err != nil {
				return err
			}
		case *string:
			if arg == nil {
				continue
			}
			if err := checkString(*arg); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeOf is how many bytes of text there are in parameters.
func sizeOf(args []any) (n int) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			n += len(arg)
		case []byte:
			n += len(arg)
		case *string:
			if arg != nil {
				n += len(*arg)
			}
		}
	}
	return n
}

func checkString(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%w: it contains a NUL", data.ErrText)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: it is not UTF-8", data.ErrText)
	}
	return nil
}

func jsonText(list any) string {
	text, _ := json.Marshal(list) // of numbers and strings
	return string(text)
}

// Into returns a scanner for a value of a kind above: a time, which is NULL for a nil pointer, or JSON, which a json.RawMessage has as it is.
func Into(v any) sql.Scanner {
	switch v := v.(type) {
	case *time.Time:
		return timeInto{v}
	case **time.Time:
		return timePtrInto{v}
	case *json.RawMessage:
		return rawInto{v}
	}
	return jsonInto{v}
}

type timeInto struct{ t *time.Time }

func (s timeInto) Scan(src any) error {
	switch src := src.(type) {
	case int64:
		*s.t = time.UnixMilli(src).UTC()
	case time.Time:
		*s.t = src.UTC()
	default:
		return fmt.Errorf("a time is a %T", src)
	}
	return nil
}

type timePtrInto struct{ t **time.Time }

func (s timePtrInto) Scan(src any) error {
	*s.t = nil
	if src == nil {
		return nil
	}
	*s.t = new(time.Time)
	return timeInto{*s.t}.Scan(src)
}

type rawInto struct{ text *json.RawMessage }

func (s rawInto) Scan(src any) error {
	text, err := bytesOf(src)
	*s.text = text
	return err
}

type jsonInto struct{ v any }

func (s jsonInto) Scan(src any) error {
	text, err := bytesOf(src)
	if err != nil || text == nil {
		return err
	}
	return json.Unmarshal(text, s.v)
}

// bytesOf returns a copy of a text column's value, nil for NULL.
func bytesOf(src any) ([]byte, error) {
	switch src := src.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(src), nil
	case []byte:
		return append([]byte{}, src...), nil
	}
	return nil, fmt.Errorf("a text is a %T", src)
}

type (
	// Int8s is an array in PostgreSQL's binary form, for unnest.
	Int8s []int64
	// Texts is an array as Int8s is.
	Texts [][]byte
)

const (
	oidBool        = 16
	oidInt8        = 20
	oidText        = 25
	oidFloat8      = 701
	oidTimestampTZ = 1184
)

// oids are the types that parameters of rows have.
var oids = map[string]uint32{
	"bigint": oidInt8, "text": oidText, "boolean": oidBool, "float8": oidFloat8, "timestamptz": oidTimestampTZ,
}

// BinaryValue is called by lib/pq.
func (a Int8s) BinaryValue() ([]byte, error) {
	buf := arrayHeader(make([]byte, 0, 20+12*len(a)), oidInt8, len(a))
	for _, v := range a {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(v))
	}
	return buf, nil
}

// BinaryValue is called by lib/pq.
func (a Texts) BinaryValue() ([]byte, error) {
	size := 20
	for _, v := range a {
		size += 4 + len(v)
	}
	buf := arrayHeader(make([]byte, 0, size), oidText, len(a))
	for _, v := range a {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(v)))
		buf = append(buf, v...)
	}
	return buf, nil
}

// cells is a column of rows as an array in PostgreSQL's binary form.
type cells struct {
	rows [][]any
	at   int // which of each row
	oid  uint32
}

// epoch is where PostgreSQL's times begin.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// BinaryValue is called by lib/pq.
func (c cells) BinaryValue() ([]byte, error) {
	size := 20 + 16*len(c.rows)
	for _, row := range c.rows {
		size += sizeOf(row[c.at : c.at+1])
	}
	buf := arrayHeader(make([]byte, 0, size), c.oid, len(c.rows))
	for _, row := range c.rows {
		start := len(buf)
		buf = append(buf, 0, 0, 0, 0)
		null := false
		switch v := row[c.at].(type) {
		case nil:
			null = true
		case *string:
			if null = v == nil; !null {
				buf = append(buf, *v...)
			}
		case string:
			buf = append(buf, v...)
		case []byte:
			buf = append(buf, v...)
		case int:
			buf = binary.BigEndian.AppendUint64(buf, uint64(v))
		case int64:
			buf = binary.BigEndian.AppendUint64(buf, uint64(v))
		case bool:
			if buf = append(buf, 0); v {
				buf[len(buf)-1] = 1
			}
		case float64:
			buf = binary.BigEndian.AppendUint64(buf, math.Float64bits(v))
		case time.Time:
			buf = binary.BigEndian.AppendUint64(buf, uint64(v.Unix()-epoch.Unix())*1e6+uint64(v.Nanosecond()/1e3))
		default:
			return nil, fmt.Errorf("a cell is a %T", v)
		}
		size := uint32(len(buf) - start - 4)
		if null {
			size = math.MaxUint32
			buf[7] = 1 // there are NULLs
		}
		binary.BigEndian.PutUint32(buf[start:], size)
	}
	return buf, nil
}

// typesOf returns the types of a query's parameters.
func typesOf(query string) (list []uint32) {
	for _, param := range typed.FindAllStringSubmatch(query, -1) {
		list = append(list, oids[param[1]])
	}
	return list
}

// arraysOf returns rows of numbers and of texts as an array for each column.
func arraysOf(rows [][]any) (arrays []any) {
	for at, cell := range rows[0] {
		oid := uint32(oidInt8)
		if _, ok := cell.(string); ok {
			oid = oidText
		}
		arrays = append(arrays, cells{rows, at, oid})
	}
	return arrays
}

// arrayHeader appends the header of a one-dimensional array of n elements without NULLs.
func arrayHeader(buf []byte, elem uint32, n int) []byte {
	for _, v := range []uint32{1, 0, elem, uint32(n), 1} {
		buf = binary.BigEndian.AppendUint32(buf, v)
	}
	return buf
}
