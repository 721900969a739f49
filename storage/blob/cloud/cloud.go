// Package cloud keeps the bytes of attachments in a bucket of a service that speaks S3. It stands apart from package blob,
// because what it needs is large: a program that keeps attachments in a directory does not build it.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // s3:// URLs
	"gocloud.dev/gcerrors"
)

// Bucket keeps blobs in a bucket. Its methods may be called from several goroutines. They fail with an error that wraps
// os.ErrDeadlineExceeded when the service is silent.
type Bucket struct {
	b        *blob.Bucket
	patience time.Duration // for each thing that is asked of the service
}

// patience is how long the service may take for one thing, such as to take in a part of a blob.
const patience = time.Minute

// Open returns the bucket of a URL such as s3://name?region=eu-central-1, or s3://name?endpoint=http://127.0.0.1:9000&use_path_style=true
// for a service that is not Amazon's. Credentials are taken from where Amazon's programs take them: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, a profile, or the machine's role. That the bucket is there is not checked.
func Open(ctx context.Context, url string) (*Bucket, error) {
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	return &Bucket{b, patience}, nil
}

// Close closes the bucket.
func (b *Bucket) Close() error { return b.b.Close() }

// Reach fails when the bucket is not there or cannot be looked into.
func (b *Bucket) Reach(ctx context.Context) error {
	there, err := b.b.IsAccessible(ctx)
	if err == nil && !there {
		err = errors.New("there is no such bucket, or it is not this user's to see")
	}
	return err
}

// part is how much of a blob is sent at once, and held in memory meanwhile: the least that S3 takes.
const part = 5 << 20

// Put stores what r holds under a key, whole or not at all.
func (b *Bucket) Put(ctx context.Context, key, mediaType, disposition string, r io.Reader) error {
	watched, ctx := b.watch(ctx)
	defer watched.end() // before Close it takes back what was sent
	w, err := b.b.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: mediaType, ContentDisposition: disposition, BufferSize: part, MaxConcurrency: 1,
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(onlyWriter{w, watched}, r); err != nil {
		watched.end()
		_ = w.Close() // which fails, as it was taken back
		return watched.silent(err)
	}
	return watched.during(w.Close)
}

// onlyWriter is a blob's writer that is not waited for any longer than the service has time.
type onlyWriter struct {
	w       io.Writer
	watched *watched
}

func (w onlyWriter) Write(p []byte) (n int, err error) {
	err = w.watched.during(func() (err error) {
		n, err = w.w.Write(p)
		return err
	})
	return n, err
}

// Open opens a blob. It fails with an error that wraps fs.ErrNotExist when there is none.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	watched, ctx := b.watch(ctx)
	var r *blob.Reader
	err := watched.during(func() (err error) {
		r, err = b.b.NewReader(ctx, key, nil)
		return err
	})
	if err != nil {
		watched.end()
		if gcerrors.Code(err) == gcerrors.NotFound {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return nil, err
	}
	return &reading{r, watched}, nil
}

// reading is a blob that is read, each piece within the time that the service has.
type reading struct {
	r       *blob.Reader
	watched *watched
}

func (r *reading) Read(p []byte) (n int, err error) {
	err = r.watched.during(func() (err error) {
		n, err = r.r.Read(p)
		return err
	})
	return n, err
}

func (r *reading) Close() error {
	defer r.watched.end()
	return r.r.Close()
}

// Delete removes a blob, if it is there.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	watched, ctx := b.watch(ctx)
	defer watched.end()
	err := watched.during(func() error { return b.b.Delete(ctx, key) })
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}

// URL returns where the service gives the blob to anybody for that long. It does not look whether the blob is there.
func (b *Bucket) URL(ctx context.Context, key string, expires time.Duration) (string, error) {
	url, err := b.b.SignedURL(ctx, key, &blob.SignedURLOptions{Method: http.MethodGet, Expiry: expires})
	if gcerrors.Code(err) == gcerrors.Unimplemented || errors.Is(err, errors.ErrUnsupported) {
		return "", nil
	}
	return url, err
}
