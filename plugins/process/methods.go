package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// errNoMethod is the response to an unknown method.
var errNoMethod = errors.New("there is no such method")

// emitting reports whether a method emits events, which are handled in order. Such methods are notifications; as requests
// they are answered after the log has accepted their events, so that a program can follow its pace.
func emitting(method string) bool {
	switch method {
	case "text", "state", "progress", "emit":
		return true
	}
	return false
}

// emit executes such a method.
func (s *session) emit(method string, params json.RawMessage) error {
	switch method {
	case "text":
		return s.text(params)
	case "state":
		p, err := read[struct {
			Patch json.RawMessage `json:"patch"`
		}](params)
		if err != nil {
			return err
		}
		return s.run.State(p.Patch)
	case "progress":
		p, err := read[struct {
			Fraction float64 `json:"fraction"`
			Message  string  `json:"message"`
		}](params)
		if err != nil {
			return err
		}
		return s.run.Progress(p.Fraction, p.Message)
	}
	p, err := read[struct {
		Event json.RawMessage `json:"event"`
	}](params)
	if err != nil {
		return err
	}
	ev, err := agui.Decode(p.Event)
	if err != nil {
		return &badParams{"event: " + err.Error()}
	}
	return s.run.Emit(ev)
}

// text writes a piece of a message, which its first piece starts.
func (s *session) text(params json.RawMessage) error {
	p, err := read[struct {
		Message int       `json:"message"` // the program's number of the message
		Delta   string    `json:"delta"`
		End     bool      `json:"end"`
		Role    agui.Role `json:"role"` // of a first piece, as stage is
		Stage   string    `json:"stage"`
	}](params)
	if err != nil {
		return err
	}
	w := s.texts[p.Message]
	if w == nil {
		if len(s.texts) == maxTexts {
			return &badParams{fmt.Sprintf("a run may have %d messages open", maxTexts)}
		}
		w = s.run.Message(p.Role, p.Stage)
		if p.Role == agui.RoleReasoning {
			w = s.run.Reason()
		}
		s.texts[p.Message] = w
	}
	if _, err := io.WriteString(w, p.Delta); err != nil || !p.End {
		return err
	}
	delete(s.texts, p.Message)
	return w.Close()
}

// request executes a method that can block, and returns the result.
func (s *session) request(ctx context.Context, p parcel) (any, error) {
	switch p.Method {
	case "do":
		return nil, s.do(ctx, p)
	case "branch":
		return s.branch(ctx, p.Params)
	case "tools":
		return s.tools(ctx, p.Params)
	case "agent":
		p, err := read[struct {
			Name  string `json:"name"`
			Query string `json:"query"`
		}](p.Params)
		if err != nil {
			return nil, err
		}
		return s.run.CallAgent(ctx, p.Name, p.Query)
	case "ask":
		p, err := read[struct {
			Question agui.Interrupt `json:"question"`
		}](p.Params)
		if err != nil {
			return nil, err
		}
		return s.run.Ask(ctx, p.Question)
	case "sleep":
		return nil, s.sleep(ctx, p.Params)
	case "waitFor":
		return s.waitFor(ctx, p.Params)
	case "next":
		messages, err := s.run.Next(ctx)
		return struct {
			Messages []agui.Message `json:"messages"`
		}{list(messages)}, err
	case "usage":
		p, err := read[struct {
			Usage agui.TokenUsage `json:"usage"`
		}](p.Params)
		if err != nil {
			return nil, err
		}
		return nil, s.run.Usage(ctx, p.Usage)
	}
	return nil, errNoMethod
}

// sleep waits for seconds, or until a time.
func (s *session) sleep(ctx context.Context, params json.RawMessage) error {
	p, err := read[struct {
		Seconds float64   `json:"seconds"`
		Until   time.Time `json:"until"`
	}](params)
	switch {
	case err != nil:
		return err
	case p.Until.IsZero():
		return s.run.Sleep(ctx, seconds(p.Seconds))
	}
	return s.run.SleepUntil(ctx, p.Until)
}

func (s *session) waitFor(ctx context.Context, params json.RawMessage) (plugins.Received, error) {
	p, err := read[struct {
		Name   string   `json:"name"`
		Within *float64 `json:"within"` // seconds
	}](params)
	switch {
	case err != nil:
		return plugins.Received{}, err
	case p.Within == nil:
		return s.run.WaitFor(ctx, p.Name)
	}
	return s.run.WaitFor(ctx, p.Name, plugins.Within(seconds(*p.Within)))
}

// seconds returns a duration, which is longer than any wait if a Duration does not have it.
func seconds(n float64) time.Duration {
	return time.Duration(min(n, 2*plugins.LongestWait.Seconds()) * float64(time.Second))
}

// tools makes tool calls concurrently.
func (s *session) tools(ctx context.Context, params json.RawMessage) (any, error) {
	p, err := read[struct {
		Calls []struct {
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"calls"`
	}](params)
	if err != nil {
		return nil, err
	}
	calls := make([]plugins.ToolCall, len(p.Calls))
	for i, c := range p.Calls {
		calls[i] = plugins.ToolCall{Name: c.Name, Args: object(c.Args)}
	}
	outs, err := s.run.CallTools(ctx, calls...)
	return struct {
		Outputs []agui.ToolOutput `json:"outputs"`
	}{list(outs)}, err
}

// branch creates a scope with separate places.
func (s *session) branch(ctx context.Context, params json.RawMessage) (any, error) {
	p, err := read[struct {
		Key string `json:"key"`
	}](params)
	if err != nil {
		return nil, err
	}
	token, err := s.begin(s.run.Branch(ctx, p.Key), nil)
	return struct {
		Scope string `json:"scope"`
	}{token}, err
}

// doing is a Do whose function runs in the program.
type doing struct {
	ended    chan ending // receives the function's result
	recorded chan error  // receives the result of recording
}

type ending struct {
	value json.RawMessage
	err   error
}

// do answers with the record of a Do, or with the scope for its function, and waits for the end of the Do.
func (s *session) do(ctx context.Context, p parcel) error {
	params, err := read[struct {
		Name string `json:"name"`
	}](p.Params)
	if err != nil {
		return err
	}
	var value json.RawMessage
	d := &doing{ended: make(chan ending, 1), recorded: make(chan error, 1)}
	begun := false
	err = s.run.Do(ctx, params.Name, &value, func(ctx context.Context) error {
		token, err := s.begin(ctx, d)
		if err != nil {
			return err
		}
		defer s.end(token)
		begun = true
		s.reply(p, struct {
			Scope string `json:"scope"`
		}{token}, nil)
		select {
		case e := <-d.ended:
			value = e.value
			return e.err
		case <-s.dead:
			select {
			case e := <-d.ended: // its last message
				value = e.value
				return e.err
			default:
			}
			return errCrashed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if begun {
		d.recorded <- err
		return errAnswered
	}
	if err != nil {
		return err
	}
	s.reply(p, struct {
		Value json.RawMessage `json:"value"`
	}{value}, nil)
	return errAnswered
}

// errAnswered is returned by a method that has sent its response.
var errAnswered = errors.New("answered")

// done ends a Do with the value to record or an error. The function that it returns waits until the record is stored.
func (s *session) done(p parcel) func() (any, error) {
	fails := func(err error) func() (any, error) { return func() (any, error) { return nil, err } }
	params, err := read[struct {
		Scope string          `json:"scope"`
		Value json.RawMessage `json:"value"`
		Error *failure        `json:"error"`
	}](p.Params)
	if err != nil {
		return fails(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scopes[params.Scope]
	if sc == nil || sc.do == nil || sc.done {
		return fails(&badParams{fmt.Sprintf("there is no Do %q at work", params.Scope)})
	}
	sc.done = true
	e := ending{value: params.Value}
	if params.Error != nil {
		e.err = params.Error.cause()
	}
	sc.do.ended <- e
	return func() (any, error) {
		var err error
		select {
		case err = <-sc.do.recorded:
		case <-s.ctx.Done():
			err = context.Cause(s.ctx)
		}
		if e.err != nil && errors.Is(err, e.err) {
			return nil, nil // the program reported this error itself
		}
		return nil, err
	}
}

// read decodes the params of a method.
func read[T any](params json.RawMessage) (p T, err error) {
	if err := json.Unmarshal(params, &p); err != nil {
		return p, &badParams{err.Error()}
	}
	return p, nil
}
