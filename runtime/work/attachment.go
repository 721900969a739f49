package work

import (
	"context"
	"errors"
	"io"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/model"
)

var _ plugins.Opener = (*step)(nil)

// OpenAttachment implements [plugins.Opener].
func (s *step) OpenAttachment(ctx context.Context, a plugins.Attachment) (plugins.Attachment, io.ReadCloser, error) {
	open, run := s.l.en.cfg.Attachment, &s.l.run
	if open == nil {
		return a, nil, plugins.ErrNoAttachment
	}
	if err := context.Cause(s.ctx); err != nil {
		return a, nil, err
	}
	bucket := a.Bucket
	if bucket == "" {
		bucket = run.Project
	}
	found, body, err := open(ctx, run.Project, run.User, bucket, a.Path)
	if refusal, refused := errors.AsType[*model.Error](err); refused && refusal.Kind != model.KindUnavailable {
		err = plugins.ErrNoAttachment
	}
	if err != nil {
		return a, nil, err
	}
	a = plugins.Attachment{Bucket: run.Project, Path: found.Path, MimeType: found.Type, Filename: found.Filename, Size: found.Size}
	return a, body, nil
}
