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

// ErrNoItem says that there is no item of an id, or none that this run may see.
var ErrNoItem = errors.New("no such item")

// ContextSource resolves contextItemIds: things beside the conversation that a run is given to work with.
type ContextSource interface {
	// Item returns the text of an item, for the user and the project that in names, or ErrNoItem.
	Item(ctx context.Context, in *plugins.Input, id string) (string, error)
}

// Directory is a ContextSource of the text files below a directory, which are everybody's. An item's id is a file's
// path below it, with slashes; nothing outside is read, through links either.
type Directory struct {
	root  *os.Root
	bytes int64
}

var _ ContextSource = (*Directory)(nil)

// OpenDirectory opens a directory. Of each file its first limit bytes are read, 64 KiB when limit is 0. The caller closes it.
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

// Close lets go of the directory.
func (d *Directory) Close() error { return d.root.Close() }

// Item returns what is in a file.
func (d *Directory) Item(ctx context.Context, _ *plugins.Input, id string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	if !fs.ValidPath(id) || path.Clean(id) != id {
		return "", ErrNoItem
	}
	file, err := d.root.OpenFile(id, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if err != nil {                                                     // whatever keeps it from being read is nobody's business
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
