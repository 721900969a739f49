package exec

import (
	"context"
	"errors"
	"io"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
)

var _ host.AttachmentOpener = (*step)(nil)

// OpenAttachment implements [host.AttachmentOpener].
func (s *step) OpenAttachment(ctx context.Context, a plugins.Attachment) (plugins.Attachment, io.ReadCloser, error) {
	open, run := s.l.cfg.Attachment, &s.l.run
	if open == nil {
		return a, nil, plugins.ErrNoAttachment
	}
	if err := context.Cause(s.w.Ctx); err != nil {
		return a, nil, err
	}
	bucket := a.Bucket
	if bucket == "" {
		bucket = run.Project
	}
	found, body, err := open(ctx, run.Project, run.User, bucket, a.Path)
	if refusal, refused := errors.AsType[*data.Error](err); refused && refusal.Kind != data.KindUnavailable {
		err = plugins.ErrNoAttachment
	}
	if err != nil {
		return a, nil, shown(err)
	}
	a = plugins.Attachment{Bucket: run.Project, Path: found.Path, MimeType: found.Type, Filename: found.Filename, Size: found.Size}
	return a, attached{body}, nil
}

// attached is the content of an attachment as a worker reads it.
type attached struct{ io.ReadCloser }

func (b attached) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, shown(err)
}

// shown returns err for the run that fails with it. If the storage is unavailable, the error says so to clients: the agent
// is not at fault.
func shown(err error) error {
	if refusal, ok := errors.AsType[*data.Error](err); ok && refusal.Kind == data.KindUnavailable {
		return &plugins.Error{Code: "attachment_unavailable", Message: "An attachment cannot be read now; try again shortly", Retryable: true}
	}
	return err
}
