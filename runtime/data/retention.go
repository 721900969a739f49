package data

import (
	"context"
	"time"
)

// Retainer finds data that is older than its retention.
type Retainer interface {
	// Projects returns the sorted projects that have runs, attachments or audit rows.
	Projects(ctx context.Context) ([]string, error)
	// EndedRuns returns up to limit of a project's runs behind after that were created before a time, by time and key.
	EndedRuns(ctx context.Context, project string, before time.Time, after EndedRun, limit int) ([]EndedRun, error)
	// EventsOf returns the number and size of the events of up to 1000 runs, by run key. Runs without events are missing.
	EventsOf(ctx context.Context, runKeys []int64) (map[int64]EventsSize, error)
	// ForgetAudit deletes a project's audit rows before a time and returns their number; with dry it only counts.
	ForgetAudit(ctx context.Context, project string, before time.Time, dry bool) (int, error)
	// ExpireAttachments is the method of Attachments.
	ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (int, error)
}

// EventsSize is the number of a run's events and their approximate stored size.
type EventsSize struct {
	Events int
	Bytes  int64
}

// EndedRun is a candidate for removal.
type EndedRun struct {
	Key, Thread int64
	CreatedAt   time.Time
	FinishedAt  *time.Time // nil if the run had not ended by the time in question
	Events      bool       // it has events
}
