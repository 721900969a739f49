// Package blob keeps the bytes of attachments in a directory. Other stores are in the folders below, so that
// unused ones are not built.
//
// Each blob is a file under its key, written beside it and moved there once it is whole and on the disk. All paths are
// resolved inside the directory, through an os.Root: no key and no symbolic link leads out of it.
package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// arriving is the folder of files that are being written. No key begins with it.
const arriving = ".arriving"

// Directory keeps blobs as files. Its methods may be called from several goroutines. It is made when the first blob comes.
type Directory struct {
	path string
	now  func() time.Time

	mu    sync.Mutex // guards the fields below
	root  *os.Root   // nil until it is needed
	swept time.Time  // when it was rid of what was left half written
}

// NewDirectory returns the directory of that path, which need not exist.
func NewDirectory(path string) *Directory { return &Directory{path: path, now: time.Now} }

// Close closes the directory.
func (d *Directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}

// day is after how long a file that was not written to is no longer on its way.
const day = 24 * time.Hour

// open returns the directory, which it makes. Half written files are removed now and then.
func (d *Directory) open() (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != nil && !d.same() {
		_ = d.root.Close() // who uses it still has what is open; what is new belongs where the path leads now
		d.root = nil
	}
	if d.root == nil {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(d.path)
		if err != nil {
			return nil, err
		}
		d.root, d.swept = root, time.Time{}
	}
	if now := d.now(); now.Sub(d.swept) > day {
		if err := sweep(d.root, now.Add(-day)); err != nil {
			return nil, err
		}
		d.swept = now
	}
	return d.root, nil
}

// same reports whether the directory is the one that the path leads to: another may have been mounted or put there. The caller
// holds mu.
func (d *Directory) same() bool {
	there, err := os.Stat(d.path)
	if err != nil {
		return false
	}
	own, err := d.root.Stat(".")
	return err == nil && os.SameFile(there, own)
}

// sweep removes files that have not been written to since a time and were never finished.
func sweep(root *os.Root, before time.Time) error {
	if err := root.Mkdir(arriving, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	files, err := fs.ReadDir(root.FS(), arriving)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err == nil && info.ModTime().Before(before) {
			err = root.Remove(filepath.Join(arriving, f.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Put stores the bytes of r under a key, whole or not at all. The caller stores the type and the disposition.
func (d *Directory) Put(ctx context.Context, key, _, _ string, r io.Reader) error {
	name, err := file(key)
	if err != nil {
		return err
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	part := filepath.Join(arriving, rand.Text())
	if err := write(ctx, root, part, r); err != nil {
		return errors.Join(err, remove(root, part))
	}
	err = root.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, remove(root, part))
	}
	return syncFolder(root, filepath.Dir(name))
}

// write makes a file of the bytes of r.
func write(ctx context.Context, root *os.Root, name string, r io.Reader) (err error) {
	f, err := create(root, name)
	if errors.Is(err, fs.ErrNotExist) { // somebody has tidied up
		if err = root.Mkdir(arriving, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			f, err = create(root, name)
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, patient{ctx, r}); err != nil {
		return err
	}
	return f.Sync()
}

func create(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// patient is a reader that ends with its context.
type patient struct {
	ctx context.Context
	io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if err := context.Cause(p.ctx); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}

// Open opens a blob. It fails with an error that wraps fs.ErrNotExist when there is none.
func (d *Directory) Open(_ context.Context, key string) (io.ReadCloser, error) {
	name, err := file(key)
	if err != nil {
		return nil, err
	}
	root, err := d.open()
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: it is no file", key, fs.ErrNotExist)
	}
	return root.Open(name)
}

// Delete removes a blob, if it is there.
func (d *Directory) Delete(_ context.Context, key string) error {
	name, err := file(key)
	if err != nil {
		return err
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	return remove(root, name)
}

// remove removes a file, if it is there.
func remove(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// URL returns "": only this process serves the directory.
func (d *Directory) URL(context.Context, string, time.Duration) (string, error) { return "", nil }

// file is the path of a key's file. A key is a clean relative path, and none of its elements begins with a dot.
func file(key string) (string, error) {
	if !fs.ValidPath(key) || key == "." || path.Clean(key) != key || strings.ContainsAny(key, "\\\x00") ||
		strings.HasPrefix(key, ".") || strings.Contains(key, "/.") || !filepath.IsLocal(filepath.FromSlash(key)) {
		return "", fmt.Errorf("%q is no key of a blob", key)
	}
	return filepath.FromSlash(key), nil
}
