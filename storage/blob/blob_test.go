package blob_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/batonrun/baton/storage/blob"
)

// open returns a directory, and its path.
func open(t *testing.T) (*blob.Directory, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blobs")
	d := blob.NewDirectory(path)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, path
}

func read(t *testing.T, d *blob.Directory, key string) string {
	t.Helper()
	r, err := d.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func put(t *testing.T, d *blob.Directory, key, text string) error {
	t.Helper()
	return d.Put(t.Context(), key, "", "", strings.NewReader(text))
}

// files are all files below a path.
func files(t *testing.T, path string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			list = append(list, strings.TrimPrefix(at, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDirectoryKeepsBlobs(t *testing.T) {
	d, path := open(t)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there before it is needed: %v", err)
	}
	if err := put(t, d, "p/a/1.txt", "one"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, d, "p/a/2.txt", ""); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d, "p/a/1.txt"); got != "one" {
		t.Errorf("got %q", got)
	}
	for range 2 {
		if err := d.Delete(t.Context(), "p/a/1.txt"); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Open(t.Context(), "p/a/1.txt"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if got := files(t, path); !slices.Equal(got, []string{"/p/a/2.txt"}) {
		t.Errorf("left are %v", got)
	}
}

// TestWhatBreaksOffLeavesNothing stores files that cannot be read to their end.
func TestWhatBreaksOffLeavesNothing(t *testing.T) {
	d, path := open(t)
	broken := errors.New("broken")
	if err := d.Put(t.Context(), "p/a", "", "", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Put(ctx, "p/a", "", "", strings.NewReader("text")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := put(t, d, "p/a/b", "text"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, d, "p/a", "text"); err == nil {
		t.Error("a file took a folder's place")
	}
	if got := files(t, path); !slices.Equal(got, []string{"/p/a/b"}) {
		t.Errorf("left are %v", got)
	}
}

// TestNoWayOut has links that lead out of the directory, and keys that would.
func TestNoWayOut(t *testing.T) {
	d, path := open(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := put(t, d, "p/own", "own"); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"p/folder": outside, "p/file": secret, "p/up": "../..", "p/inner": "own", "out": outside, ".arriving/x": secret,
	} {
		if err := os.Symlink(target, filepath.Join(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	keys := []string{
		"p/folder/secret", "p/file", "p/up/secret", "p/inner", "out/secret", ".arriving/x",
		"", ".", "..", "/", "../secret", "p/../../secret", "/etc/passwd", "p//own", "p/./own", "p/own/", `p\own`, "p/own\x00", "p/.own",
		"p/..", "./p/own", secret,
	}
	for _, key := range keys {
		if r, err := d.Open(t.Context(), key); err == nil {
			_ = r.Close()
			t.Errorf("%q was opened", key)
		}
		if err := put(t, d, key, "changed"); err == nil && key != "p/file" && key != "p/inner" { // whose links are replaced
			t.Errorf("%q was stored", key)
		}
		_ = d.Delete(t.Context(), key)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("outside: %q, %v", got, err)
	}
	if got := files(t, outside); !slices.Equal(got, []string{"/secret"}) {
		t.Errorf("outside are %v", got)
	}
	if got := read(t, d, "p/own"); got != "own" {
		t.Errorf("inside: %q", got)
	}
}

// TestWhatStandsInThePlaceOfTheDirectoryIsUsed replaces the directory, its folder for files on their way, and what is in that.
func TestWhatStandsInThePlaceOfTheDirectoryIsUsed(t *testing.T) {
	d, path := open(t)
	put := func(key string) {
		t.Helper()
		if err := d.Put(t.Context(), key, "", "", strings.NewReader(key)); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(path, key)); err != nil || string(text) != key {
			t.Errorf("%s: %q, %v", key, text, err)
		}
	}
	put("p/first")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	put("p/second")
	if _, err := d.Open(t.Context(), "p/first"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is elsewhere now: %v", err)
	}
	if err := errors.Join(os.RemoveAll(path), os.Rename(path+".old", path)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d, "p/first"); got != "p/first" {
		t.Errorf("got %q", got)
	}
	if err := os.RemoveAll(filepath.Join(path, ".arriving")); err != nil {
		t.Fatal(err)
	}
	put("p/third")
}

// TestWhatAKillHasLeftGoesInTime lets days pass, in which the process goes on.
func TestWhatAKillHasLeftGoesInTime(t *testing.T) {
	d, path := open(t)
	begun := time.Now()
	d.SetClock(func() time.Time { return begun })
	for i, key := range []string{"p/now", "p/later", "p/a day later"} {
		left := filepath.Join(path, ".arriving", "left")
		begun = begun.Add(13 * time.Hour)
		if err := d.Put(t.Context(), key, "", "", strings.NewReader(key)); err != nil {
			t.Fatal(err)
		}
		switch _, err := os.Stat(left); {
		case i == 0:
			if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		case i == 1 && err != nil:
			t.Errorf("it went too soon: %v", err)
		case i == 2 && !errors.Is(err, fs.ErrNotExist):
			t.Errorf("it is still there: %v", err)
		}
	}
}
