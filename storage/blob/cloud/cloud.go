// Package cloud stores the bytes of attachments in a bucket of a service that speaks S3. It is separate from package blob, so
// that a program that stores attachments in a directory is built without an S3 client.
package cloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Bucket stores blobs in a bucket. Several goroutines may call its methods. They fail with an error that wraps
// os.ErrDeadlineExceeded when the service does not respond.
type Bucket struct {
	s3        minio.Core
	name      string
	transport *http.Transport
	timeout   time.Duration // for each request to the service, and for each read of an answer
}

const (
	timeout = time.Minute
	part    = 5 << 20 // bytes per request of a large upload, held in memory: the minimum of S3
)

// Open returns the bucket of a URL such as s3://name?region=eu-central-1, or
// s3://name?endpoint=http://127.0.0.1:9000&use_path_style=true for another service than Amazon's. It finds credentials as
// Amazon's programs do: in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in a profile, or in the role of the machine. It does not
// connect to the service.
func Open(_ context.Context, address string) (*Bucket, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, errors.New("want a URL such as s3://name?region=eu-central-1")
	}
	endpoint := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	opts := minio.Options{
		Region:     cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		MaxRetries: 3,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
	}
	for name, values := range u.Query() {
		switch value := values[0]; name {
		case "region":
			opts.Region = value
		case "endpoint":
			if endpoint, err = url.Parse(value); err != nil || endpoint.Host == "" {
				return nil, fmt.Errorf("endpoint: want a URL such as https://s3.example.com, got %q", value)
			}
		case "use_path_style":
			path, err := strconv.ParseBool(value)
			if err != nil {
				return nil, fmt.Errorf("use_path_style: want true or false, got %q", value)
			}
			if path {
				opts.BucketLookup = minio.BucketLookupPath
			}
		default:
			return nil, fmt.Errorf("unknown parameter %q; there are region, endpoint and use_path_style", name)
		}
	}
	opts.Secure = endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(opts.Secure)
	if err != nil {
		return nil, err
	}
	opts.Transport = transport
	s3, err := minio.NewCore(endpoint.Host, &opts)
	if err != nil {
		return nil, err
	}
	return &Bucket{*s3, u.Host, transport, timeout}, nil
}

// Close closes idle connections to the service.
func (b *Bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// Reach fails when the bucket does not exist or is not accessible.
func (b *Bucket) Reach(ctx context.Context) error {
	exists, err := b.s3.BucketExists(ctx, b.name)
	if err == nil && !exists {
		err = errors.New("the bucket does not exist, or is not accessible")
	}
	return err
}

// Put stores the content of r under a key, completely or not at all. The time that r takes does not count.
func (b *Bucket) Put(ctx context.Context, key, mediaType, disposition string, r io.Reader) error {
	call, ctx := b.begin(ctx)
	defer call.end()
	opts := minio.PutObjectOptions{ContentType: mediaType, ContentDisposition: disposition}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, part); errors.Is(err, io.EOF) {
		return call.do(func() error {
			_, err := b.s3.PutObject(ctx, b.name, key, bytes.NewReader(buf.Bytes()), int64(buf.Len()), "", "", opts)
			return err
		})
	} else if err != nil {
		return err
	}
	var id string
	err := call.do(func() (err error) {
		id, err = b.s3.NewMultipartUpload(ctx, b.name, key, opts)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.putParts(ctx, call, key, id, &buf, r); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
		defer cancel()
		return errors.Join(err, b.s3.AbortMultipartUpload(ctx, b.name, key, id))
	}
	return nil
}

// putParts sends buf, which has the first part, and then r, and completes the upload.
func (b *Bucket) putParts(ctx context.Context, call *call, key, id string, buf *bytes.Buffer, r io.Reader) error {
	var parts []minio.CompletePart
	for more := true; more; {
		err := call.do(func() error {
			sent, err := b.s3.PutObjectPart(ctx, b.name, key, id, len(parts)+1, bytes.NewReader(buf.Bytes()), int64(buf.Len()), minio.PutObjectPartOptions{})
			parts = append(parts, minio.CompletePart{PartNumber: sent.PartNumber, ETag: sent.ETag})
			return err
		})
		if err != nil {
			return err
		}
		buf.Reset()
		if _, err = io.CopyN(buf, r, part); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		more = buf.Len() > 0
	}
	return call.do(func() error {
		_, err := b.s3.CompleteMultipartUpload(ctx, b.name, key, id, parts, minio.PutObjectOptions{})
		return err
	})
}

// Open opens a blob. It fails with an error that wraps fs.ErrNotExist when the blob does not exist.
func (b *Bucket) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	call, ctx := b.begin(ctx)
	var body io.ReadCloser
	err := call.do(func() (err error) {
		body, _, _, err = b.s3.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
		return err
	})
	if err != nil {
		call.end()
		return nil, missing(err)
	}
	return &reader{body, call}, nil
}

// missing adds fs.ErrNotExist to an error for a blob that does not exist.
func missing(err error) error {
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// reader reads a blob. Each read has the time of a request.
type reader struct {
	body io.ReadCloser
	call *call
}

func (r *reader) Read(p []byte) (n int, err error) {
	err = r.call.do(func() (err error) {
		n, err = r.body.Read(p)
		return err
	})
	return n, err
}

func (r *reader) Close() error {
	defer r.call.end()
	return r.body.Close()
}

// Delete removes a blob. It does not fail when the blob does not exist.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	call, ctx := b.begin(ctx)
	defer call.end()
	err := call.do(func() error { return b.s3.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}) })
	if errors.Is(missing(err), fs.ErrNotExist) {
		return nil
	}
	return err
}

// URL returns a URL from which anybody can download the blob for that long. It does not check that the blob exists.
func (b *Bucket) URL(ctx context.Context, key string, expires time.Duration) (string, error) {
	call, ctx := b.begin(ctx)
	defer call.end()
	var signed *url.URL
	err := call.do(func() (err error) {
		signed, err = b.s3.PresignedGetObject(ctx, b.name, key, expires, nil)
		return err
	})
	if err != nil {
		return "", err
	}
	return signed.String(), nil
}
