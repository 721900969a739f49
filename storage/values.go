package storage

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// ms is a time as both databases keep it.
func ms(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// msOrNull is ms of a time that may be missing.
func msOrNull(t *time.Time) any {
	if t == nil {
		return nil
	}
	return ms(*t)
}

// orNull is NULL for a zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// raw is JSON text, NULL when there is none.
func raw(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return string(text)
}

// jsonOf is v as JSON text, NULL when v is a nil slice or pointer. An error becomes the parameter, for
// checkText to find.
func jsonOf(v any) any {
	text, err := json.Marshal(v)
	switch {
	case err != nil:
		return err
	case string(text) == "null":
		return nil
	}
	return string(text)
}

// valid is JSON text that a reader will be able to decode. Like jsonOf it may be an error.
func valid(text []byte) any {
	if !json.Valid(text) {
		return errors.New("not JSON")
	}
	return string(text)
}

// checkText refuses parameters that not every database can keep, which for text are NUL and what is not
// UTF-8, so that a run does not depend on the database it happens to have.
func checkText(args []any) error {
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

// textSize is how many bytes of text there are in parameters.
func textSize(args []any) (n int) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
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
		return errors.New("text contains a NUL")
	}
	if !utf8.ValidString(s) {
		return errors.New("text is not UTF-8")
	}
	return nil
}

// The scanners below read what the functions above wrote.

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

func scanTime(rows *sql.Rows) (t time.Time, err error) {
	err = rows.Scan(timeInto{&t})
	return t, err
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

// int8s and texts are arrays in PostgreSQL's binary form, for unnest.
type (
	int8s []int64
	texts [][]byte
)

const (
	oidInt8 = 20
	oidText = 25
)

// BinaryValue is called by lib/pq.
func (a int8s) BinaryValue() ([]byte, error) {
	buf := arrayHeader(make([]byte, 0, 20+12*len(a)), oidInt8, len(a))
	for _, v := range a {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(v))
	}
	return buf, nil
}

// BinaryValue is called by lib/pq.
func (a texts) BinaryValue() ([]byte, error) {
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

// arrayHeader appends what precedes the n elements of an array of one dimension without NULLs.
func arrayHeader(buf []byte, elem uint32, n int) []byte {
	for _, v := range []uint32{1, 0, elem, uint32(n), 1} {
		buf = binary.BigEndian.AppendUint32(buf, v)
	}
	return buf
}
