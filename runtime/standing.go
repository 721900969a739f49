package runtime

import (
	"context"
	"time"
)

// Quota is a limit and its current use. A Limit of 0 means no limit.
type Quota struct{ Limit, Used int }

// Standing is the limits of a caller and their current use.
type Standing struct {
	Running, Queued              Quota // the caller's runs
	RunningOfProject             Quota
	QueuedOfProject              Quota
	RunningOfAll                 int   // how many runs of all users this server executes at once
	BytesOfAll                   int64 // total input of these runs
	RunningOfAgent               int   // how many of these runs may be of one agent; 0 for no limit of its own
	MessagesOfAll                int64 // bytes in memory of the messages of these runs
	QueuedOfAll                  int
	QueuedPerThread              int
	MessageBytes                 int // the new messages of one run
	AppendBytes                  int // of one appended message
	EventBytes                   int
	StateBytes                   int // of a thread
	MetadataBytes                int // of the metadata that users give a thread
	AttachmentBytes              int64
	Attachments                  int   // of the caller; 0 when uploads are off
	AttachmentsBytes             int64 // of all of the caller's attachments
	AttachmentsUsed              int   // attachments that the caller has
	AttachmentsBytesUsed         int64
	Uploads                      int // simultaneous uploads of the caller; 0 for no limit
	AttachmentTypes              []string
	AttachmentURLs               time.Duration // how long a signed URL is valid
	RunEvents                    int           // of one run; 0 for no limit
	RunMessages                  int64         // bytes in memory of the messages of one run
	RunTimeout, StepTimeout      time.Duration
	ToolTimeout, ApprovalTimeout time.Duration
	Grace, Drain                 time.Duration // of cancelled code, and of all runs when the server stops
	Commit                       time.Duration // until a write that the database does not answer fails with outcome_unknown
}

// Standing returns a caller's limits in its project and their current use. It reads only the attachments from the
// database, of which a user has a limited number; the rest is in memory.
func (rt *Runtime) Standing(ctx context.Context, c Caller) (Standing, error) {
	if err := c.check(); err != nil {
		return Standing{}, err
	}
	queued := rt.work.Queue.Queued(c.project, c.user)
	running, runningOfProject := rt.work.Queue.Running(c.project, c.user)
	s := Standing{
		Running:          Quota{rt.cfg.RunsPerUser, running},
		RunningOfProject: Quota{rt.cfg.RunsPerProject, runningOfProject},
		RunningOfAll:     rt.cfg.Runs,
		BytesOfAll:       rt.cfg.RunsBytes,
		Queued:           Quota{max(rt.cfg.QueuePerUser, 0), queued.OfUser},
		QueuedOfProject:  Quota{max(rt.cfg.QueuePerProject, 0), queued.OfProject},
		RunningOfAgent:   rt.cfg.RunsPerAgent,
		MessagesOfAll:    rt.cfg.RunsMessages,
		QueuedOfAll:      rt.cfg.QueueDepth,
		QueuedPerThread:  rt.cfg.QueuePerThread,
		MessageBytes:     rt.cfg.MessageBytes,
		AppendBytes:      rt.cfg.AppendBytes,
		EventBytes:       rt.cfg.EventBytes,
		StateBytes:       rt.cfg.StateBytes,
		MetadataBytes:    maxMetadata,
		RunEvents:        rt.cfg.RunEvents,
		RunMessages:      rt.cfg.RunMessages,
		RunTimeout:       rt.cfg.RunTimeout, StepTimeout: rt.cfg.StepTimeout,
		ToolTimeout: rt.cfg.ToolTimeout, ApprovalTimeout: rt.cfg.ApprovalTimeout,
		Grace: rt.cfg.Grace, Drain: rt.cfg.Drain, Commit: rt.cfg.Patience,
	}
	if f := rt.cfg.Attachments; f != nil {
		s.AttachmentBytes = f.Size()
		s.Attachments, s.AttachmentsBytes = f.Quota()
		s.Uploads, s.AttachmentTypes, s.AttachmentURLs = f.Uploads(), f.Types(), f.Expires()
		var err error
		if s.AttachmentsUsed, s.AttachmentsBytesUsed, err = f.Used(ctx, c.project, c.user); err != nil {
			return Standing{}, err
		}
	}
	return s, nil
}
