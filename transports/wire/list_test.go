package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// secret seals cursors; none is unavailable.
type secret string

var errAway = errors.New("away")

func (s secret) Secret(context.Context, string) (string, error) {
	if s == "" {
		return "", errAway
	}
	return string(s), nil
}

// named returns the list of a name.
func named(tb testing.TB, name string) wire.List {
	tb.Helper()
	list, err := wire.NewList(tb.Context(), secret("s"), name, runtime.MustCaller("p", "ann", runtime.RoleUser), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func TestCursorLeadsOnInItsOwnListOnly(t *testing.T) {
	t.Parallel()
	list := named(t, "steps 7")
	for _, position := range []int64{1, 50, 127, 128, 1 << 40, 1<<63 - 1} {
		cursor := list.Cursor(position)
		if got, err := list.Position(cursor); err != nil || got != position {
			t.Errorf("position %d came back as %d, %v", position, got, err)
		}
		_, err := named(t, "messages 7").Position(cursor)
		refused(t, err, "invalid_cursor", "cursor")
	}
	if got, err := list.Position(""); got != 0 || err != nil {
		t.Errorf("no cursor gave %d, %v", got, err)
	}
}

func TestThreadsCursorHoldsTimeAndKey(t *testing.T) {
	t.Parallel()
	own := func(user string) wire.List {
		list, err := wire.NewList(t.Context(), secret("s"), "threads", runtime.MustCaller("p", user, runtime.RoleUser), nil)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	ann := own("ann")
	at := time.UnixMilli(1_760_000_000_123)
	rows := make([]runtime.ListedThread, 1)
	rows[0].Key, rows[0].UpdatedAt = 7, at
	cursor := *wire.NewThreads(ann, runtime.Page[runtime.ListedThread]{Rows: rows, More: true, Total: 2}).NextCursor
	f := runtime.ThreadFilter{Limit: 10}
	if err := wire.ThreadsAfter(ann, cursor, &f); err != nil || !f.BeforeTime.Equal(at) || f.BeforeKey != 7 || f.Limit != 10 {
		t.Errorf("%+v, %v", f, err)
	}
	first := runtime.ThreadFilter{Limit: 10}
	err := wire.ThreadsAfter(ann, "", &first)
	if diff := cmp.Diff(runtime.ThreadFilter{Limit: 10}, first); diff != "" || err != nil {
		t.Errorf("no cursor: %v, %s", err, diff)
	}
	err = wire.ThreadsAfter(own("bob"), cursor, &f)
	refused(t, err, "invalid_cursor", "cursor")
	for _, bad := range []string{cursor[:len(cursor)-1], cursor + "A", ann.Cursor(7), ann.Cursor(7, 7, 7), "x"} {
		err := wire.ThreadsAfter(ann, bad, &f)
		refused(t, err, "invalid_cursor", "cursor")
	}
}

func TestTamperedCursorIsRefused(t *testing.T) {
	t.Parallel()
	list := named(t, "steps 7")
	cursor := list.Cursor(300)
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{"x", "!", "300", cursor + "A", cursor + "=", cursor[1:], cursor[:len(cursor)-1], " " + cursor, cursor + "\n"}
	for i := range raw {
		other := append([]byte{}, raw...)
		other[i] ^= 1
		bad = append(bad, base64.RawURLEncoding.EncodeToString(other))
	}
	for _, b := range bad {
		_, err := list.Position(b)
		refused(t, err, "invalid_cursor", "cursor")
	}
}

func FuzzCursor(f *testing.F) {
	list := named(f, "runs")
	f.Add(list.Cursor(5))
	f.Fuzz(func(t *testing.T, cursor string) {
		if position, err := list.Position(cursor); err == nil && cursor != "" && list.Cursor(position) != cursor {
			t.Errorf("%q means %d, whose cursor is another", cursor, position)
		}
	})
}

// A position is nowhere in its cursor, and of two cursors nobody learns how far apart they lead.
func TestCursorTellsNothing(t *testing.T) {
	t.Parallel()
	list := named(t, "runs")
	raw := func(cursor string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	first := raw(list.Cursor(100_000))
	for _, key := range []int64{1, 100_001, 100_256, 1<<63 - 1} {
		got := raw(list.Cursor(key))
		if len(got) != len(first) {
			t.Errorf("%d: %d bytes, of another %d", key, len(got), len(first))
		}
		same := 0
		for i := range min(len(got), len(first)) {
			same += 8 - bits.OnesCount8(got[i]^first[i])
		}
		if most := len(first) * 8 * 3 / 4; same > most {
			t.Errorf("%d: %d bits are those of another, which is no chance", key, same)
		}
		for _, plain := range [][]byte{binary.AppendUvarint(nil, uint64(key)), binary.BigEndian.AppendUint64(nil, uint64(key))} {
			if len(plain) > 2 && bytes.Contains(got, plain) {
				t.Errorf("%d is in its cursor", key)
			}
		}
	}
	const name = "somebody"
	if bytes.Contains(raw(list.CursorBehind(name)), []byte(name)) {
		t.Error("the name is in its cursor")
	}
	if list.Cursor(7) != named(t, "runs").Cursor(7) {
		t.Error("equal positions have two cursors")
	}
}

// Without the secret nobody makes a cursor, not even as the servers did that had none.
func TestForgedCursorIsRefused(t *testing.T) {
	t.Parallel()
	const name = "runs"
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64([]byte("baton cursor\x00"), 7), name...))
	old := base64.RawURLEncoding.EncodeToString(append(append([]byte{1}, sum[:8]...), 7))
	other, err := wire.NewList(t.Context(), secret("another"), name, runtime.MustCaller("p", "ann", runtime.RoleUser), nil)
	if err != nil {
		t.Fatal(err)
	}
	list := named(t, name)
	for _, forged := range []string{old, other.Cursor(7), list.Cursor(), strings.Repeat("A", 32), strings.Repeat("A", 1<<20)} {
		if _, err := list.Position(forged); err == nil {
			t.Errorf("%.100s is taken", forged)
		} else {
			refused(t, err, "invalid_cursor", "cursor")
		}
	}
	if _, err := list.Name(other.CursorBehind("ann")); err == nil {
		t.Error("a name's is taken")
	}
}

func TestCursorBehindAName(t *testing.T) {
	t.Parallel()
	list := named(t, "users")
	for _, name := range []string{"a", "ann", "日本", strings.Repeat("𝄞", 200)} {
		if got, err := list.Name(list.CursorBehind(name)); got != name || err != nil {
			t.Errorf("%q came back as %q, %v", name, got, err)
		}
	}
	if got, err := list.Name(""); got != "" || err != nil {
		t.Errorf("no cursor gave %q, %v", got, err)
	}
}

func TestListNeedsTheSecret(t *testing.T) {
	t.Parallel()
	if _, err := wire.NewList(t.Context(), secret(""), "runs", runtime.MustCaller("p", "ann", runtime.RoleUser), nil); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}
