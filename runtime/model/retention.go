package model

import (
	"context"
	"time"
)

// Retainer finds what has been kept long enough.
type Retainer interface {
	// Projects returns the projects that have runs, attachments or an audit, in order.
	Projects(ctx context.Context) ([]string, error)
	// EndedRuns returns up to limit of a project's runs that were created before a time, by that and by key, those behind a run.
	EndedRuns(ctx context.Context, project string, before time.Time, after EndedRun, limit int) ([]EndedRun, error)
	// EventsOf returns how many events a run has, and about how large they are as they are kept.
	EventsOf(ctx context.Context, runKey int64) (n int, size int64, err error)
	// ForgetAudit removes what the audit of a project tells of before a time, and returns how much that is, which with dry is
	// all it does.
	ForgetAudit(ctx context.Context, project string, before time.Time, dry bool) (int, error)
	// ExpireAttachments is that of Attachments.
	ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (int, error)
}

// EndedRun is a run that may have been kept long enough.
type EndedRun struct {
	Key, Thread int64
	CreatedAt   time.Time
	FinishedAt  *time.Time // nil unless it has ended before the time that was asked for
	Events      bool       // it has some
}
