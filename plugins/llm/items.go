package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/batonrun/baton/plugins"
)

// ErrNoItem is returned for an unknown item, or one that the run cannot see.
var ErrNoItem = errors.New("no such item")

// ContextSource resolves contextItemIds: items that a run gets in addition to the conversation.
type ContextSource interface {
	// Item returns the text of an item for the user and project of in, or ErrNoItem. in has the members that the agent reads. Guards of
	// the input judge the id, and not the text.
	Item(ctx context.Context, in *plugins.Input, id string) (string, error)
}

// Directory is a ContextSource of the text files in a directory, for all users. An item's id is the file's relative path
// with slashes. Files outside of the directory are not readable, even through links. Hidden files, files in hidden
// directories, private keys and files that are not UTF-8 text are no items either.
type Directory struct {
	root    *os.Root
	path    string // absolute, without links
	bytes   int64
	private []string
}

var _ ContextSource = (*Directory)(nil)

// OpenDirectory opens a directory. The first limit bytes of each file are read, 64 KiB if limit is 0. What begins with a
// private path is no item: the file, what lies in the directory, and side files such as baton.db-wal. The caller closes it.
func OpenDirectory(dir string, limit int64, private ...string) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if limit <= 0 {
		limit = 64 << 10
	}
	return &Directory{root, path, limit, private}, nil
}

// Close closes the directory.
func (d *Directory) Close() error { return d.root.Close() }

// Item returns the content of a file.
func (d *Directory) Item(ctx context.Context, _ *plugins.Input, id string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	if !fs.ValidPath(id) || path.Clean(id) != id || hidden(id) {
		return "", ErrNoItem
	}
	target, err := filepath.EvalSymlinks(filepath.Join(d.path, filepath.FromSlash(id)))
	if err != nil || d.isPrivate(target) {
		return "", ErrNoItem
	}
	// Kubernetes links the files of a ConfigMap into directories such as ..data.
	name, err := filepath.Rel(d.path, target)
	if err != nil || hidden(strings.ReplaceAll("/"+filepath.ToSlash(name), "/..", "/")) {
		return "", ErrNoItem
	}
	file, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block on a FIFO
	if err != nil {                                                       // do not reveal why
		return "", ErrNoItem
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", ErrNoItem
	}
	text, err := io.ReadAll(io.LimitReader(file, d.bytes+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", id, err)
	}
	end := ""
	if int64(len(text)) > d.bytes {
		text, end = wholeRunes(text[:d.bytes]), "\n[cut here]"
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 || bytes.Contains(text, []byte("PRIVATE KEY-----")) {
		return "", ErrNoItem
	}
	return string(text) + end, nil
}

// hidden reports whether a name in a path with slashes begins with a dot.
func hidden(path string) bool { return strings.Contains("/"+path, "/.") }

// wholeRunes removes the beginning of a character from the end of a text.
func wholeRunes(text []byte) []byte {
	for i := max(len(text)-utf8.UTFMax, 0); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			return text[:i]
		}
	}
	return text
}

// isPrivate reports whether an absolute path without links begins with a private one, under whichever name.
func (d *Directory) isPrivate(target string) bool {
	for _, p := range d.private {
		if abs, err := filepath.Abs(p); err == nil {
			if real, err := filepath.EvalSymlinks(abs); err == nil {
				abs = real
			}
			if strings.HasPrefix(target, abs) {
				return true
			}
		}
		info, err := os.Stat(p)
		for at := target; err == nil && at != filepath.Dir(at); at = filepath.Dir(at) { // hard links, and names in another case
			if found, err := os.Stat(at); err == nil && os.SameFile(found, info) {
				return true
			}
		}
	}
	return false
}
