// Package remote makes a worker of an agent that another server offers: any HTTP endpoint that speaks AG-UI, as
// LangGraph, Mastra, CrewAI, ADK and Pydantic AI have it, or another Baton.
//
// The remote is asked with the thread's messages and state and the client's tools, and its events become events of our
// run: text, reasoning, tool calls with the results that it has itself, steps and sub-agents, state (what it changes is
// changed in ours), activities and custom events. They get ids of ours; a message keeps the remote's in its metadata as
// remoteId, and is sent back under it with the next turn. What is illegal in our log is mended, and what cannot be is
// left out with a word in the server's log: a message that nobody ended is ended, a shorthand is written out, an
// attribution to a sub-agent that was not announced is taken off. Provider's own events (RAW, rawEvent) are left out.
//
// A call of one of the client's tools that the remote leaves unanswered becomes ours when its run ends: our run waits for
// the client, and the remote is asked again with the result. The remote's interrupts, and the on_interrupt events of
// LangGraph and Mastra, become questions of ours; their answers go back as resume and, for on_interrupt, as
// forwardedProps.command. A question whose responseSchema is no JSON Schema fails the run.
//
// # When something breaks
//
// A connection that drops is made again where the remote numbers its events, as Baton does: the same request under the
// same Idempotency-Key gets the same run, and what was seen of it is skipped. Elsewhere the step fails with
// connection_lost, which is retryable.
//
// After a crash of ours the remote is asked again with the same run id, message ids and Idempotency-Key. A Baton joins us
// to the run of before if it still runs, or begins it anew when it has cancelled it as its client was gone. Any other
// remote does its work a second time, and what its tools do to the world is done twice; AtMostOnce has the step fail
// with interrupted instead. What the log held of the first time stays: a text that was cut is left out of prompts, and
// calls have failed as interrupted. Runs of the remote that ended before the crash are not made again.
package remote

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
)

// Config says where a remote agent is and how it is asked. Sizes are in bytes.
type Config struct {
	Name        string
	Description string

	URL     string            // takes POSTs of RunAgentInput, http or https
	Headers map[string]string // of each request, such as Authorization; their values are in no message and no log

	// Protocol is the protocolVersion that the remote is told, "1.0" by default. "0.0" tells none, and sends nothing that
	// is not of the dialect of before: for servers that refuse members they do not know.
	Protocol string

	// AtMostOnce has a step that a crash has cut short fail with the code interrupted, instead of asking the remote again.
	AtMostOnce bool

	Concurrency int      // runs of it at once, default no limit of its own
	Projects    []string // those in which the agent is offered, default all

	Timeout   time.Duration // of a step, default the server's
	Idle      time.Duration // without a byte, keep-alive comments included, until the step fails as stalled, default 5 min
	Reconnect time.Duration // without a new event after a connection has dropped, until it is lost, default 30 s

	MaxEvent  int   // one event, default 8 MB, which is what a log takes
	MaxStream int64 // all that one answer holds, default 256 MiB

	Client *http.Client // default one of its own; its CheckRedirect is not used
	Log    *slog.Logger // told what is left out of an answer; default slog.Default
}

// Agent is a remote agent as a worker.
type Agent struct {
	cfg    Config
	client *http.Client
	host   string   // of the URL, for the log
	secret []string // what no message may show

	mu     sync.Mutex      // guards health
	health *plugins.Health // nil before the first request
}

var (
	_ plugins.Agent  = (*Agent)(nil)
	_ plugins.Closer = (*Agent)(nil)

	_ plugins.Reporter = (*Agent)(nil)
)

// New returns the agent that cfg tells of. It opens no connection.
func New(cfg Config) (*Agent, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("the url cannot be read")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the url must begin with http:// or https:// and a host")
	}
	cfg.Protocol = cmp.Or(cfg.Protocol, modern)
	if cfg.Protocol != modern && cfg.Protocol != legacy {
		return nil, fmt.Errorf("the protocol must be %q or %q", modern, legacy)
	}
	for name, v := range cfg.Headers {
		if !validHeader(name, v) {
			return nil, fmt.Errorf("header %q: a name or a value that HTTP does not allow", name)
		}
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
	a := &Agent{cfg: cfg, host: u.Host, secret: secrets(cfg.Headers, u)}
	a.client = newClient(cfg.Client)
	return a, nil
}

// Info describes the agent.
func (a *Agent) Info() plugins.Info {
	return plugins.Info{Name: a.cfg.Name, Description: a.cfg.Description, External: true, Timeout: a.cfg.Timeout, Concurrency: a.cfg.Concurrency, Projects: a.cfg.Projects}
}

// Close lets go of idle connections.
func (a *Agent) Close() error {
	a.client.CloseIdleConnections()
	return nil
}

// The protocols, as Config names them.
const (
	modern = "1.0"
	legacy = "0.0"
)
