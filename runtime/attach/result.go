package attach

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
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
		Project: project, User: user, Path: resultPrefix(user, thread, call) + id.String() + ".txt",
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

// OpenResult opens the result of a user's tool call. It fails with ErrNotFound unless a file has it.
func (f *Files) OpenResult(ctx context.Context, project, user string, thread int64, call string) (data.Attachment, io.ReadCloser, error) {
	a, err := f.cfg.Records.AttachmentBelow(ctx, project, resultPrefix(user, thread, call))
	if err != nil {
		return a, nil, data.Gone(err, ErrNotFound)
	}
	body, err := f.open(ctx, &a)
	return a, body, err
}

// resultPrefix returns the beginning of the paths of a call's result. What follows tells files of repeated calls apart.
func resultPrefix(user string, thread int64, call string) string {
	sum := sha256.Sum256([]byte(call))
	return data.Results + escape(user) + "/" + strconv.FormatInt(thread, 10) + "-" + hex.EncodeToString(sum[:16]) + "-"
}
