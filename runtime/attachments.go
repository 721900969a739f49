package runtime

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/secrets"
)

// Attachment is a file that a user uploaded for messages: see [data.Attachment].
type Attachment = data.Attachment

// Upload is a file that is being uploaded: see [attach.Upload].
type Upload = attach.Upload

// SignedRequest is a request for an attachment with a signed URL: see [attach.Signed].
type SignedRequest = attach.Signed

// Blobs stores the bytes of attachments: see [attach.Blobs].
type Blobs = attach.Blobs

// attachmentURLs is the purpose of the secret that signs attachment URLs.
const attachmentURLs = "attachments"

var errNoAttachments = refuse(KindNotFound, "not_found", "This server takes no attachments")

// Uploads has the files that users attach to messages, and large results.
type Uploads struct {
	files   *attach.Files  // nil when users cannot attach files
	secrets *secrets.Cache // sign the URLs
	member  *Member
	runs    *Runs
	log     *slog.Logger
}

// attachments returns the attachment store, or an error if this server has none.
func (ul *Uploads) attachments() (*attach.Files, error) {
	if ul.files == nil {
		return nil, errNoAttachments
	}
	return ul.files, nil
}

// Add stores a file that the caller's messages can refer to. It reads the file while it stores it.
func (ul *Uploads) Add(ctx context.Context, c Caller, up Upload) (Attachment, error) {
	if err := ul.member.admits(c); err != nil {
		return Attachment{}, err
	}
	files, err := ul.attachments()
	if err != nil {
		return Attachment{}, err
	}
	a, err := files.Add(ctx, c.Project(), c.User(), up)
	return a, unavailable(err)
}

// URL returns a URL under which anyone can read an attachment of the caller for a limited time: an absolute
// URL, or one of this server without scheme and host.
func (ul *Uploads) URL(ctx context.Context, c Caller, bucket, path string) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	files, err := ul.attachments()
	if err != nil {
		return "", err
	}
	secret, err := ul.secrets.Secret(ctx, attachmentURLs)
	if err != nil {
		return "", err
	}
	url, err := files.URL(ctx, secret, c.Project(), c.User(), bucket, path)
	return url, unavailable(err)
}

// OpenSigned opens an attachment for a request with one of URL.
func (ul *Uploads) OpenSigned(ctx context.Context, req SignedRequest) (Attachment, io.ReadCloser, error) {
	files, err := ul.attachments()
	if err != nil {
		return Attachment{}, nil, err
	}
	secret, err := ul.secrets.Secret(ctx, attachmentURLs)
	if err != nil {
		return Attachment{}, nil, err
	}
	a, body, err := files.OpenSigned(ctx, secret, req)
	return a, body, unavailable(err)
}

// OpenResult opens the result of a tool call of a run that the caller may see, if it is so large that a file has it.
func (ul *Uploads) OpenResult(ctx context.Context, c Caller, run, call string) (Attachment, io.ReadCloser, error) {
	r, err := ul.runs.visible(ctx, c, run)
	if err != nil {
		return Attachment{}, nil, err
	}
	files, err := ul.attachments()
	if err != nil {
		return Attachment{}, nil, err
	}
	a, body, err := files.OpenResult(ctx, r.ThreadKey, call)
	return a, body, unavailable(err)
}

// Collect removes attachments that no message refers to any more, attachments that no message has referred
// to for a day after the upload, and expired attachments. Call it every few minutes.
func (ul *Uploads) Collect(ctx context.Context) error {
	if ul.files == nil {
		return nil
	}
	return ul.files.Collect(ctx)
}

// atOnce is how long a deletion waits for the removal of its files.
const atOnce = 5 * time.Second

// drop runs Collect after a deletion. A later collection repeats the removals that fail or take
// too long.
func (ul *Uploads) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atOnce)
	defer cancel()
	if err := ul.Collect(ctx); err != nil {
		ul.log.Warn("attachments of what was deleted are still there", "error", err)
	}
}

// Expire expires the attachments that were uploaded before a time, even if messages refer to them: those
// of one user, or with user "" those of the whole project. The next Collect removes their bytes. It
// returns the number of attachments; with dry it only counts them.
func (ul *Uploads) Expire(ctx context.Context, project, user string, before time.Time, dry bool) (int, error) {
	if ul.files == nil {
		return 0, nil
	}
	return ul.files.Expire(ctx, project, user, before, dry)
}

// attach finds the attachments that the user's new messages refer to. It refuses the request if a message behind
// the last assistant message of its list, or an edited message, refers to a file that the user does not have. Earlier
// messages may refer to missing files, because they are the client's memory of the thread.
func (s *starting) attach(ctx context.Context) error {
	if s.rt.cfg.Attachments == nil {
		return nil
	}
	var paths []string
	now := 0 // where the paths begin that the user must have
	for i := range s.plan.Taken {
		switch m := &s.plan.Taken[i]; m.Role {
		case agui.RoleAssistant:
			now = len(paths)
		case agui.RoleUser:
			paths = append(paths, s.pathsOf(&m.Message)...)
		}
	}
	if m := s.plan.Edited; m != nil {
		paths = append(paths, s.pathsOf(m)...)
	}
	if len(paths) == 0 {
		return nil
	}
	found, err := s.rt.cfg.Attachments.Use(ctx, s.c.Project(), s.c.User(), paths)
	there := make(map[string]bool, len(found))
	for i := range found {
		s.attached, there[found[i].Path] = append(s.attached, found[i].Key), true
	}
	if err == nil && slices.ContainsFunc(paths[now:], func(path string) bool { return !there[path] }) {
		err = attach.ErrNotFound
	}
	return err
}

// pathsOf returns the paths in the project that a message refers to. A reference to another bucket is never the
// user's; it yields an empty path.
func (s *starting) pathsOf(m *agui.Message) (paths []string) {
	for _, a := range plugins.Attachments(m) {
		if a.Bucket != "" && a.Bucket != s.c.Project() {
			a.Path = ""
		}
		paths = append(paths, a.Path)
	}
	return paths
}
