package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/agui"
)

// remote is a run on a server, followed over its thread's event stream. It survives dropped connections and a restart of the
// server: each new connection continues after the last event that was read.
type remote struct {
	client   *http.Client
	server   target
	threadID string
	runID    string
	path     string // of the events, with the cursor to start at

	after   int64 // the last event read
	began   bool  // an event of the run was read
	over    bool
	body    io.ReadCloser // nil without a connection
	stream  *agui.Reader
	opened  time.Time // when the stream was opened
	backoff backoff   // reset by each event
}

// Limits on a server's answers, in bytes. Baton's events have at most 8 MB.
const (
	maxAnswer = 64 << 20
	maxEvent  = 16 << 20
)

var errLongEvent = errors.New("the server sent an event of more than 16 MiB")

// How long a server may be unavailable before a command gives up: while it restarts, and before the first connection.
const (
	restartTimeout = time.Minute
	connectTimeout = 3 * time.Second
)

// startRemote starts a run of an agent on a server, or of the workflow with the name if no agent has it.
func startRemote(ctx context.Context, server target, req request) (*remote, error) {
	r := newRemote(server.http(), server)
	err := r.start(ctx, req)
	if refused := (*refusedError)(nil); errors.As(err, &refused) && refused.status == http.StatusNotFound {
		req.workflow = true
		if r.start(ctx, req) == nil {
			return r, nil
		}
	}
	return r, err
}

// start starts the run. It repeats a request without an answer under the same idempotency key.
func (r *remote) start(ctx context.Context, req request) error {
	key := uuid.NewString()
	var started struct{ ThreadID, RunID, EventsURL string }
	err := retry(ctx, connectTimeout, func() error {
		return r.post(ctx, "/api/v1/agent/runs", req.body(), key, &started)
	})
	r.threadID, r.runID, r.path = started.ThreadID, started.RunID, started.EventsURL
	return err
}

func newRemote(client *http.Client, server target) *remote {
	return &remote{client: client, server: server, backoff: backoff{limit: restartTimeout}}
}

func (r *remote) next(ctx context.Context) (event, error) {
	for !r.over {
		if r.body == nil {
			if err := r.connect(ctx); err != nil {
				if err := r.backoff.wait(ctx, err); err != nil {
					return event{}, err
				}
			}
			continue
		}
		name, data, err := r.stream.Next()
		if errors.Is(err, agui.ErrTooLong) {
			return event{}, errLongEvent
		}
		if err != nil { // the server ended the stream or the connection broke; connect finds out
			_ = r.close(ctx)
			if ctx.Err() != nil {
				return event{}, context.Cause(ctx)
			}
			if time.Since(r.opened) > quiet {
				r.backoff.reset()
			}
			if err := r.backoff.wait(ctx, &unavailableError{err: errors.New("the server repeatedly ends the run's stream without events")}); err != nil {
				return event{}, err
			}
			continue
		}
		id, _ := strconv.ParseInt(name, 10, 64) // 0 for an event without an id
		if id != 0 && id <= r.after {
			continue
		}
		r.after = max(r.after, id)
		r.backoff.reset()
		ev, err := decodeEvent(id, bytes.Clone(data))
		if err != nil {
			return event{}, err
		}
		if ev.Common().RunID == r.runID {
			r.began, r.over = true, ev.ends()
			return ev, nil
		}
	}
	return event{}, io.EOF
}

// connect opens the thread's stream. The run is over if the stream has no more events.
func (r *remote) connect(ctx context.Context) error {
	req, err := r.server.request(ctx, http.MethodGet, r.path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if r.after > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(r.after, 10))
	}
	res, err := r.client.Do(req)
	if err != nil {
		return &unavailableError{err: err}
	}
	switch res.StatusCode {
	case http.StatusOK:
		r.body, r.stream, r.opened = res.Body, agui.NewReader(res.Body, maxEvent), time.Now()
		return nil
	case http.StatusNoContent:
		r.over = true
	default:
		err = statusError(res)
	}
	return errors.Join(err, res.Body.Close())
}

func (r *remote) cancel(ctx context.Context) error {
	err := retry(ctx, restartTimeout, func() error {
		if err := r.server.resolveProject(ctx); err != nil {
			return err
		}
		return r.post(ctx, r.server.runs()+"/"+url.PathEscape(r.runID)+"/cancel", nil, "", nil)
	})
	r.over = r.over || err == nil && !r.began // a queued run ends without events
	var refused *refusedError
	if errors.As(err, &refused) && refused.status == http.StatusBadRequest { // the run has ended
		return nil
	}
	return err
}

func (r *remote) close(context.Context) error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// post makes one request and decodes its answer into out, unless out is nil.
func (r *remote) post(ctx context.Context, path string, body []byte, key string, out any) error {
	req, err := r.server.request(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return &unavailableError{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return statusError(res)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return &unavailableError{err: err}
	}
	return nil
}

// refusedError is a server's error that a retry would not change.
type refusedError struct {
	status int
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }

func statusError(res *http.Response) error {
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // Baton never sends a date
		return &unavailableError{refusal(res), time.Duration(min(max(seconds, 0), 1<<30)) * time.Second}
	}
	return &refusedError{res.StatusCode, refusal(res)}
}
