package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/rates"
)

// Limits are a caller's limits and their current use.
type Limits struct {
	User        Share        `json:"user"`
	Project     Share        `json:"project"` // all its users together
	Server      ServerLimits `json:"server"`
	Sizes       SizeLimits   `json:"sizes"`
	Timeouts    TimeLimits   `json:"timeouts"`
	Run         RunLimits    `json:"run"`
	Counts      CountLimits  `json:"counts"`
	Attachments *FileLimits  `json:"attachments"` // null when attachments are off
}

// Share is the share of a user or a project.
type Share struct {
	Requests      RateQuota `json:"requests"`
	Streams       Quota     `json:"streams"`       // open at a time
	Subscriptions Quota     `json:"subscriptions"` // threads that all sockets together show at a time
	Running       Quota     `json:"running"`       // runs executed at once
	Queued        Quota     `json:"queued"`        // runs that wait for their turn
	InFlight      ByteQuota `json:"inFlight"`      // bytes of requests, messages and answers that are held at a time
}

// ByteQuota is a limit on bytes and its use.
type ByteQuota struct {
	Limit *int64 `json:"limit"` // null for none
	Used  int64  `json:"used"`
}

// Quota is a limit and its use.
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

// ServerLimits are the limits of all projects together. Their use is not shown, as it would reveal other projects' activity.
type ServerLimits struct {
	Running         int   `json:"running"`         // runs executed at once
	RunningBytes    int64 `json:"runningBytes"`    // total input of running runs; small inputs do not count
	RunningMessages int64 `json:"runningMessages"` // bytes of running runs' messages in memory; small runs do not count
	RunningPerAgent *int  `json:"runningPerAgent"` // of one agent; null for no limit of its own
	Queued          int   `json:"queued"`
	QueuedPerThread int   `json:"queuedPerThread"`

	InFlight           int64 `json:"inFlight"`           // bytes of requests, messages and answers that are held at a time
	LeastRate          int   `json:"leastRate"`          // bytes that clients send and take a second, on the average
	Connections        *int  `json:"connections"`        // open at a time; null where the server has no listener of its own
	ConnectionsPerPeer *int  `json:"connectionsPerPeer"` // from one address; null likewise
	GuessesPerPeer     *int  `json:"guessesPerPeer"`     // credentials of one address that are wrong in a minute; null for no limit
}

// SizeLimits are in bytes.
type SizeLimits struct {
	Body     int `json:"body"`     // of a request
	Input    int `json:"input"`    // of one that starts a run
	Socket   int `json:"socket"`   // a message on a WebSocket; one that starts no run is as body
	Messages int `json:"messages"` // the new ones of one run
	Append   int `json:"append"`   // one that is appended to a run
	Event    int `json:"event"`    // one event of a run
	State    int `json:"state"`    // of a thread
	Metadata int `json:"metadata"` // that users give a thread
	Head     int `json:"head"`     // a request's line and headers
}

// TimeLimits are in seconds.
type TimeLimits struct {
	Run      float64 `json:"run"`      // from its start to its end
	Step     float64 `json:"step"`     // one execution of an agent
	Tool     float64 `json:"tool"`     // one call
	Approval float64 `json:"approval"` // an approval by a person

	OnDisconnectGrace float64 `json:"onDisconnectGrace"` // a dropped client, until its run is cancelled
	RequestHead       float64 `json:"requestHead"`       // a request's line and headers
	RequestBody       float64 `json:"requestBody"`       // the whole of its body
	Answer            float64 `json:"answer"`            // reading a whole answer that is not a stream
	Stall             float64 `json:"stall"`             // a pause in a body or in reading an answer
	Idle              float64 `json:"idle"`              // a connection between two requests
	Write             float64 `json:"write"`             // one write to the reader of a stream
	Ping              float64 `json:"ping"`              // silence on a stream
	Grace             float64 `json:"grace"`             // a cancelled worker or tool
	Drain             float64 `json:"drain"`             // runs at work when the server stops
	Commit            float64 `json:"commit"`            // a commit, until its outcome is reported as unknown
}

// ServerSettings are the settings of the server that the engine does not know.
type ServerSettings struct {
	Sizes    SizeLimits
	InFlight int64
	Held     quota.Used // of InFlight, by the caller
	Rate     int
	Conns    int // 0 for a server without a listener
	PerPeer  int
	Guesses  int // 0 for no limit

	Grace, Head, Body, Answer, Stall, Idle, Write, Ping time.Duration
}

// RunLimits are the limits of one run.
type RunLimits struct {
	Events   *int  `json:"events"`   // between two answers of its client; null for no limit
	Messages int64 `json:"messages"` // bytes that its messages have in memory, results of tools and outputs twice
}

// CountLimits limit the number of parts of one request.
type CountLimits struct {
	Page  int `json:"page"`  // items of a list
	Batch int `json:"batch"` // messages of MCP
}

// MaxBatch is how many messages of MCP one request may hold.
const MaxBatch = 32

// FileLimits are the limits of attachments, in bytes.
type FileLimits struct {
	Size  int64 `json:"size"`  // of one
	Files int   `json:"files"` // of a user
	Bytes int64 `json:"bytes"` // of all of a user's

	Types []string `json:"types"` // accepted types, or patterns
	URL   float64  `json:"url"`   // seconds that a signed one is good

	Used    FilesUsed `json:"used"`    // by the caller
	Uploads *int      `json:"uploads"` // of a user at a time; null for no limit
}

// FilesUsed are a user's attachments.
type FilesUsed struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// NewLimits combines a caller's standing with the server's rates and settings.
func NewLimits(s *runtime.Standing, cfg rates.Config, user, project rates.Used, of *ServerSettings) Limits {
	l := Limits{
		User:    share(cfg.User, user, of.Held.User, s.Running, s.Queued),
		Project: share(cfg.Project, project, of.Held.Project, s.RunningOfProject, s.QueuedOfProject),
		Server: ServerLimits{
			Running: s.RunningOfAll, RunningBytes: s.BytesOfAll, RunningMessages: s.MessagesOfAll, RunningPerAgent: limitOf(s.RunningOfAgent),
			Queued: s.QueuedOfAll, QueuedPerThread: s.QueuedPerThread, InFlight: of.InFlight, LeastRate: of.Rate,
			Connections: limitOf(of.Conns), ConnectionsPerPeer: limitOf(of.PerPeer), GuessesPerPeer: limitOf(of.Guesses),
		},
		Sizes: of.Sizes,
		Timeouts: TimeLimits{
			Run: s.RunTimeout.Seconds(), Step: s.StepTimeout.Seconds(), Tool: s.ToolTimeout.Seconds(), Approval: s.ApprovalTimeout.Seconds(),
			OnDisconnectGrace: of.Grace.Seconds(), RequestHead: of.Head.Seconds(), RequestBody: of.Body.Seconds(),
			Answer: of.Answer.Seconds(), Stall: of.Stall.Seconds(), Idle: of.Idle.Seconds(), Write: of.Write.Seconds(), Ping: of.Ping.Seconds(),
			Grace: s.Grace.Seconds(), Drain: s.Drain.Seconds(), Commit: s.Commit.Seconds(),
		},
	}
	l.Sizes.Messages, l.Sizes.Append, l.Sizes.Event = s.MessageBytes, s.AppendBytes, s.EventBytes
	l.Sizes.State, l.Sizes.Metadata = s.StateBytes, s.MetadataBytes
	l.Counts = CountLimits{Page: MaxLimit, Batch: MaxBatch}
	l.Run.Messages = s.RunMessages
	if s.RunEvents > 0 {
		l.Run.Events = &s.RunEvents
	}
	if s.Attachments > 0 {
		l.Attachments = &FileLimits{
			Size: s.AttachmentBytes, Files: s.Attachments, Bytes: s.AttachmentsBytes, Types: s.AttachmentTypes, URL: s.AttachmentURLs.Seconds(),
			Used: FilesUsed{s.AttachmentsUsed, s.AttachmentsBytesUsed},
		}
		if s.Uploads > 0 {
			l.Attachments.Uploads = &s.Uploads
		}
	}
	return l
}

func share(l rates.Limits, used rates.Used, inFlight int64, running, queued runtime.Quota) Share {
	r := RateQuota{Used: used.Requests}
	if l.Requests > 0 {
		r.PerSecond, r.Burst = &l.Requests, new(max(l.Requests, l.Burst))
	}
	held := ByteQuota{Used: inFlight}
	if l.Bytes > 0 {
		held.Limit = &l.Bytes
	}
	return Share{
		Requests: r, Streams: quotaOf(runtime.Quota{Limit: l.Streams, Used: used.Streams}),
		Subscriptions: quotaOf(runtime.Quota{Limit: l.Subscriptions(), Used: used.Subscriptions}), Running: quotaOf(running), Queued: quotaOf(queued), InFlight: held,
	}
}

func quotaOf(q runtime.Quota) Quota {
	if q.Limit <= 0 {
		return Quota{Used: q.Used}
	}
	return Quota{&q.Limit, q.Used}
}

// limitOf is a limit, nil for 0, which means none.
func limitOf(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
