package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	// insertChunk does not wait for the disk: the commit that keeps the attachment does, for all before it.
	insertChunk = `
INSERT INTO attachment_chunks (blob, n, data)
SELECT ?, ?, ? FROM set_config('synchronous_commit', 'off', TRUE)`

	selectChunk = `
SELECT data FROM attachment_chunks WHERE blob = ? AND n = ?`

	deleteChunks = `
DELETE FROM attachment_chunks WHERE (blob, n) IN (SELECT blob, n FROM attachment_chunks WHERE blob = ? ORDER BY n LIMIT ?)`
)

const (
	// chunkSize is the size of all chunks of a blob but the last, in bytes.
	chunkSize = 256 << 10
	// chunksAtOnce is how many chunks one statement deletes.
	chunksAtOnce = 32
	// chunksWritten is how many chunks are written at the same time, on the connections beside the commits.
	chunksWritten = 2
)

// Blobs stores the bytes of attachments in a PostgreSQL database, in chunks, of which a caller has one in memory. It is safe for
// concurrent use.
type Blobs struct {
	b      beside
	writes sqldb.Turns
}

// Blobs returns the attachments' bytes in the database, which must be PostgreSQL.
func (db *DB) Blobs() *Blobs { return &Blobs{db.beside, sqldb.TurnsOf(chunksWritten)} }

// Put stores the bytes of r under a key, whole or not at all. The key must be new. The type and the disposition are in the row of the
// attachment. Chunks that a killed server has left are deleted with that row.
func (bs *Blobs) Put(ctx context.Context, key, _, _ string, r io.Reader) (err error) {
	n := 0
	defer func() {
		if err != nil && n > 0 {
			err = errors.Join(err, bs.Delete(context.WithoutCancel(ctx), key))
		}
	}()
	chunk := make([]byte, chunkSize)
	for {
		size, readErr := io.ReadFull(r, chunk)
		end := errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF)
		switch {
		case readErr != nil && !end:
			return readErr
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case size == 0 && n > 0:
			return nil
		}
		_, err := bs.write(ctx, insertChunk, key, n, chunk[:size])
		if n++; err != nil || end {
			return err
		}
	}
}

// write runs a statement beside the commits, and returns how many rows it has changed. It ends when the database has answered, so that
// no chunk is inserted after the blob was deleted.
func (bs *Blobs) write(ctx context.Context, query string, args ...any) (int64, error) {
	end, err := bs.writes.Take(ctx, bs.b.read)
	if err != nil {
		return 0, err
	}
	defer end()
	return bs.b.w.Session.Pool.Exec(context.WithoutCancel(ctx), query, args...)
}

// Open opens a blob. It fails with an error that wraps fs.ErrNotExist when there is none.
func (bs *Blobs) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	r := &chunkReader{ctx: ctx, bs: bs, key: key}
	if found, err := r.next(); err != nil {
		return nil, err
	} else if !found {
		return nil, fmt.Errorf("%s: %w", key, fs.ErrNotExist)
	}
	return r, nil
}

// chunkReader reads a blob. It occupies no connection between two reads.
type chunkReader struct {
	ctx   context.Context //nolint:containedctx // of Open: a reader is bound to one request
	bs    *Blobs
	key   string
	n     int    // of the next chunk
	chunk []byte // what is left of the one before
	last  bool
}

// next reads the next chunk. It reports false behind the last one.
func (r *chunkReader) next() (bool, error) {
	if r.last {
		return false, nil
	}
	chunk, err := sqldb.One(r.ctx, r.bs.b.read, sqldb.Scalar[[]byte], selectChunk, r.key, r.n)
	if errors.Is(err, data.ErrNotFound) {
		return false, nil
	}
	r.n, r.chunk, r.last = r.n+1, chunk, len(chunk) < chunkSize
	return err == nil, err
}

// Read implements io.Reader.
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.chunk) == 0 {
		more, err := r.next()
		if err != nil {
			return 0, err
		}
		if !more {
			return 0, io.EOF
		}
	}
	n := copy(p, r.chunk)
	r.chunk = r.chunk[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *chunkReader) Close() error {
	r.chunk, r.last = nil, true
	return nil
}

// Delete removes a blob, if it is there. If it fails, a part of the blob may be left.
func (bs *Blobs) Delete(ctx context.Context, key string) error {
	for {
		n, err := bs.write(ctx, deleteChunks, key, chunksAtOnce)
		if err != nil || n < chunksAtOnce {
			return err
		}
	}
}

// URL returns "": only Baton serves its database.
func (*Blobs) URL(context.Context, string, time.Duration) (string, error) { return "", nil }
