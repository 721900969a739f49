package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/batonrun/baton/runtime/agui"
)

// Attachment is a file that a message refers to. The fields from a message are unverified; those from Open are verified.
type Attachment struct {
	Bucket   string `json:"bucket"`
	Path     string `json:"path"`
	MimeType string `json:"mimeType"`
	Filename string `json:"filename"`
	Size     int64  `json:"size"`
}

// Attachments returns the files that a message refers to in its metadata.attachments.
func Attachments(m *agui.Message) []Attachment {
	var metadata struct {
		Attachments []json.RawMessage `json:"attachments"`
	}
	if m.Metadata == nil || json.Unmarshal(m.Metadata, &metadata) != nil {
		return nil
	}
	var list []Attachment
	for _, raw := range metadata.Attachments {
		var a Attachment
		if json.Unmarshal(raw, &a) == nil && a != (Attachment{}) {
			list = append(list, a)
		}
	}
	return list
}

// MaxTextAttachment limits an attachment that an agent reads as text, in bytes. Guards of the input do not judge longer ones.
const MaxTextAttachment = 1 << 20

// Errors of Run.Attachment.
var (
	ErrNoAttachment       = errors.New("there is no such attachment")
	ErrAttachmentTooLarge = errors.New("the attachment is too large")
)

// Attachment reads a file of the run's user that a message refers to, if it has at most limit bytes, and returns its
// verified description too. It fails with ErrNoAttachment if it does not exist or the host has no attachments, and with
// ErrAttachmentTooLarge.
func (r *Run) Attachment(ctx context.Context, a Attachment, limit int64) (Attachment, []byte, error) {
	opener, ok := r.host.(interface {
		OpenAttachment(ctx context.Context, a Attachment) (Attachment, io.ReadCloser, error)
	})
	if !ok || a.Path == "" {
		return a, nil, ErrNoAttachment
	}
	a, body, err := opener.OpenAttachment(ctx, a)
	if err != nil {
		return a, nil, err
	}
	defer func() { _ = body.Close() }()
	if a.Size > limit {
		return a, nil, ErrAttachmentTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = ErrAttachmentTooLarge
	}
	return a, data, err
}

// OpenResult opens the whole result of a call of a tool in the thread, if it is so large that a file has it and the log has
// only its beginning and its end. Otherwise it fails with ErrNoAttachment. Close the result.
func (r *Run) OpenResult(ctx context.Context, call string) (io.ReadCloser, error) {
	opener, ok := r.host.(interface {
		OpenResult(ctx context.Context, call string) (io.ReadCloser, error)
	})
	if !ok {
		return nil, ErrNoAttachment
	}
	return opener.OpenResult(ctx, call)
}
