package attach

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/data"
)

// MaxResult is the size limit of a tool's result in a file, in bytes.
const MaxResult = 64 << 20

// ErrResultTooLarge refuses a larger result.
var ErrResultTooLarge = data.Refuse(data.KindTooLarge, "result_too_large", "A result may have %d bytes", MaxResult)

// AddResult stores the result of a tool call outside the user's quota, and returns its key. Collect removes the file unless
// an AttachmentUse with this key is stored: then it is there as long as that run.
func (f *Files) AddResult(ctx context.Context, project, user string, thread int64, call, text string) (int64, error) {
	if len(text) > MaxResult {
		return 0, ErrResultTooLarge
	}
	id, err := uuid.NewV7()
	if err != nil {
		return 0, err
	}
	a := data.Attachment{
		Project: project, User: user, Path: fmt.Sprintf("%s%s/%d-%s-%s.txt", data.Results, escape(user), thread, data.ResultName(call), id),
		Filename: "result.txt", Type: "text/plain", Size: int64(len(text)), CreatedAt: time.Now(),
	}
	if err := f.cfg.Records.ReserveAttachment(ctx, &a, data.Quota{}); err != nil {
		return 0, err
	}
	if err := f.store(ctx, &a, &source{r: strings.NewReader(text)}); err != nil {
		f.lose(context.WithoutCancel(ctx), &a)
		return 0, err
	}
	return a.Key, nil
}

// OpenResult opens the result of a call that a run of the thread has made or copied. It fails with ErrNotFound unless a file has it.
func (f *Files) OpenResult(ctx context.Context, thread int64, call string) (data.Attachment, io.ReadCloser, error) {
	found, err := f.cfg.Records.ResultFiles(ctx, thread, []string{data.ResultName(call)}, 1)
	if err != nil || len(found) == 0 {
		return data.Attachment{}, nil, cmp.Or(err, error(ErrNotFound))
	}
	body, err := f.open(ctx, &found[0])
	return found[0], body, err
}

// maxCopied limits the results that a run copies at once.
const maxCopied = 10_000

// ResultsOf returns the keys of the files with the results of a thread's calls.
func (f *Files) ResultsOf(ctx context.Context, thread int64, calls []string) (keys []int64, err error) {
	names := make([]string, len(calls))
	for i, call := range calls {
		names[i] = data.ResultName(call)
	}
	found, err := f.cfg.Records.ResultFiles(ctx, thread, names, maxCopied)
	for i := range found {
		keys = append(keys, found[i].Key)
	}
	return keys, err
}
