package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// A result of more than loggedResult bytes is a file; the log has shownResult bytes of it.
const (
	loggedResult = 1 << 20
	shownResult  = 64 << 10
)

// file stores a large result as a file and leaves its beginning and its end in out. It returns the row that is stored with
// the result, nil if out is unchanged. A result that cannot be stored becomes a failure.
func (c *toolCall) file(out *agui.ToolOutput) ([]data.Row, error) {
	l := c.s.l
	results := l.cfg.Results
	if results == nil || len(out.ResultSummary) <= loggedResult {
		return nil, nil
	}
	key, err := commit.RetryUnavailable(c.s.w.Ctx, func() (int64, error) {
		return results.AddResult(c.s.w.Ctx, l.run.Project, l.run.User, l.run.ThreadKey, c.m.CallID, out.ResultSummary)
	})
	if cause := context.Cause(c.s.w.Ctx); cause != nil {
		return nil, cause
	}
	if refused, ok := errors.AsType[*data.Error](err); ok {
		*out = failure(refused.Code, "The result cannot be stored: "+refused.Detail)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if out.Error != nil { // it may repeat the result
		e := *out.Error
		e.Message = data.Clip(e.Message, maxText)
		out.Error = &e
	}
	text := out.ResultSummary
	head, tail := text[:shownResult/4*3], text[len(text)-shownResult/4:]
	out.ResultSummary = fmt.Sprintf("[The result has %d bytes: GET /api/projects/%s/agent-runs/%s/results/%s. These are its beginning and its end.]\n%s\n[%d bytes left out]\n%s",
		len(text), url.PathEscape(l.run.Project), url.PathEscape(l.run.ID), url.PathEscape(c.m.CallID),
		strings.ToValidUTF8(head, ""), len(text)-len(head)-len(tail), strings.ToValidUTF8(tail, ""))
	return []data.Row{&data.AttachmentUse{RunKey: l.run.Key, Key: key}}, nil
}

// resultPath finds the path that file leaves in a result.
var resultPath = regexp.MustCompile(`(\[The result has \d+ bytes: GET /api/projects/[^/ ]+/agent-runs/)[^/ ]+(/results/([^/ ]+)\. )`)

// MoveResults returns a copied text or JSON with the paths of results that are files below another run, and the ids of their calls.
func MoveResults[T ~string | ~[]byte](text T, run string) (moved T, calls []string) {
	for _, found := range resultPath.FindAllSubmatch([]byte(text), -1) {
		if call, err := url.PathUnescape(string(found[3])); err == nil {
			calls = append(calls, call)
		}
	}
	if calls == nil {
		return text, nil
	}
	return T(resultPath.ReplaceAll([]byte(text), []byte("${1}"+url.PathEscape(run)+"${2}"))), calls
}

// OpenResult implements [host.ResultOpener].
func (s *step) OpenResult(ctx context.Context, call string) (io.ReadCloser, error) {
	results := s.l.cfg.Results
	if results == nil {
		return nil, plugins.ErrNoAttachment
	}
	_, body, err := results.OpenResult(ctx, s.l.run.ThreadKey, call)
	if err != nil {
		return nil, shown(err)
	}
	return attached{body}, nil
}

// OpenAttachment implements [host.AttachmentOpener].
func (s *step) OpenAttachment(ctx context.Context, a plugins.Attachment) (plugins.Attachment, io.ReadCloser, error) {
	open, run := s.l.cfg.Attachment, s.l.run
	if open == nil {
		return a, nil, plugins.ErrNoAttachment
	}
	if err := context.Cause(s.w.Ctx); err != nil {
		return a, nil, err
	}
	found, body, err := open(ctx, run.Project, run.User, cmp.Or(a.Bucket, run.Project), a.Path)
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

// shown returns err for the worker. If the storage is unavailable, the error says so to clients: the agent is not at fault.
func shown(err error) error {
	refusal, refused := errors.AsType[*data.Error](err)
	switch {
	case !refused:
		return err
	case refusal.Kind == data.KindUnavailable:
		return &plugins.Error{Code: "attachment_unavailable", Message: "An attachment cannot be read now; try again shortly", Retryable: true}
	}
	return plugins.ErrNoAttachment
}
