package model

import (
	"context"
	"time"
)

// Attachment is a file that a user has brought for messages. Its bytes are kept elsewhere.
type Attachment struct {
	Key       int64
	Project   string
	User      string
	Path      string // in the project; unique there
	Filename  string // as the user calls it
	Type      string // as in image/png, without parameters
	Size      int64
	CreatedAt time.Time
	UsedAt    time.Time // when somebody has asked for it last
}

// AttachmentUse notes that a message of a run refers to an attachment: it stays as long as such a run does.
type AttachmentUse struct{ RunKey, Key int64 }

// Quota is what a user's attachments amount to, or may.
type Quota struct {
	Files int
	Bytes int64
}

// Attachments keeps what is known of attachments. storage implements it. An attachment is reserved while its bytes arrive,
// then kept, and used once the message of a run refers to it; one that is gone is in nobody's reach, and there until
// its bytes have been removed.
type Attachments interface {
	// ReserveAttachment notes an attachment whose bytes arrive, of which Size is what they come to at most, and sets its Key.
	// It fails with ErrQuota when the user has too many already.
	ReserveAttachment(ctx context.Context, a *Attachment, most Quota) error
	// AttachmentsOf returns how many attachments of a user there are, and what they come to.
	AttachmentsOf(ctx context.Context, project, user string) (Quota, error)
	// KeepAttachment notes that the bytes of a reserved attachment are there, and how many they are.
	KeepAttachment(ctx context.Context, key, size int64) error
	// LoseAttachments makes attachments gone.
	LoseAttachments(ctx context.Context, keys ...int64) error
	// AttachmentByPath returns the project's attachment of that path, ErrNotFound unless it is kept or used.
	AttachmentByPath(ctx context.Context, project, path string) (Attachment, error)
	// UseAttachments returns those of the user's attachments that have one of the paths and are kept or used. For as long as
	// CollectAttachments is given they are not collected.
	UseAttachments(ctx context.Context, project, user string, paths []string) ([]Attachment, error)
	// CollectAttachments makes gone what no run refers to and nobody has asked for since before, as well as what was reserved
	// and did not come, and returns up to limit of those that are gone, behind one in the order in which they were asked for.
	CollectAttachments(ctx context.Context, before time.Time, behind *Attachment, limit int) ([]Attachment, error)
	// ForgetAttachments removes those that are gone, once their bytes have been removed.
	ForgetAttachments(ctx context.Context, keys ...int64) error
	// ExpireAttachments makes gone those that were brought before a time, used or not, of a user or with user "" of the whole
	// project. It returns how many they are, which with dry is all it does.
	ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (int, error)
}
