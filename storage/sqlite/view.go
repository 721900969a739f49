package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite/vfs"

	"github.com/batonrun/baton/runtime/data"
)

// View opens the database at path as it lies there, with the commits that only its WAL has, and changes nothing. SQLite itself would make
// files beside the database, and move the WAL into it. Neither this process nor another one may have the database open.
func View(path string) (db *sqlx.DB, done func() error, err error) {
	var open []io.Closer
	done = func() error {
		var errs []error
		for len(open) > 0 {
			errs = append(errs, open[len(open)-1].Close())
			open = open[:len(open)-1]
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	im := &image{name: filepath.Base(path), at: make(map[int64]int64)}
	if im.file, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	open = append(open, im.file)
	if im.FileInfo, err = im.file.Stat(); err != nil {
		return nil, nil, err
	}
	im.size = im.FileInfo.Size()
	if im.wal, err = os.Open(path + "-wal"); err == nil {
		open = append(open, im.wal)
		err = im.overlay()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	name, system, err := vfs.New(im)
	if err != nil {
		return nil, nil, err
	}
	open = append(open, system)
	if db, err = sqlx.Open("sqlite", "file:"+url.PathEscape(im.name)+"?mode=ro&_time_integer_format=unix_milli&vfs="+name); err != nil {
		return nil, nil, err
	}
	open = append(open, db)
	return db, done, nil
}

// image is a file system with one file: a database with the pages of its WAL in their places.
type image struct {
	fs.FileInfo
	name      string
	file, wal *os.File
	page      int64           // size of a page of the WAL
	at        map[int64]int64 // where the WAL has a page, by the page's number from 0
	size      int64
}

// overlay finds the pages of the WAL's transactions.
func (im *image) overlay() error {
	var page int64
	pending := make(map[int64]int64) // pages of the transaction being read
	size, err := eachFrame(im.wal, func(number, committed uint32, content []byte, at int64) {
		page = int64(len(content))
		pending[int64(number)-1] = at
		if committed > 0 {
			maps.Copy(im.at, pending)
			clear(pending)
			im.size = int64(committed) * page
		}
	})
	im.page = int64(size)
	return err
}

// Open implements fs.FS.
func (im *image) Open(name string) (fs.File, error) {
	if name != im.name { // a journal, or a WAL
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &imageFile{io.NewSectionReader(im, 0, im.size), im}, nil
}

// Size implements fs.FileInfo.
func (im *image) Size() int64 { return im.size }

// ReadAt implements io.ReaderAt.
func (im *image) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		rest, from, start := b[n:], im.file, off+int64(n)
		if im.page > 0 {
			in := start % im.page
			rest = rest[:min(int64(len(rest)), im.page-in)]
			if at, ok := im.at[start/im.page]; ok {
				from, start = im.wal, at+in
			}
		}
		var read int
		read, err = from.ReadAt(rest, start)
		n += read
	}
	for _, at := range formatVersions {
		if i := at - off; i >= 0 && i < int64(n) && b[i] == inWAL {
			b[i] = inPlace
		}
	}
	return n, err
}

// formatVersions are the bytes of a database which say whether it has a WAL.
var formatVersions = [...]int64{18, 19}

const (
	inPlace = 1
	inWAL   = 2
)

type imageFile struct {
	*io.SectionReader
	im *image
}

func (f *imageFile) Stat() (fs.FileInfo, error) { return f.im, nil }
func (f *imageFile) Close() error               { return nil }

const quickCheck = `
PRAGMA quick_check(1)`

// CheckPages reads all pages of a database, and fails with data.ErrDamaged if they do not fit together.
func CheckPages(ctx context.Context, db sqlx.QueryerContext) error {
	var found string
	if err := sqlx.GetContext(ctx, db, &found, quickCheck); err != nil {
		if sentinel := Explain(err); sentinel != nil {
			return fmt.Errorf("%w: %w", sentinel, err)
		}
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", data.ErrDamaged, strings.TrimPrefix(found, "*** in database main ***\n"))
	}
	return nil
}
