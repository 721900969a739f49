package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/batonrun/baton/plugins"
)

// ErrNoItem is returned for an unknown item, or one that the run cannot see.
var ErrNoItem = errors.New("no such item")

// ContextSource resolves contextItemIds: items that a run gets in addition to the conversation.
type ContextSource interface {
	// Item returns the text of an item for the user and project of in, or ErrNoItem.
	Item(ctx context.Context, in *plugins.Input, id string) (string, error)
}

// Directory is a ContextSource of the text files in a directory, for all users. An item's id is the file's relative path
// with slashes. Files outside of the directory are not readable, even through links.
type Directory struct {
	root  *os.Root
	bytes int64
}

var _ ContextSource = (*Directory)(nil)

// OpenDirectory opens a directory. The first limit bytes of each file are read, 64 KiB if limit is 0. The caller closes it.
func OpenDirectory(dir string, limit int64) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = 64 << 10
	}
	return &Directory{root, limit}, nil
}

// Close closes the directory.
func (d *Directory) Close() error { return d.root.Close() }

// Item returns the content of a file.
func (d *Directory) Item(ctx context.Context, _ *plugins.Input, id string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	if !fs.ValidPath(id) || path.Clean(id) != id {
		return "", ErrNoItem
	}
	file, err := d.root.OpenFile(id, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block on a FIFO
	if err != nil {                                                     // do not reveal why
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
	if int64(len(text)) > d.bytes {
		return string(text[:d.bytes]) + "\n[cut here]", nil
	}
	return string(text), nil
}
