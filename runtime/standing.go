package runtime

import (
	"context"
	"time"
)

// Quota is a limit and what is used of it. A Limit of 0 is none.
type Quota struct{ Limit, Used int }

// TokenQuota is a Quota of tokens.
type TokenQuota struct{ Limit, Used int64 }

// Standing is what the runtime lets a caller have, and what is had of it now.
type Standing struct {
	Running, Queued              Quota // the caller's runs
	RunningOfProject             Quota
	QueuedOfProject              Quota
	Tokens                       TokenQuota // of the project's models in 24 hours
	RunningOfAll                 int        // what this server executes at once, of everybody
	BytesOfAll                   int64      // that these runs may be asked together
	RunningOfAgent               int        // of them of one agent; 0 for no limit of its own
	MessagesOfAll                int64      // bytes that their messages may have in memory together
	QueuedOfAll                  int
	QueuedPerThread              int
	MessageBytes                 int // the new messages of one run
	AppendBytes                  int // of one that is appended to a run
	EventBytes                   int
	StateBytes                   int // of a thread
	MetadataBytes                int // that users give a thread
	AttachmentBytes              int64
	Attachments                  int   // of the caller; 0 when none are taken
	AttachmentsBytes             int64 // of all of them
	AttachmentsUsed              int   // of them
	AttachmentsBytesUsed         int64
	Uploads                      int // of the caller at a time; 0 for no limit
	AttachmentTypes              []string
	AttachmentURLs               time.Duration // for which a signed one is good
	RunEvents                    int           // of one run; 0 for no limit
	RunMessages                  int64         // bytes that the messages of one run may have in memory
	RunTimeout, StepTimeout      time.Duration
	ToolTimeout, ApprovalTimeout time.Duration
	Grace, Drain                 time.Duration // of what was cancelled, and of all runs when the server stops
	Commit                       time.Duration // that the database is silent, until who waits for a write is told that nobody knows
}

// Standing returns what a caller may have in its project and what it has. All but the attachments, of which
// there are no more than a user may have, is in memory.
func (rt *Runtime) Standing(ctx context.Context, c Caller) (Standing, error) {
	if err := c.check(); err != nil {
		return Standing{}, err
	}
	queued := rt.work.QueuedOf(c.project, c.user)
	running, runningOfProject := rt.work.RunningOf(c.project, c.user)
	s := Standing{
		Running:          Quota{rt.cfg.RunsPerUser, running},
		RunningOfProject: Quota{rt.cfg.RunsPerProject, runningOfProject},
		Tokens:           TokenQuota{rt.cfg.TokensPerDay, rt.work.TokensOf(c.project)},
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
