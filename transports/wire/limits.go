package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/rates"
)

// Limits are what a caller may have and ask for, and what is used of it now.
type Limits struct {
	User        Share        `json:"user"`
	Project     Share        `json:"project"` // all its users together
	Server      ServerLimits `json:"server"`
	Sizes       SizeLimits   `json:"sizes"`
	Timeouts    TimeLimits   `json:"timeouts"`
	Run         RunLimits    `json:"run"`
	Attachments *FileLimits  `json:"attachments"` // null when none are taken
}

// Share is what a user or a project has of a server.
type Share struct {
	Requests RateQuota `json:"requests"`
	Streams  Quota     `json:"streams"` // open at a time
	Running  Quota     `json:"running"` // runs executed at once
	Queued   Quota     `json:"queued"`  // runs that wait for their turn
}

// Quota is a limit and what is used of it.
type Quota struct {
	Limit *int `json:"limit"` // null for none
	Used  int  `json:"used"`
}

// RateQuota is how often something may be done.
type RateQuota struct {
	PerSecond *int `json:"perSecond"` // null for no limit
	Burst     *int `json:"burst"`     // that may come at once
	Used      int  `json:"used"`      // of the burst
}

// ServerLimits are those of all projects together. What is used of them is not told: it would tell of other projects.
type ServerLimits struct {
	Running         int `json:"running"` // runs executed at once
	Queued          int `json:"queued"`
	QueuedPerThread int `json:"queuedPerThread"`
}

// SizeLimits are in bytes.
type SizeLimits struct {
	Body     int `json:"body"`     // of a request
	Input    int `json:"input"`    // of one that starts a run
	Messages int `json:"messages"` // the new ones of one run
}

// TimeLimits are in seconds.
type TimeLimits struct {
	Run      int `json:"run"`      // from its start to its end
	Step     int `json:"step"`     // one execution of an agent
	Tool     int `json:"tool"`     // one call
	Approval int `json:"approval"` // what waits for a person
}

// RunLimits are those of one run.
type RunLimits struct {
	Events *int `json:"events"` // between two answers of its client; null for no limit
}

// FileLimits are those of attachments, in bytes.
type FileLimits struct {
	Size  int64 `json:"size"`  // of one
	Files int   `json:"files"` // of a user
	Bytes int64 `json:"bytes"` // of all of a user's

	Used    FilesUsed `json:"used"`    // by the caller
	Uploads *int      `json:"uploads"` // of a user at a time; null for no limit
}

// FilesUsed are a user's attachments.
type FilesUsed struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// NewLimits returns what a caller's standing and a server's rates and sizes come to.
func NewLimits(s *runtime.Standing, cfg rates.Config, user, project rates.Used, sizes SizeLimits) Limits {
	sizes.Messages = s.MessageBytes
	l := Limits{
		User:    share(cfg.User, user, s.Running, s.Queued),
		Project: share(cfg.Project, project, s.RunningOfProject, s.QueuedOfProject),
		Server:  ServerLimits{s.RunningOfAll, s.QueuedOfAll, s.QueuedPerThread},
		Sizes:   sizes,
		Timeouts: TimeLimits{
			Run: seconds(s.RunTimeout), Step: seconds(s.StepTimeout), Tool: seconds(s.ToolTimeout), Approval: seconds(s.ApprovalTimeout),
		},
	}
	if s.RunEvents > 0 {
		l.Run.Events = &s.RunEvents
	}
	if s.Attachments > 0 {
		l.Attachments = &FileLimits{Size: s.AttachmentBytes, Files: s.Attachments, Bytes: s.AttachmentsBytes, Used: FilesUsed{s.AttachmentsUsed, s.AttachmentsBytesUsed}}
		if s.Uploads > 0 {
			l.Attachments.Uploads = &s.Uploads
		}
	}
	return l
}

func share(l rates.Limits, used rates.Used, running, queued runtime.Quota) Share {
	r := RateQuota{Used: used.Requests}
	if l.Requests > 0 {
		r.PerSecond, r.Burst = &l.Requests, new(max(l.Requests, l.Burst))
	}
	return Share{Requests: r, Streams: quota(runtime.Quota{Limit: l.Streams, Used: used.Streams}), Running: quota(running), Queued: quota(queued)}
}

func quota(q runtime.Quota) Quota {
	if q.Limit <= 0 {
		return Quota{Used: q.Used}
	}
	return Quota{&q.Limit, q.Used}
}

func seconds(d time.Duration) int { return int(d / time.Second) }
