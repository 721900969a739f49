package wire

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/batonrun/baton/runtime"
)

// Secrets stores the secrets that seal cursors and sign tickets. A *secrets.Cache does.
type Secrets interface {
	Secret(ctx context.Context, purpose string) (string, error)
}

// purpose is the name of the secret.
const purpose = "list-cursors"

// List is a paged list with its filters. Its cursors are valid only for the same list and filters.
//
// Cursors are base64url of a tag and a position, encrypted: positions are keys shared by all projects, so a readable one would
// reveal other projects' activity, and a forged one would read their data. The tag is the HMAC of the position and serves as the
// nonce of its encryption, as in SIV: equal positions have equal cursors and no randomness is stored. Each list has its own keys.
type List struct {
	tags  []byte
	block cipher.Block
}

// NewList returns the list of that name for a caller, with its filter without position and limit. It fails when the secret cannot
// be read.
func NewList(ctx context.Context, s Secrets, name string, who runtime.Caller, filter any) (List, error) {
	secret, err := s.Secret(ctx, purpose)
	if err != nil {
		return List{}, err
	}
	scope, err := json.Marshal([]any{name, who.Project(), who.User(), who.Role().String(), filter})
	if err != nil {
		return List{}, err
	}
	const size = 32 // of a key
	keys, err := hkdf.Key(sha256.New, []byte(secret), nil, "baton cursor\x00"+string(scope), 2*size)
	if err != nil {
		return List{}, err
	}
	block, err := aes.NewCipher(keys[size:])
	return List{keys[:size], block}, err
}

// maxCursor is more than the cursor behind any name has.
const maxCursor = 2 << 10

var (
	cursorText = base64.RawURLEncoding.Strict()
	errCursor  = Refuse("invalid_cursor", "The cursor is not one that this list has given")
)

// seal returns the cursor of a position.
func (l List) seal(position []byte) string {
	tag := hmac.New(sha256.New, l.tags)
	tag.Write(position)
	raw := slices.Concat(tag.Sum(nil)[:aes.BlockSize], position)
	cipher.NewCTR(l.block, raw[:aes.BlockSize]).XORKeyStream(raw[aes.BlockSize:], position)
	return cursorText.EncodeToString(raw)
}

// open returns the position of a cursor.
func (l List) open(cursor string) ([]byte, error) {
	if len(cursor) > maxCursor {
		return nil, errCursor
	}
	raw, err := cursorText.DecodeString(cursor)
	if err != nil || len(raw) < aes.BlockSize {
		return nil, errCursor
	}
	position := make([]byte, len(raw)-aes.BlockSize)
	cipher.NewCTR(l.block, raw[:aes.BlockSize]).XORKeyStream(position, raw[aes.BlockSize:])
	if !hmac.Equal([]byte(l.seal(position)), []byte(cursor)) {
		return nil, errCursor
	}
	return position, nil
}

// Cursor returns the cursor that leads on behind position, one number or more. Its length does not depend on them.
func (l List) Cursor(position ...int64) string {
	var raw []byte
	for _, n := range position {
		raw = binary.BigEndian.AppendUint64(raw, uint64(n))
	}
	return l.seal(raw)
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
	raw, err := l.open(cursor)
	if err != nil || len(raw) != 8*n {
		return position, errCursor
	}
	for i := range position {
		position[i] = int64(binary.BigEndian.Uint64(raw[8*i:]))
	}
	return position, nil
}

// CursorBehind returns the cursor that leads on behind a name, in a list that is read in the order of names. Its length is
// that of the name.
func (l List) CursorBehind(name string) string { return l.seal([]byte(name)) }

// Name returns the name behind which a cursor of CursorBehind leads on, "" for no cursor.
func (l List) Name(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	name, err := l.open(cursor)
	return string(name), err
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

// Count returns whether a list is to be counted, which the parameter count says.
func Count(count string) (bool, error) {
	switch count {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, Refuse("invalid_request", "count must be true or false")
}

// NewPage makes a page of one that was read.
func NewPage[R, T any](l List, read runtime.Page[R], item func(*R) T, position func(*R) int64) Page[T] {
	return newPage(read, item, func(r *R) string { return l.Cursor(position(r)) })
}

func newPage[R, T any](read runtime.Page[R], item func(*R) T, cursor func(*R) string) Page[T] {
	page := Page[T]{Items: make([]T, len(read.Rows))}
	if read.Counted {
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
