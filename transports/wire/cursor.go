package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/batonrun/baton/runtime"
)

// List names a list that is read page by page. A cursor leads on in the list it was given for and nowhere else.
type List string

// Cursors are base64url of a version, a sum over list and position, and the position, one number or more. The
// sum is not a secret: a forged cursor reaches nothing that its list would not show anyway.
const (
	cursorVersion = 1
	cursorSum     = 8
)

var cursorText = base64.RawURLEncoding.Strict()

// Cursor returns the cursor that leads on behind position.
func (l List) Cursor(position ...int64) string {
	raw := append([]byte{cursorVersion}, l.sum(position)...)
	for _, n := range position {
		raw = binary.AppendUvarint(raw, uint64(n))
	}
	return cursorText.EncodeToString(raw)
}

// Position returns the position behind which a cursor leads on, 0 for no cursor. It refuses one that was
// changed or that another list gave.
func (l List) Position(cursor string) (int64, error) {
	position, err := l.positions(cursor, 1)
	return position[0], err
}

// positions is Position for cursors of n numbers.
func (l List) positions(cursor string, n int) ([]int64, error) {
	position := make([]int64, n)
	if cursor == "" {
		return position, nil
	}
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) <= 1+cursorSum || raw[0] != cursorVersion {
		return position, errCursor
	}
	rest := raw[1+cursorSum:]
	for i := range position {
		u, size := binary.Uvarint(rest)
		if size <= 0 || int64(u) <= 0 {
			return make([]int64, n), errCursor
		}
		position[i], rest = int64(u), rest[size:]
	}
	if l.Cursor(position...) != cursor {
		return make([]int64, n), errCursor
	}
	return position, nil
}

// CursorBehind returns the cursor that leads on behind a name, in a list that is read in the order of names.
func (l List) CursorBehind(name string) string {
	raw := append([]byte{cursorVersion}, l.sumOf(name)...)
	return cursorText.EncodeToString(append(raw, name...))
}

// Name returns the name behind which a cursor of CursorBehind leads on, "" for no cursor.
func (l List) Name(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) <= 1+cursorSum {
		return "", errCursor
	}
	if name := string(raw[1+cursorSum:]); runtime.ValidName(name) && l.CursorBehind(name) == cursor { // not every database can be asked for others
		return name, nil
	}
	return "", errCursor
}

func (l List) sumOf(name string) []byte {
	sum := sha256.Sum256([]byte("baton cursor\x00" + strconv.Quote(name) + string(l)))
	return sum[:cursorSum]
}

var errCursor = Refuse("invalid_cursor", "The cursor is not one that this list has given")

func (l List) sum(position []int64) []byte {
	h := sha256.New()
	h.Write([]byte("baton cursor\x00"))
	for _, n := range position {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	h.Write([]byte(l))
	return h.Sum(nil)[:cursorSum]
}

// The sizes of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// Limit returns how many items a page may hold: DefaultLimit when limit is empty, else a number from 1 to
// MaxLimit.
func Limit(limit string) (int, error) {
	if limit == "" {
		return DefaultLimit, nil
	}
	n, err := strconv.Atoi(limit)
	if err != nil || n < 1 || n > MaxLimit {
		return 0, Refuse("invalid_limit", "limit must be a number from 1 to %d", MaxLimit)
	}
	return n, nil
}

// NewPage makes a page of one that was read.
func NewPage[R, T any](l List, read runtime.Page[R], item func(*R) T, position func(*R) int64) Page[T] {
	return newPage(read, item, func(r *R) string {
		if read.Behind != 0 {
			return l.Cursor(read.Behind)
		}
		return l.Cursor(position(r))
	})
}

func newPage[R, T any](read runtime.Page[R], item func(*R) T, cursor func(*R) string) Page[T] {
	page := Page[T]{Items: make([]T, len(read.Rows))}
	if !read.Uncounted {
		page.Total = &read.Total
	}
	for i := range read.Rows {
		page.Items[i] = item(&read.Rows[i])
	}
	if n := len(read.Rows); read.More && (n > 0 || read.Behind != 0 || read.BehindOne != "") {
		var last *R
		if n > 0 {
			last = &read.Rows[n-1]
		}
		next := cursor(last)
		page.NextCursor = &next
	}
	return page
}
