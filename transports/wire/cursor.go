package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// List names a list that is read page by page. A cursor leads on in the list it was given for and nowhere else.
type List string

// Cursors are base64url of a version, a sum over list and position, and the position. The sum is not a
// secret: a forged cursor reaches nothing that its list would not show anyway.
const (
	cursorVersion = 1
	cursorSum     = 8
)

var cursorText = base64.RawURLEncoding.Strict()

// Cursor returns the cursor that leads on behind position.
func (l List) Cursor(position int64) string {
	raw := append([]byte{cursorVersion}, l.sum(position)...)
	return cursorText.EncodeToString(binary.AppendUvarint(raw, uint64(position)))
}

// Position returns the position behind which a cursor leads on, 0 for no cursor. It refuses one that was
// changed or that another list gave.
func (l List) Position(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) <= 1+cursorSum || raw[0] != cursorVersion {
		return 0, errCursor
	}
	u, _ := binary.Uvarint(raw[1+cursorSum:])
	position := int64(u)
	if position <= 0 || l.Cursor(position) != cursor {
		return 0, errCursor
	}
	return position, nil
}

var errCursor = refuse("invalid_cursor", "The cursor is not one that this list has given")

func (l List) sum(position int64) []byte {
	h := sha256.New()
	h.Write([]byte("baton cursor\x00"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(position)))
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
		return 0, refuse("invalid_limit", "limit must be a number from 1 to %d", MaxLimit)
	}
	return n, nil
}

// NewPage makes a page of rows, which were read with one more than limit to see whether another page follows.
func NewPage[R, T any](l List, rows []R, limit, total int, item func(*R) T, position func(*R) int64) Page[T] {
	page := Page[T]{Items: make([]T, 0, min(len(rows), limit)), Total: total}
	if len(rows) > limit {
		rows = rows[:limit]
		next := l.Cursor(position(&rows[limit-1]))
		page.NextCursor = &next
	}
	for i := range rows {
		page.Items = append(page.Items, item(&rows[i]))
	}
	return page
}
