package wire

import (
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/rates"
)

// Limits are the limits of the caller, the project and the server.
type Limits struct {
	User        Share        `json:"user"`    // Quotas of the user.
	Project     Share        `json:"project"` // Quotas of the project: all its users together.
	Server      ServerLimits `json:"server"`
	Sizes       SizeLimits   `json:"sizes"`
	Timeouts    TimeLimits   `json:"timeouts"`
	Run         RunLimits    `json:"run"`
	Counts      CountLimits  `json:"counts"`
	Attachments *FileLimits  `json:"attachments"` // Null if the server accepts no attachments.
}

// Share is the quotas of a user or a project on a server.
type Share struct {
	Requests      RateQuota `json:"requests"`
	Streams       Quota     `json:"streams"`       // Open streams and sockets.
	Subscriptions Quota     `json:"subscriptions"` // Threads subscribed on all sockets.
	Running       Quota     `json:"running"`       // Running runs.
	Queued        Quota     `json:"queued"`        // Queued runs.
	InFlight      ByteQuota `json:"inFlight"`      // Bytes of requests, messages and responses held in memory at a time.
}

// ByteQuota is a limit on bytes and its usage.
type ByteQuota struct {
	Limit *int64 `json:"limit"` // Null for no limit.
	Used  int64  `json:"used"`
}

// Quota is a limit and its usage.
type Quota struct {
	Limit *int `json:"limit"` // Null for no limit.
	Used  int  `json:"used"`  // Current usage.
}

// RateQuota is a rate limit and its usage.
type RateQuota struct {
	PerSecond *int `json:"perSecond"` // Requests per second. Null for no limit.
	Burst     *int `json:"burst"`     // Requests that may arrive at once.
	Used      int  `json:"used"`      // How much of the burst is used.
}

// ServerLimits are the limits of the whole server, over all projects.
//
// Their use is not shown, as it would reveal other projects' activity.
type ServerLimits struct {
	Running         int   `json:"running"`         // Runs executed at a time.
	RunningBytes    int64 `json:"runningBytes"`    // Total input of running runs, in bytes. Small inputs do not count.
	RunningMessages int64 `json:"runningMessages"` // Bytes of running runs' messages in memory. Small runs do not count.
	RunningPerAgent *int  `json:"runningPerAgent"` // Runs of one agent executed at a time. Null for no limit of its own.
	Queued          int   `json:"queued"`          // Queued runs.
	QueuedPerThread int   `json:"queuedPerThread"` // Queued runs of one thread.

	InFlight           int64 `json:"inFlight"`           // Bytes of requests, messages and responses held in memory at a time.
	LeastRate          int   `json:"leastRate"`          // Minimum average rate at which clients must send and receive, in bytes per second.
	Connections        *int  `json:"connections"`        // Open connections. Null if the server has no listener of its own.
	ConnectionsPerPeer *int  `json:"connectionsPerPeer"` // Open connections from one address. Null if the server has no listener of its own.
	GuessesPerPeer     *int  `json:"guessesPerPeer"`     // Wrong credentials from one address per minute. Null for no limit.
}

// SizeLimits are maximum sizes, in bytes. `append`, `event`, `state`, `metadata` and `head` are the same on every server.
type SizeLimits struct {
	Body     int `json:"body"`     // Body of any other request.
	Input    int `json:"input"`    // Body of a request that starts a run.
	Socket   int `json:"socket"`   // Message on a WebSocket. Messages that do not start a run are limited by `body`.
	Messages int `json:"messages"` // New messages of one run.
	Append   int `json:"append"`   // Message appended to a run.
	Event    int `json:"event"`    // One event of a run.
	State    int `json:"state"`    // State of a thread.
	Metadata int `json:"metadata"` // Metadata of a thread.
	Head     int `json:"head"`     // Request line and headers.
}

// TimeLimits are timeouts, in seconds.
type TimeLimits struct {
	Run      float64 `json:"run"`      // From a run's start to its end.
	Step     float64 `json:"step"`     // One execution of an agent.
	Tool     float64 `json:"tool"`     // One tool call.
	Approval float64 `json:"approval"` // Time a person has to answer an approval.

	OnDisconnectGrace float64 `json:"onDisconnectGrace"` // Time a disconnected client has to reconnect before its run is cancelled.
	RequestHead       float64 `json:"requestHead"`       // Time to receive a request's line and headers.
	RequestBody       float64 `json:"requestBody"`       // Time to receive the whole body.
	Answer            float64 `json:"answer"`            // Time in which the client must read a response that is not a stream.
	Stall             float64 `json:"stall"`             // Maximum pause while a body is received or a response is read.
	Idle              float64 `json:"idle"`              // Maximum idle time of a connection between two requests.
	Write             float64 `json:"write"`             // Time for one write to a stream's reader.
	Ping              float64 `json:"ping"`              // Time without events after which a stream is pinged.
	Grace             float64 `json:"grace"`             // Time a cancelled worker or tool has to return. After it Baton stops waiting.
	Drain             float64 `json:"drain"`             // Time running runs have to finish when the server stops.
	Commit            float64 `json:"commit"`            // Time for a database commit. After it the outcome is reported as unknown.
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
	Events   *int  `json:"events"`   // Events between two answers of the client. Null for no limit.
	Messages int64 `json:"messages"` // Bytes of the run's messages in memory. Tool results and outputs count twice.
}

// CountLimits are maximum counts per request. They are the same on every server.
type CountLimits struct {
	Page  int `json:"page"`  // Items of a page.
	Batch int `json:"batch"` // Messages of an MCP batch.
}

// MaxBatch is how many messages of MCP one request may hold.
const MaxBatch = 32

// FileLimits are limits on attachments. Sizes are in bytes.
type FileLimits struct {
	Size  int64 `json:"size"`  // Size of one attachment.
	Files int   `json:"files"` // Number of attachments per user.
	Bytes int64 `json:"bytes"` // Total size of a user's attachments.

	Types []string `json:"types"` // Accepted media types, or patterns such as `image/*`.
	URL   float64  `json:"url"`   // Validity of a signed URL, in seconds.

	Used    FilesUsed `json:"used"`    // The caller's usage. Uploads in progress count with their maximum size.
	Uploads *int      `json:"uploads"` // Concurrent uploads per user. Null for no limit.
}

// FilesUsed are the attachments of a user.
type FilesUsed struct {
	Files int   `json:"files"` // Number of attachments.
	Bytes int64 `json:"bytes"` // Total size, in bytes.
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
