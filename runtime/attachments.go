package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/runtime/model"
)

// Attachment is a file that a user has brought for messages: see [model.Attachment].
type Attachment = model.Attachment

// Upload is a file on its way: see [attach.Upload].
type Upload = attach.Upload

// SignedRequest is a request for an attachment by who has a signed URL: see [attach.Signed].
type SignedRequest = attach.Signed

// Blobs keeps the bytes of attachments: see [attach.Blobs].
type Blobs = attach.Blobs

// attachmentURLs is the purpose of the secret that signs attachment URLs.
const attachmentURLs = "attachments"

var errNoAttachments = refuse(KindNotFound, "not_found", "This server takes no attachments")

// attachments returns where attachments are kept.
func (rt *Runtime) attachments() (*attach.Files, error) {
	if rt.cfg.Attachments == nil {
		return nil, errNoAttachments
	}
	return rt.cfg.Attachments, nil
}

// AddAttachment takes a file in for the caller's messages to refer to. It reads the file as it stores it.
func (rt *Runtime) AddAttachment(ctx context.Context, c Caller, up Upload) (Attachment, error) {
	if err := c.check(); err != nil {
		return Attachment{}, err
	}
	files, err := rt.attachments()
	if err != nil {
		return Attachment{}, err
	}
	if err := rt.admits(); err != nil {
		return Attachment{}, err
	}
	a, err := files.Add(ctx, c.Project(), c.User(), up)
	return a, unavailable(err)
}

// AttachmentURL returns where anybody gets an attachment of the caller for a while: an absolute URL, or one of this server
// without scheme and host.
func (rt *Runtime) AttachmentURL(ctx context.Context, c Caller, bucket, path string) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	files, err := rt.attachments()
	if err != nil {
		return "", err
	}
	secret, err := rt.Secret(ctx, attachmentURLs)
	if err != nil {
		return "", err
	}
	url, err := files.URL(ctx, secret, c.Project(), c.User(), bucket, path)
	return url, unavailable(err)
}

// OpenSigned opens an attachment for who has a URL of AttachmentURL.
func (rt *Runtime) OpenSigned(ctx context.Context, req SignedRequest) (Attachment, io.ReadCloser, error) {
	files, err := rt.attachments()
	if err != nil {
		return Attachment{}, nil, err
	}
	secret, err := rt.Secret(ctx, attachmentURLs)
	if err != nil {
		return Attachment{}, nil, err
	}
	a, body, err := files.OpenSigned(ctx, secret, req)
	return a, body, unavailable(err)
}

// CollectAttachments removes attachments that no message refers to any more, or never has for a day, and those that have
// expired. It is meant to be called every few minutes.
func (rt *Runtime) CollectAttachments(ctx context.Context) error {
	if rt.cfg.Attachments == nil {
		return nil
	}
	return rt.cfg.Attachments.Collect(ctx)
}

// atOnce is how long who deletes something waits for the files that go with it.
const atOnce = 5 * time.Second

// dropAttachments is CollectAttachments for what somebody has deleted. What fails, or takes too long, is done again later.
func (rt *Runtime) dropAttachments(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atOnce)
	defer cancel()
	if err := rt.CollectAttachments(ctx); err != nil {
		rt.log.Warn("attachments of what was deleted are still there", "error", err)
	}
}

// ExpireAttachments makes attachments go that came before a time, whoever refers to them: those of a user, or with user ""
// those of the whole project. Their bytes are removed by the next CollectAttachments. It returns how many they are, which
// with dry is all it does.
func (rt *Runtime) ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (int, error) {
	if rt.cfg.Attachments == nil {
		return 0, nil
	}
	return rt.cfg.Attachments.Expire(ctx, project, user, before, dry)
}

// attached finds the attachments that the user's new messages refer to. The request is refused when one of those it is made
// for, which no answer follows in its list, refers to what is not the user's: earlier ones are what a client remembers.
func (s *starting) attached(ctx context.Context, fresh []Message) ([]int64, error) {
	if s.rt.cfg.Attachments == nil {
		return nil, nil
	}
	var paths, now []string
	for i := range fresh {
		if fresh[i].Role == agui.RoleAssistant {
			now = nil
		}
		if fresh[i].Role == agui.RoleUser {
			some := s.pathsOf(&fresh[i].Message)
			paths, now = append(paths, some...), append(now, some...)
		}
	}
	if s.edit.message != nil {
		some := s.pathsOf(s.edit.message)
		paths, now = append(paths, some...), append(now, some...)
	}
	if len(paths) == 0 {
		return nil, nil
	}
	found, err := s.rt.cfg.Attachments.Use(ctx, s.c.Project(), s.c.User(), paths)
	if err != nil {
		return nil, err
	}
	keys, there := make([]int64, len(found)), make(map[string]bool, len(found))
	for i := range found {
		keys[i], there[found[i].Path] = found[i].Key, true
	}
	for _, path := range now {
		if !there[path] {
			return nil, attach.ErrNotFound
		}
	}
	return keys, nil
}

// pathsOf are the paths in the project of what a message refers to. One in another bucket is none of the user's: its path
// is empty.
func (s *starting) pathsOf(m *agui.Message) (paths []string) {
	for _, a := range plugins.Attachments(m) {
		if a.Bucket != "" && a.Bucket != s.c.Project() {
			a.Path = ""
		}
		paths = append(paths, a.Path)
	}
	return paths
}

// checkAttachments refuses malformed attachment references of the request's message with that index.
func checkAttachments(index int, m *agui.Message) error {
	var metadata struct {
		Attachments json.RawMessage `json:"attachments"`
	}
	if m.Metadata == nil || json.Unmarshal(m.Metadata, &metadata) != nil || len(metadata.Attachments) == 0 || string(metadata.Attachments) == "null" {
		return nil
	}
	place := fmt.Sprintf("/messages/%d/metadata/attachments", index)
	var list []json.RawMessage
	if json.Unmarshal(metadata.Attachments, &list) != nil {
		return refuseAt(place, "invalid_message", "metadata.attachments must be an array")
	}
	for i, raw := range list {
		var a plugins.Attachment
		if json.Unmarshal(raw, &a) != nil || a.Path == "" {
			return refuseAt(fmt.Sprintf("%s/%d", place, i), "invalid_message", "An attachment must be an object with a path, as its upload was answered with")
		}
	}
	return nil
}
