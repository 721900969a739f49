package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// maxRuns limits the runs of the remote in one turn: one more for each time it was cancelled there while we were away.
const maxRuns = 4

// turn is one recorded run of the remote.
func (a *Agent) turn(ctx context.Context, run *plugins.Run, c *conversation) (*result, error) {
	var res result
	for range maxRuns {
		var id string
		again := true // unless the id is new
		if err := run.Do(ctx, "ask", &id, func(context.Context) error {
			id, again = newID(), false
			return nil
		}); err != nil {
			return nil, err
		}
		res = result{}
		if err := run.Do(ctx, "answer", &res, func(ctx context.Context) error {
			if again && a.cfg.AtMostOnce {
				return &plugins.Error{Code: "interrupted", Message: "The server stopped while the remote agent was working"}
			}
			if !again {
				if err := run.MayCallModel(ctx, agui.TokenUsage{}); err != nil {
					return err
				}
			}
			err := a.ask(ctx, run, c, id, again, &res)
			if err != nil {
				a.observe(err)
			}
			return err
		}); err != nil {
			return nil, err
		}
		if !res.Gone {
			return &res, nil
		}
	}
	return &res, nil
}

// ask starts the run with the given id at the remote and passes on its events. again means that a crash interrupted the run
// before.
func (a *Agent) ask(ctx context.Context, run *plugins.Run, c *conversation, id string, again bool, res *result) error {
	body, err := a.request(c, &run.Input, id)
	if err != nil {
		return err
	}
	r := newRelay(a, run, c, again)
	r.end.run = id
	l := line{a: a, body: body, key: id}
	if again {
		a.stop(ctx, c.thread)
	}
	if err := l.follow(ctx, r); err != nil {
		if l.begun && !r.end.over {
			a.stop(ctx, c.thread)
		}
		return err
	}
	return r.conclude(ctx, res)
}

// follow reads the run to its end.
func (l *line) follow(ctx context.Context, r *relay) error {
	for attempt := 0; ; attempt++ {
		err := l.read(ctx, r)
		switch {
		case err == nil || !errors.Is(err, errCut):
			return err
		case l.last == "":
			return r.end.cut(errors.Is(err, errOver))
		}
		if err := l.rest(ctx, attempt); err != nil {
			return err
		}
	}
}

func lost() error {
	return &plugins.Error{Code: "connection_lost", Message: "The connection to the remote agent was lost", Retryable: true}
}

// line is the connection to a run of the remote, including reconnects.
type line struct {
	a    *Agent
	body []byte
	key  string

	begun   bool      // the run can have begun there
	last    string    // id of the last event received, empty if they have none
	number  int64     // last as a number
	dropped time.Time // time of the loss since the last new event; zero while connected
}

// read connects and passes new events to r. It returns nil when the run has ended, and errCut when the connection is lost
// and can be remade.
func (l *line) read(ctx context.Context, r *relay) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(l.a.cfg.Idle, func() { cancel(errStalled) })
	defer idle.Stop()
	behind := l.last != ""
	stream, err := l.a.post(ctx, l.body, l.key, l.last)
	l.begun = l.begun || err == nil || context.Cause(ctx) != nil
	if err != nil {
		return l.refused(behind, err)
	}
	defer stream.Close()
	in := &body{Reader: stream, read: func() {
		if !r.end.over { // then only events count
			idle.Reset(l.a.cfg.Idle)
		}
	}}
	events := agui.NewReader(in, l.a.cfg.MaxEvent)
	for {
		id, data, err := events.Next()
		switch cause := context.Cause(ctx); {
		case err == nil:
		case errors.Is(err, agui.ErrTooLong):
			return errTooMuch
		case r.end.over || r.end.final && errors.Is(err, io.EOF):
			return nil
		case errors.Is(cause, errStalled):
			return stalled()
		case cause != nil:
			return cause
		case errors.Is(err, io.EOF):
			return errOver
		default:
			return errCut
		}
		if in.over && !r.end.final && !json.Valid(data) {
			return errCut
		}
		if behind {
			if behind = !l.follows(id); behind {
				continue
			}
		}
		if l.last != "" && id == "" && isFarewell(data) {
			return errCut // the server stops, and its run resumes at the next start
		}
		if err := r.take(data); err != nil {
			return err
		}
		l.saw(id)
		idle.Reset(r.patience(l.a.cfg.Idle))
	}
}

// refused returns the error of a failed request: during a reconnect the server can be restarting.
func (l *line) refused(again bool, err error) error {
	e, ok := errors.AsType[*plugins.Error](err)
	switch {
	case !again || !ok:
		return err
	case e.Code == "unreachable" || e.Code == "remote_failed" || e.Code == "rate_limited":
		return errCut
	}
	return lost()
}

// follows reports whether an event with the id is newer than the last.
func (l *line) follows(id string) bool {
	n, err := strconv.ParseInt(id, 10, 64)
	return err == nil && n > l.number
}

// saw records an event's id. Only increasing numbers determine the position in a new stream.
func (l *line) saw(id string) {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && n > l.number {
		l.last, l.number, l.dropped = id, n, time.Time{}
	}
}

// rest waits before the next connection.
func (l *line) rest(ctx context.Context, attempt int) error {
	if l.dropped.IsZero() {
		l.dropped = time.Now()
	}
	if time.Since(l.dropped) > l.a.cfg.Reconnect {
		return lost()
	}
	pause := time.NewTimer(min(100*time.Millisecond<<min(attempt, 6), 2*time.Second))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// body is an answer's body that reports each successful read. An empty line follows it, because some servers send none after the
// last event.
type body struct {
	io.Reader
	read func()
	over bool // the empty line was read
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	switch {
	case n > 0:
		b.read()
		return n, nil // an error comes again
	case errors.Is(err, io.EOF) && !b.over:
		b.over = true
		return copy(p, "\n\n"), nil
	}
	return n, err
}

// errCut is returned when a stream ended before its run, and errOver when its server ended it.
var (
	errCut  = errors.New("the stream was cut")
	errOver = fmt.Errorf("%w by the server", errCut)
)

var errTooMuch = &plugins.Error{Code: "answer_too_large", Message: "The remote agent's answer is too large"}
