package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

func openBlobs(tb testing.TB, url string) *storage.Blobs {
	tb.Helper()
	db, err := storage.Open(context.Background(), storage.Config{URL: url})
	must(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	return db.Blobs()
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// One server stores blobs and another one reads them.
func TestBlobs_StoresBytesInChunks(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	x := openBlobs(t, url)
	y, db := openBlobs(t, url), direct(t, url)
	const chunk = 256 << 10
	sizes := []int{0, 1, chunk - 1, chunk, chunk + 1, 3*chunk + 5, 70 * chunk}
	for _, n := range sizes {
		key, want := fmt.Sprint("p/user/", n), randomBytes(n)
		must(t, x.Put(t.Context(), key, "", "", iotest.HalfReader(bytes.NewReader(want))))
		r, err := y.Open(t.Context(), key)
		must(t, err)
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes come back %d, %v", n, len(got), err)
		}
		_ = r.Close()
	}
	stored := func(n int) (chunks []int) {
		t.Helper()
		must(t, db.Select(&chunks, "SELECT octet_length(data) FROM attachment_chunks WHERE blob = $1 ORDER BY n", fmt.Sprint("p/user/", n)))
		return chunks
	}
	if got := stored(chunk + 1); !slices.Equal(got, []int{chunk, 1}) {
		t.Errorf("the chunks have %v bytes", got)
	}
	for _, n := range []int{70 * chunk, 0, 1 << 40} {
		if err := y.Delete(t.Context(), fmt.Sprint("p/user/", n)); err != nil {
			t.Error(err)
		}
		if _, err := x.Open(t.Context(), fmt.Sprint("p/user/", n)); !errors.Is(err, fs.ErrNotExist) || len(stored(n)) > 0 {
			t.Errorf("%d bytes: %v, and %d chunks are left", n, err, len(stored(n)))
		}
	}
	if len(stored(3*chunk+5)) != 4 {
		t.Error("another blob was deleted")
	}
}

func TestBlobs_LeavesNothingOfAnIncompleteBlob(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	blobs, db := openBlobs(t, url), direct(t, url)
	broken := errors.New("broken")
	half := func() io.Reader { return bytes.NewReader(randomBytes(1 << 20)) }
	err := blobs.Put(t.Context(), "a", "", "", io.MultiReader(half(), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if err := blobs.Put(ctx, "a", "", "", io.MultiReader(half(), left)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	var chunks int
	if err := db.Get(&chunks, "SELECT count(*) FROM attachment_chunks"); err != nil || chunks > 0 {
		t.Errorf("%d chunks are left, %v", chunks, err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
