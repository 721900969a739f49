package plugintest

import (
	"bytes"
	"context"
	"io"

	"github.com/batonrun/baton/plugins"
)

func (h *host) OpenAttachment(ctx context.Context, a plugins.Attachment) (plugins.Attachment, io.ReadCloser, error) {
	if err := context.Cause(ctx); err != nil {
		return a, nil, err
	}
	file, ok := h.s.cfg.Attachments[a.Path]
	if !ok {
		return a, nil, plugins.ErrNoAttachment
	}
	a.Filename, a.MimeType, a.Size = file.Filename, file.MimeType, int64(len(file.Data))
	return a, io.NopCloser(bytes.NewReader(file.Data)), nil
}
