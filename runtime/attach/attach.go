// Package attach stores users' files for their messages. It receives them within a quota, returns their URLs, opens
// them for workers and for holders of signed URLs, and removes unreferenced ones. A database has the metadata and Blobs
// the bytes. A key never contains client input unescaped: opening a path looks up its row.
package attach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/janitor"
)

// Blobs stores bytes under keys, which are clean relative ASCII paths. It is safe for concurrent use.
type Blobs interface {
	// Put stores all of r, or nothing if r fails, and returns r's error. URLs of the blob serve it with the media type
	// and Content-Disposition.
	Put(ctx context.Context, key, mediaType, disposition string, r io.Reader) error
	// Open opens a blob. For a missing blob it fails with an error that wraps fs.ErrNotExist.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes a blob if it exists.
	Delete(ctx context.Context, key string) error
	// URL returns a public address of the blob that is valid for expires, or "" if Baton has to serve it.
	URL(ctx context.Context, key string, expires time.Duration) (string, error)
}

// Config configures Files. Records and Blobs are required; other zero fields mean the default.
type Config struct {
	Records data.Attachments
	Blobs   Blobs
	Log     *slog.Logger

	Size    int64         // bytes of a file, default 20 MiB
	Types   []string      // accepted media types, or patterns such as image/*; default DefaultTypes
	Files   int           // files of a user, default 1 000
	Bytes   int64         // of all of a user's files, default 1 GiB
	Uploads int           // concurrent uploads of a user, enforced by the caller; 0 for no limit
	Expires time.Duration // validity of a signed URL, default 15 min
	Unused  time.Duration // age at which an unreferenced file is removed, default 24 h
}

// DefaultTypes returns the media types that are accepted by default.
func DefaultTypes() []string {
	return []string{
		"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf",
		"text/plain", "text/csv", "text/markdown", "application/json",
	}
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Size = cmp.Or(c.Size, 20<<20)
	if len(c.Types) == 0 {
		c.Types = DefaultTypes()
	}
	c.Files = cmp.Or(c.Files, 1000)
	c.Bytes = cmp.Or(c.Bytes, 1<<30)
	c.Expires = cmp.Or(c.Expires, 15*time.Minute)
	c.Unused = cmp.Or(c.Unused, 24*time.Hour)
	return c
}

// Files has the attachments of all users. It is safe for concurrent use.
type Files struct {
	cfg Config

	collecting chan struct{}   // semaphore of one for behind, as Collect may be slow
	behind     data.Attachment // start of the next Collect
}

// New returns the attachments in cfg's stores.
func New(cfg Config) *Files {
	return &Files{cfg: cfg.withDefaults(), collecting: make(chan struct{}, 1)}
}

// Size returns the size limit of a file.
func (f *Files) Size() int64 { return f.cfg.Size }

// Quota returns the limits of a user's files.
func (f *Files) Quota() (files int, bytes int64) { return f.cfg.Files, f.cfg.Bytes }

// Used returns the number and total size of a user's files. A file that is arriving counts with its maximal size.
func (f *Files) Used(ctx context.Context, project, user string) (files int, bytes int64, err error) {
	has, err := f.cfg.Records.AttachmentsOf(ctx, project, user)
	return has.Files, has.Bytes, err
}

// Uploads returns the limit of a user's concurrent uploads, 0 for none.
func (f *Files) Uploads() int { return f.cfg.Uploads }

// Types returns the accepted media types or patterns.
func (f *Files) Types() []string { return f.cfg.Types }

// Expires returns the validity of a signed URL.
func (f *Files) Expires() time.Duration { return f.cfg.Expires }

// Refusals.
var (
	ErrNotFound = data.Refuse(data.KindNotFound, "attachment_not_found", "There is no such attachment")
	ErrOutside  = data.Refuse(data.KindForbidden, "forbidden", "The path is not below that of your own attachments")
	ErrBucket   = data.Refuse(data.KindInvalid, "invalid_bucket", "bucket must be the project's")
	ErrSigned   = data.Refuse(data.KindForbidden, "invalid_signature", "The URL has expired or was not signed by this server; ask for another")
	ErrAway     = &data.Error{
		Kind: data.KindUnavailable, Code: "unavailable", RetryAfter: 5 * time.Second,
		Detail: "Files can neither be stored nor read now; try again shortly",
	}
	errEmpty = data.Refuse(data.KindInvalid, "empty_file", "The file is empty")
)

// Upload is an incoming file.
type Upload struct {
	Filename string // the user's name for it
	Type     string // the user's claim; the bytes decide
	Length   int64  // upper bound of Body's length, 0 if unknown
	Body     io.Reader
}

// Add stores a file from its Body, and fails with Body's error if that fails.
func (f *Files) Add(ctx context.Context, project, user string, up Upload) (data.Attachment, error) {
	body := &source{r: up.Body}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(body, head)
	if n == 0 && errors.Is(err, io.EOF) {
		return data.Attachment{}, errEmpty
	}
	if body.err != nil {
		return data.Attachment{}, body.err
	}
	kind := typeOf(head[:n], up.Type)
	if !admitted(kind, f.cfg.Types) {
		return data.Attachment{}, data.Refuse(data.KindUnsupported, "unsupported_media_type", "Files of type %s are not taken", kind)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return data.Attachment{}, err
	}
	a := data.Attachment{
		Project: project, User: user, Path: Prefix(user) + id.String() + endings[kind],
		Filename: filename(up.Filename), Type: kind, Size: f.cfg.Size, CreatedAt: time.Now(),
	}
	if up.Length > 0 {
		a.Size = min(a.Size, up.Length)
	}
	err = f.cfg.Records.ReserveAttachment(ctx, &a, data.Quota{Files: f.cfg.Files, Bytes: f.cfg.Bytes})
	if errors.Is(err, data.ErrQuota) {
		return a, data.Refuse(data.KindTooLarge, "quota_exceeded",
			"Your attachments may be %d files of %d bytes together; delete threads that you need no more", f.cfg.Files, f.cfg.Bytes)
	}
	if err != nil {
		return a, err
	}
	body.r = io.MultiReader(bytes.NewReader(head[:n]), up.Body)
	body.n, body.most = 0, f.cfg.Size
	if err := f.store(ctx, &a, body); err != nil {
		f.lose(context.WithoutCancel(ctx), &a)
		return a, err
	}
	return a, nil
}

// store stores the bytes of a reserved attachment.
func (f *Files) store(ctx context.Context, a *data.Attachment, body *source) error {
	err := f.cfg.Blobs.Put(ctx, Key(a.Project, a.User, a.Path), a.Type, Disposition(a), body)
	switch {
	case body.err != nil:
		return body.err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return f.away("an attachment could not be stored", a, err)
	}
	a.Size = body.n
	return f.cfg.Records.KeepAttachment(ctx, a.Key, a.Size)
}

// away logs err and returns ErrAway.
func (f *Files) away(what string, a *data.Attachment, err error) error {
	f.cfg.Log.Error(what, "project", a.Project, "path", a.Path, "error", err)
	return ErrAway
}

// atOnce limits cleanup during a request. Collect repeats it if necessary.
const atOnce = 5 * time.Second

// lose gives up a file that could not be stored. Collect repeats the cleanup if it fails here.
func (f *Files) lose(ctx context.Context, a *data.Attachment) {
	ctx, cancel := context.WithTimeout(ctx, atOnce)
	defer cancel()
	err := f.cfg.Records.LoseAttachments(ctx, a.Key)
	if err == nil {
		_, err = f.remove(ctx, []data.Attachment{*a})
	}
	if err != nil {
		f.cfg.Log.Warn("an attachment that did not arrive is still there", "attachment", a.Key, "error", err)
	}
}

// source reads a client's upload and remembers its error.
type source struct {
	r    io.Reader
	most int64 // 0 for no limit
	n    int64
	err  error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.n += int64(n)
	if s.most > 0 && s.n > s.most {
		err = data.Refuse(data.KindTooLarge, "attachment_too_large", "A file may have %d bytes", s.most)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Disposition returns the Content-Disposition header of an attachment.
func Disposition(a *data.Attachment) string {
	how := "attachment"
	if Shown(a.Type) {
		how = "inline"
	}
	if value := mime.FormatMediaType(how, map[string]string{"filename": a.Filename}); value != "" {
		return value
	}
	return how
}

// Find returns a user's own attachment.
func (f *Files) Find(ctx context.Context, project, user, bucket, path string) (data.Attachment, error) {
	switch {
	case bucket != project:
		return data.Attachment{}, ErrBucket
	case !Inside(user, path):
		return data.Attachment{}, ErrOutside
	}
	a, err := f.cfg.Records.AttachmentByPath(ctx, project, path)
	if err == nil && a.User != user {
		err = ErrNotFound
	}
	return a, data.Gone(err, ErrNotFound)
}

// URL returns an address of a user's own attachment that anyone can use for a while: an absolute URL, or a path of
// Baton signed with secret.
func (f *Files) URL(ctx context.Context, secret, project, user, bucket, path string) (string, error) {
	a, err := f.Find(ctx, project, user, bucket, path)
	if err != nil {
		return "", err
	}
	url, err := f.cfg.Blobs.URL(ctx, Key(a.Project, a.User, a.Path), f.cfg.Expires)
	if err != nil || url != "" {
		return url, err
	}
	return signed([]byte(secret), project, path, time.Now().Add(f.cfg.Expires)), nil
}

// Signed is a request with a signed URL.
type Signed struct{ Method, Bucket, Path, Expires, Signature string }

// OpenSigned opens the attachment of a signed URL.
func (f *Files) OpenSigned(ctx context.Context, secret string, s Signed) (data.Attachment, io.ReadCloser, error) {
	if !valid([]byte(secret), &s, time.Now(), f.cfg.Expires) {
		return data.Attachment{}, nil, ErrSigned
	}
	a, err := f.cfg.Records.AttachmentByPath(ctx, s.Bucket, s.Path)
	if err != nil {
		return a, nil, data.Gone(err, ErrNotFound)
	}
	body, err := f.open(ctx, &a)
	return a, body, err
}

// Open opens a user's own attachment.
func (f *Files) Open(ctx context.Context, project, user, bucket, path string) (data.Attachment, io.ReadCloser, error) {
	a, err := f.Find(ctx, project, user, bucket, path)
	if err != nil {
		return a, nil, err
	}
	body, err := f.open(ctx, &a)
	return a, body, err
}

func (f *Files) open(ctx context.Context, a *data.Attachment) (io.ReadCloser, error) {
	body, err := f.cfg.Blobs.Open(ctx, Key(a.Project, a.User, a.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, f.away("an attachment could not be opened", a, err)
	}
	return &whole{body, f, a, a.Size}, nil
}

// whole reads an attachment and fails at its end if bytes are missing, so that no part passes for the whole file.
type whole struct {
	io.ReadCloser
	f    *Files
	a    *data.Attachment
	left int64
}

func (w *whole) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.left -= int64(n)
	switch {
	case err == nil:
	case err != io.EOF: //nolint:errorlint
		err = w.f.away("an attachment could not be read", w.a, err)
	case w.left != 0:
		err = w.f.away("an attachment is not as it was stored", w.a, fmt.Errorf("%d bytes are missing: %w", w.left, io.ErrUnexpectedEOF))
	}
	return n, err
}

// Use returns the user's attachments with these paths, and protects them from Collect for Config.Unused.
func (f *Files) Use(ctx context.Context, project, user string, paths []string) ([]data.Attachment, error) {
	return f.cfg.Records.UseAttachments(ctx, project, user, paths)
}

// collected is the batch size of Collect.
const collected = 200

// Collect removes expired files and files that no run has referred to for Config.Unused. It ends after a batch of which
// it could remove none, and the next Collect continues behind that batch, so failed files are tried again after all
// others.
func (f *Files) Collect(ctx context.Context) error {
	stuck, why := 0, error(nil)
	for more := true; more; {
		var left int
		var kept, err error
		if left, more, kept, err = f.collect(ctx); err != nil {
			return err
		}
		if stuck += left; why == nil {
			why = kept
		}
		if err := janitor.Yield(ctx); more && err != nil {
			return err
		}
	}
	if why != nil {
		why = fmt.Errorf("%d files: %w", stuck, why)
	}
	return why
}

// collect removes the next files. It returns how many of them are left and why, and whether to go on.
func (f *Files) collect(ctx context.Context) (left int, more bool, why, err error) {
	select {
	case f.collecting <- struct{}{}:
	case <-ctx.Done(): // another call is collecting
		return 0, false, nil, context.Cause(ctx)
	}
	defer func() { <-f.collecting }()
	list, err := f.cfg.Records.CollectAttachments(ctx, time.Now().Add(-f.cfg.Unused), &f.behind, collected)
	if err != nil {
		return 0, false, nil, err
	}
	left, why = f.remove(ctx, list)
	if len(list) < collected {
		f.behind = data.Attachment{}
		return left, false, why, nil
	}
	f.behind = list[len(list)-1]
	return left, left < len(list) && !hopeless(ctx, why), why, nil
}

// remove removes the bytes of deleted attachments, and then their rows. It returns the number of remaining attachments
// and the first error.
func (f *Files) remove(ctx context.Context, list []data.Attachment) (left int, why error) {
	var keys []int64
	for _, a := range list {
		err := f.cfg.Blobs.Delete(ctx, Key(a.Project, a.User, a.Path))
		if err == nil {
			keys = append(keys, a.Key)
			continue
		}
		if why == nil {
			why = err
		}
		if hopeless(ctx, err) {
			break
		}
	}
	left = len(list) - len(keys)
	if len(keys) > 0 {
		if err := f.cfg.Records.ForgetAttachments(context.WithoutCancel(ctx), keys...); err != nil {
			return len(list), err
		}
	}
	return left, why
}

// hopeless reports whether removals after err would also fail slowly.
func hopeless(ctx context.Context, err error) bool {
	_, broken := errors.AsType[net.Error](err) // or does not answer
	return broken || ctx.Err() != nil
}

// Expire deletes attachments created before a time, even if runs refer to them: those of a user, or with user "" of the
// whole project. Collect removes their bytes. It returns their number; with dry it only counts.
func (f *Files) Expire(ctx context.Context, project, user string, before time.Time, dry bool) (int, error) {
	return f.cfg.Records.ExpireAttachments(ctx, project, user, before, dry)
}
