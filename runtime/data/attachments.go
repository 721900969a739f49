package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Attachment is the metadata of a user's file. A blob store has its bytes.
type Attachment struct {
	Key       int64
	Project   string
	User      string
	Path      string // unique in the project
	Filename  string // the user's name for it
	Type      string // as in image/png, without parameters
	Size      int64
	CreatedAt time.Time
	UsedAt    time.Time // last use
}

// Results is the beginning of the paths of files that are results of tools. They do not count towards a quota.
const Results = "run-results/"

// ResultName returns the part of the path of a result that stands for its call, of 32 characters. It is followed by "-", a UUID and ".txt".
func ResultName(call string) string {
	sum := sha256.Sum256([]byte(call))
	return hex.EncodeToString(sum[:16])
}

// AttachmentUse records that a run's message refers to an attachment, which protects it from removal.
type AttachmentUse struct{ RunKey, Key int64 }

// Quota is the number and size of a user's attachments, or their limits.
type Quota struct {
	Files int
	Bytes int64
}

// Attachments stores the metadata of attachments. storage implements it. An attachment is reserved while its bytes
// arrive, then kept, and used once a run's message refers to it. A gone one is no longer found, and its row stays until
// its bytes are removed.
type Attachments interface {
	// ReserveAttachment adds an attachment whose bytes are arriving, with Size as their upper bound, and sets its Key.
	// It fails with ErrQuota if the user's quota is full; the zero quota is no limit.
	ReserveAttachment(ctx context.Context, a *Attachment, most Quota) error
	// AttachmentsOf returns the number and total size of a user's attachments.
	AttachmentsOf(ctx context.Context, project, user string) (Quota, error)
	// KeepAttachment marks a reserved attachment as complete, with its final size.
	KeepAttachment(ctx context.Context, key, size int64) error
	// LoseAttachments marks attachments as gone.
	LoseAttachments(ctx context.Context, keys ...int64) error
	// AttachmentByPath returns the project's kept or used attachment at a path, or ErrNotFound.
	AttachmentByPath(ctx context.Context, project, path string) (Attachment, error)
	// ResultFiles returns up to limit results that runs of the thread use, of the calls with these ResultNames, the oldest first.
	ResultFiles(ctx context.Context, thread int64, calls []string, limit int) ([]Attachment, error)
	// UseAttachments returns the user's kept or used attachments with one of the paths, and protects them from
	// CollectAttachments for its period.
	UseAttachments(ctx context.Context, project, user string, paths []string) ([]Attachment, error)
	// CollectAttachments marks as gone the attachments without a run and without a use since before, as well as
	// reserved ones that did not arrive. It returns up to limit gone attachments behind one, by last use.
	CollectAttachments(ctx context.Context, before time.Time, behind *Attachment, limit int) ([]Attachment, error)
	// ForgetAttachments deletes the rows of gone attachments, whose bytes are removed.
	ForgetAttachments(ctx context.Context, keys ...int64) error
	// ExpireAttachments marks as gone the attachments created before a time, used or not, of a user, or with user "" of
	// the project. It returns their number; with dry it only counts.
	ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (int, error)
}
