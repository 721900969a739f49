package data

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/agui"
)

// ValidName reports whether s can name a thread, a run or a message.
func ValidName(s string) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= 200 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 })
}

// NewID mints a UUIDv7.
func NewID() string {
	entropy.Lock()
	defer entropy.Unlock()
	return uuid.Must(uuid.NewV7FromReader(entropy.ahead)).String()
}

// entropy is read ahead: a system call for each id, in goroutines with stacks that must grow for it, took a twentieth of a
// run's start.
var entropy = struct {
	sync.Mutex
	ahead *bufio.Reader
}{ahead: bufio.NewReaderSize(rand.Reader, 1<<10)}

// SetRand makes ids from the bytes of r, so that a repeated simulation has the same ids; nil is the system's randomness.
func SetRand(r io.Reader) {
	entropy.Lock()
	defer entropy.Unlock()
	if r == nil {
		r = rand.Reader
	}
	entropy.ahead.Reset(r)
}

// Plain returns text that a column can store: databases take no NUL.
func Plain(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }

// MaxShown is the maximum length of inputs and outputs in the rows of runs and steps. Messages have the whole text.
const MaxShown = 64 << 10

// Shown returns the beginning of a text, as a row shows it.
func Shown(s string) string { return Plain(Clip(s, MaxShown)) }

// Clip cuts s to at most n bytes, at a rune's edge.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// Query returns the text of the last user message.
func Query(msgs []agui.Message) string {
	for _, m := range slices.Backward(msgs) {
		if m.Role == agui.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// MustJSON encodes a value of our own structs, which always encode.
func MustJSON(v any) json.RawMessage {
	b, err := JSON(v)
	if err != nil {
		panic(err)
	}
	return b
}
