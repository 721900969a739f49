// Package remote makes a worker from an agent on another server: any HTTP endpoint that speaks AG-UI, such as those of
// LangGraph, Mastra, CrewAI, ADK and Pydantic AI, or another Baton.
//
// The remote gets the thread's messages and state and the client's tools. Its events become events of our run: text,
// reasoning, calls of its own tools with their results, steps, sub-agents, state changes, activities and custom events.
// They get our ids; a message has the remote's id as remoteId in its metadata and is sent back under it in later turns.
// Illegal events are repaired if possible (missing ends are added, shorthands are expanded, unknown attributions are
// removed, other values become texts where AG-UI has texts) and otherwise dropped with a log entry. Provider events (RAW,
// rawEvent) are dropped.
//
// A run ends with its stream, or two seconds after an end that nothing follows, unless one of its tools is at work. A result
// or a question about a call that was not announced gets one, of the tool that it names, which is not sent back.
//
// A call of a client's tool without a result becomes our call when the remote's run ends: our run waits for the client and
// calls the remote again with the result. The remote's interrupts, and the on_interrupt events of LangGraph and Mastra,
// become our questions; the answers are sent as resume and, for on_interrupt, as forwardedProps.command. The remote's open
// calls stay open while it asks. The answer to a question about a call is the call's result, unless the remote shows another
// when it continues. A question with an invalid responseSchema fails the run.
//
// # Failures
//
// If the remote numbers its events, as Baton does, a lost connection is resumed: the same request with the same
// Idempotency-Key returns the same run, and received events are skipped. Otherwise the step fails with the retryable code
// connection_lost, or with empty_answer if the remote has ended its stream without an event. Errors quote the remote's response.
//
// A run that is left before its end is stopped at the URL Stop, if there is one.
//
// After a crash the remote is called again with the same run id, message ids and Idempotency-Key. Another Baton attaches
// us to the earlier run, or starts it again if it was cancelled when its client disconnected. Any other remote repeats its
// work with all side effects; with AtMostOnce the step fails with interrupted instead. The log still has the output from
// before the crash: prompts omit the interrupted text, and interrupted calls have failed. Completed runs of the remote
// are not repeated.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/plugins/web"
)

// Config describes a remote agent. Sizes are in bytes.
type Config struct {
	Name        string
	Description string

	URL     string            // receives POSTs of RunAgentInput, http or https
	Headers map[string]string // of each request, such as Authorization; the values never appear in messages and logs

	// Stop is the URL of POSTs that stop a run there, with {threadId} in place of the thread, for servers that continue a run
	// after its connection was closed. By default nothing is sent.
	Stop string

	// Protocol is the protocolVersion sent to the remote, "1.0" by default. "0.0" sends no version and only members of
	// the older dialect, for servers that refuse unknown members.
	Protocol string

	// AtMostOnce makes an interrupted step fail with the code interrupted instead of calling the remote again.
	AtMostOnce bool

	Guards plugins.Guards // of the input, the output, and the calls of our tools; the remote's own calls are not seen

	Concurrency int    // maximum number of concurrent runs, default no own limit
	RunOn       string // label of the servers of a cluster that execute it, default all

	Approval bool             // calls of it as a tool need a person's approval
	Approver plugins.Approver // who may approve them, and what they see
	Projects []string         // projects in which the agent is offered, default all

	Timeout   time.Duration // of a step; default the server's
	Idle      time.Duration // maximum time without data, including keep-alive comments; then the step fails as stalled; default 5 min
	Reconnect time.Duration // maximum time without a new event after a lost connection; default 30 s

	MaxEvent  int   // of one event; default 8 MB, the limit of a log
	MaxStream int64 // of one answer; default 256 MiB

	Client *http.Client // by default the agent has its own; its CheckRedirect and Timeout are not used
	Log    *slog.Logger // receives dropped events; default slog.Default
}

// Agent is a worker that runs on a remote.
type Agent struct {
	cfg     Config
	client  *http.Client
	host    string // of the URL, for the log
	secrets *problem.Secrets

	mu     sync.Mutex      // guards health
	health *plugins.Health // nil before the first request
}

var (
	_ plugins.Agent  = (*Agent)(nil)
	_ plugins.Closer = (*Agent)(nil)

	_ plugins.Reporter = (*Agent)(nil)
)

// New returns the agent described by cfg without connecting.
func New(cfg Config) (*Agent, error) {
	u, err := web.Address(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("the url %w", err)
	}
	stop, err := web.Address(cmp.Or(cfg.Stop, cfg.URL))
	switch {
	case err != nil:
		return nil, fmt.Errorf("stop %w", err)
	case cfg.Stop != "" && !strings.Contains(cfg.Stop, threadID):
		return nil, errors.New("stop has no " + threadID)
	}
	cfg.Protocol = cmp.Or(cfg.Protocol, modern)
	if cfg.Protocol != modern && cfg.Protocol != legacy {
		return nil, fmt.Errorf("the protocol must be %q or %q", modern, legacy)
	}
	if err := web.CheckHeaders(cfg.Headers); err != nil {
		return nil, err
	}
	if min(cfg.Timeout, cfg.Idle, cfg.Reconnect) < 0 || cfg.MaxEvent < 0 || cfg.MaxStream < 0 {
		return nil, errors.New("a limit is negative")
	}
	cfg.Headers = maps.Clone(cfg.Headers)
	cfg.Idle = cmp.Or(cfg.Idle, 5*time.Minute)
	cfg.Reconnect = cmp.Or(cfg.Reconnect, 30*time.Second)
	cfg.MaxEvent = cmp.Or(cfg.MaxEvent, 8_000_000)
	cfg.MaxStream = cmp.Or(cfg.MaxStream, 256<<20)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	a := &Agent{cfg: cfg, host: u.Host, secrets: problem.NewSecrets(cfg.Headers, nil, u, stop)}
	a.client = web.NewClient(cfg.Client)
	return a, nil
}

// Info describes the agent.
func (a *Agent) Info() plugins.Info {
	return plugins.Info{Name: a.cfg.Name, Description: a.cfg.Description, External: true, Timeout: a.cfg.Timeout, Concurrency: a.cfg.Concurrency, RunOn: a.cfg.RunOn, Projects: a.cfg.Projects, Guards: a.cfg.Guards, Approval: a.cfg.Approval, Approver: a.cfg.Approver}
}

// Close closes idle connections.
func (a *Agent) Close(context.Context) error {
	a.client.CloseIdleConnections()
	return nil
}

// The protocols for Config.
const (
	modern = "1.0"
	legacy = "0.0"
)
