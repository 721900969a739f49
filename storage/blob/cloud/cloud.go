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

// Bucket keeps blobs in a bucket. Its methods may be called from several goroutines.
type Bucket struct{ b *blob.Bucket }

// Open returns the bucket of a URL such as s3://name?region=eu-central-1, or s3://name?endpoint=http://127.0.0.1:9000&use_path_style=true
// for a service that is not Amazon's. Credentials are taken from where Amazon's programs take them: AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, a profile, or the machine's role. That the bucket is there is not checked.
func Open(ctx context.Context, url string) (*Bucket, error) {
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	return &Bucket{b}, nil
}

// Close closes the bucket.
func (b *Bucket) Close() error { return b.b.Close() }

// part is how much of a blob is sent at once, and held in memory meanwhile: the least that S3 takes.
const part = 5 << 20

// Put stores what r holds under a key, whole or not at all.
func (b *Bucket) Put(ctx context.Context, key, mediaType, disposition string, r io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Close it takes back what was sent
	w, err := b.b.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: mediaType, ContentDisposition: disposition, BufferSize: part, MaxConcurrency: 1,
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		cancel()
		_ = w.Close() // which fails, as it was taken back
		return err
	}
	return w.Close()
}

// Open opens a blob. It fails with an error that wraps fs.ErrNotExist when there is none.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := b.b.NewReader(ctx, key, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Delete removes a blob, if it is there.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.b.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
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
