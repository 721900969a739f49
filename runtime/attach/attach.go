// Package attach keeps the files that users attach to their messages: it takes them in, within what a user may have, tells
// their owner where they are, opens them for workers and for who has a signed URL, and removes those that no message
// refers to. What is known of a file stands in the database, its bytes in Blobs. Nothing that a client sends becomes part
// of where they are kept: a path is looked up, and its row tells.
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

	"github.com/batonrun/baton/runtime/model"
)

// Blobs keeps bytes under keys, which are clean relative paths of ASCII. Its methods may be called from several goroutines.
type Blobs interface {
	// Put stores what r holds, whole or not at all; it returns r's error when that fails. A browser that gets the blob by
	// its URL is to be told the media type, and the Content-Disposition.
	Put(ctx context.Context, key, mediaType, disposition string, r io.Reader) error
	// Open opens a blob. It fails with an error that wraps fs.ErrNotExist when there is none.
	Open(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes a blob, if it is there.
	Delete(ctx context.Context, key string) error
	// URL returns where anybody gets a blob for that long, or "" when Baton is to serve it.
	URL(ctx context.Context, key string, expires time.Duration) (string, error)
}

// Config says what is kept where. Records and Blobs must be set; other zero fields mean the default.
type Config struct {
	Records model.Attachments
	Blobs   Blobs
	Log     *slog.Logger

	Size    int64         // bytes of a file, default 20 MiB
	Types   []string      // media types that are taken, or patterns as image/*; default DefaultTypes
	Files   int           // of a user, default 1 000
	Bytes   int64         // of all of a user's files, default 1 GiB
	Uploads int           // of a user at a time, which who takes them in sees to; 0 for no limit
	Expires time.Duration // after which a signed URL is of no use, default 15 min
	Unused  time.Duration // after which a file goes that no message refers to, default 24 h
}

// DefaultTypes are the media types that are taken where nothing else is said.
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

// Files are the attachments of all users. Its methods may be called from several goroutines.
type Files struct {
	cfg Config

	collecting chan struct{}    // has room for the one whose the field below is, as Collect may be slow
	behind     model.Attachment // where the next Collect begins
}

// New returns the attachments that are kept where cfg says.
func New(cfg Config) *Files {
	return &Files{cfg: cfg.withDefaults(), collecting: make(chan struct{}, 1)}
}

// Size is how many bytes a file may have.
func (f *Files) Size() int64 { return f.cfg.Size }

// Quota is how many files a user may have, and how large they may be together.
func (f *Files) Quota() (files int, bytes int64) { return f.cfg.Files, f.cfg.Bytes }

// Used is how many files a user has, and how large they are together. What is on its way counts with the most that may come.
func (f *Files) Used(ctx context.Context, project, user string) (files int, bytes int64, err error) {
	has, err := f.cfg.Records.AttachmentsOf(ctx, project, user)
	return has.Files, has.Bytes, err
}

// Uploads is how many files of a user may come in at a time, 0 for no limit.
func (f *Files) Uploads() int { return f.cfg.Uploads }

// Types are the media types that are taken, or patterns.
func (f *Files) Types() []string { return f.cfg.Types }

// Expires is how long a signed URL is good.
func (f *Files) Expires() time.Duration { return f.cfg.Expires }

// What is refused.
var (
	ErrNotFound = model.Refuse(model.KindNotFound, "attachment_not_found", "There is no such attachment")
	ErrOutside  = model.Refuse(model.KindForbidden, "forbidden", "The path is not below that of your own attachments")
	ErrBucket   = model.Refuse(model.KindInvalid, "invalid_bucket", "bucket must be the project's")
	ErrSigned   = model.Refuse(model.KindForbidden, "invalid_signature", "The URL has expired or was not signed by this server; ask for another")
	ErrAway     = &model.Error{
		Kind: model.KindUnavailable, Code: "unavailable", RetryAfter: 5 * time.Second,
		Detail: "Files can neither be stored nor read now; try again shortly",
	}
	errEmpty = model.Refuse(model.KindInvalid, "empty_file", "The file is empty")
)

// Upload is a file on its way.
type Upload struct {
	Filename string // as the user calls it
	Type     string // as the user calls it; the bytes decide
	Length   int64  // of Body at most, 0 for unknown
	Body     io.Reader
}

// Add takes a file in. It reads Body as it stores it, and fails with Body's error where that fails.
func (f *Files) Add(ctx context.Context, project, user string, up Upload) (model.Attachment, error) {
	body := &source{r: up.Body}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(body, head)
	if n == 0 && errors.Is(err, io.EOF) {
		return model.Attachment{}, errEmpty
	}
	if body.err != nil {
		return model.Attachment{}, body.err
	}
	kind := typeOf(head[:n], up.Type)
	if !admitted(kind, f.cfg.Types) {
		return model.Attachment{}, model.Refuse(model.KindUnsupported, "unsupported_media_type", "Files of type %s are not taken", kind)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return model.Attachment{}, err
	}
	a := model.Attachment{
		Project: project, User: user, Path: Prefix(user) + id.String() + endings[kind],
		Filename: filename(up.Filename), Type: kind, Size: f.cfg.Size, CreatedAt: time.Now(),
	}
	if up.Length > 0 {
		a.Size = min(a.Size, up.Length)
	}
	err = f.cfg.Records.ReserveAttachment(ctx, &a, model.Quota{Files: f.cfg.Files, Bytes: f.cfg.Bytes})
	if errors.Is(err, model.ErrQuota) {
		return a, model.Refuse(model.KindTooLarge, "quota_exceeded",
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
func (f *Files) store(ctx context.Context, a *model.Attachment, body *source) error {
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

// away is ErrAway, for what whoever runs the server has to see to.
func (f *Files) away(what string, a *model.Attachment, err error) error {
	f.cfg.Log.Error(what, "project", a.Project, "path", a.Path, "error", err)
	return ErrAway
}

// atOnce is how long a user waits for what Collect does as well.
const atOnce = 5 * time.Second

// lose gives up a file that did not come to be. What cannot be undone now the next Collect does.
func (f *Files) lose(ctx context.Context, a *model.Attachment) {
	ctx, cancel := context.WithTimeout(ctx, atOnce)
	defer cancel()
	err := f.cfg.Records.LoseAttachments(ctx, a.Key)
	if err == nil {
		_, err = f.remove(ctx, []model.Attachment{*a})
	}
	if err != nil {
		f.cfg.Log.Warn("an attachment that did not arrive is still there", "attachment", a.Key, "error", err)
	}
}

// source is what a client sends. It keeps why it came to no good end.
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
		err = model.Refuse(model.KindTooLarge, "attachment_too_large", "A file may have %d bytes", s.most)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Disposition is the Content-Disposition with which browsers get an attachment.
func Disposition(a *model.Attachment) string {
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
func (f *Files) Find(ctx context.Context, project, user, bucket, path string) (model.Attachment, error) {
	switch {
	case bucket != project:
		return model.Attachment{}, ErrBucket
	case !Inside(user, path):
		return model.Attachment{}, ErrOutside
	}
	a, err := f.cfg.Records.AttachmentByPath(ctx, project, path)
	if err == nil && a.User != user {
		err = ErrNotFound
	}
	return a, model.Gone(err, ErrNotFound)
}

// URL returns where anybody gets a user's own attachment for a while: an absolute URL, or one of Baton itself without scheme
// and host, which it signs with a secret.
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

// Signed is a request for an attachment by who has a signed URL.
type Signed struct{ Method, Bucket, Path, Expires, Signature string }

// OpenSigned opens the attachment of a signed URL.
func (f *Files) OpenSigned(ctx context.Context, secret string, s Signed) (model.Attachment, io.ReadCloser, error) {
	if !valid([]byte(secret), &s, time.Now(), f.cfg.Expires) {
		return model.Attachment{}, nil, ErrSigned
	}
	a, err := f.cfg.Records.AttachmentByPath(ctx, s.Bucket, s.Path)
	if err != nil {
		return a, nil, model.Gone(err, ErrNotFound)
	}
	body, err := f.open(ctx, &a)
	return a, body, err
}

// Open opens a user's own attachment.
func (f *Files) Open(ctx context.Context, project, user, bucket, path string) (model.Attachment, io.ReadCloser, error) {
	a, err := f.Find(ctx, project, user, bucket, path)
	if err != nil {
		return a, nil, err
	}
	body, err := f.open(ctx, &a)
	return a, body, err
}

func (f *Files) open(ctx context.Context, a *model.Attachment) (io.ReadCloser, error) {
	body, err := f.cfg.Blobs.Open(ctx, Key(a.Project, a.User, a.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, f.away("an attachment could not be opened", a, err)
	}
	return &whole{body, f, a, a.Size}, nil
}

// whole is an attachment that is read. One of which bytes are missing, or cannot be read, fails in the end: nobody takes a part of a
// file for all of it.
type whole struct {
	io.ReadCloser
	f    *Files
	a    *model.Attachment
	left int64
}

func (w *whole) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.left -= int64(n)
	switch {
	case err == nil:
	case err != io.EOF: //nolint:errorlint // a reader's end is not wrapped
		err = w.f.away("an attachment could not be read", w.a, err)
	case w.left != 0:
		err = w.f.away("an attachment is not as it was stored", w.a, fmt.Errorf("%d bytes are missing: %w", w.left, io.ErrUnexpectedEOF))
	}
	return n, err
}

// Use returns those of a user's attachments that have one of the paths. None of them goes within Config.Unused.
func (f *Files) Use(ctx context.Context, project, user string, paths []string) ([]model.Attachment, error) {
	return f.cfg.Records.UseAttachments(ctx, project, user, paths)
}

// collected is how many files are removed at once.
const collected = 200

// Collect removes files that no run refers to any more, or never has for Config.Unused, and those that have expired. Those that
// cannot be removed are tried again once all others were: it ends at as many as are removed at once of which none could be, and the
// next goes on behind them.
func (f *Files) Collect(ctx context.Context) error {
	select {
	case f.collecting <- struct{}{}:
	case <-ctx.Done(): // another does it
		return context.Cause(ctx)
	}
	defer func() { <-f.collecting }()
	stuck, why := 0, error(nil)
	for {
		list, err := f.cfg.Records.CollectAttachments(ctx, time.Now().Add(-f.cfg.Unused), &f.behind, collected)
		if err != nil {
			return err
		}
		left, err := f.remove(ctx, list)
		if stuck += left; err != nil && why == nil {
			why = err
		}
		if len(list) < collected {
			f.behind = model.Attachment{}
			break
		}
		if f.behind = list[len(list)-1]; left == len(list) || hopeless(ctx, err) {
			break
		}
	}
	if why != nil {
		why = fmt.Errorf("%d files: %w", stuck, why)
	}
	return why
}

// remove removes the bytes of attachments that are gone, and then what is known of them. It returns how many are left, and why the
// first of them is.
func (f *Files) remove(ctx context.Context, list []model.Attachment) (left int, why error) {
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

// hopeless reports whether what comes behind a failure would take as long and fail, too.
func hopeless(ctx context.Context, err error) bool {
	_, broken := errors.AsType[net.Error](err) // or silent
	return broken || ctx.Err() != nil
}

// Expire makes those of a user's attachments go that came before a time, whoever refers to them, or with user "" those of
// the whole project; Collect removes their bytes. It returns how many they are, which with dry is all it does.
func (f *Files) Expire(ctx context.Context, project, user string, before time.Time, dry bool) (int, error) {
	return f.cfg.Records.ExpireAttachments(ctx, project, user, before, dry)
}
