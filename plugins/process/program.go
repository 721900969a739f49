package process

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
)

// Protocol is the version of the protocol.
const Protocol = 1

const (
	firstPause  = 100 * time.Millisecond // before the first restart of a crashed program
	maxPause    = 30 * time.Second
	aloneAtOnce = 4           // runs with a process of their own
	healthy     = time.Minute // minimum running time after which a crash counts as the first
)

// hello is a program's response to initialize.
type hello struct {
	Protocol int        `json:"protocol"`
	Alive    bool       `json:"alive"` // it writes a line in each period that initialize names, whatever it does
	Agent    *agentInfo `json:"agent"`
	Tools    []toolInfo `json:"tools"`
}

type agentInfo struct {
	Description string `json:"description"`
}

type toolInfo struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Idempotent  bool            `json:"idempotent"`
	Approval    approval        `json:"approval"`
}

// approval is what a program says of the approval of a tool's calls: true, or who may approve them and what they see.
type approval struct {
	needed bool
	by     plugins.Approver
}

// UnmarshalJSON decodes true, false, null or a mapping.
func (a *approval) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &a.needed) == nil { // null is false
		return nil
	}
	var m struct {
		By, Not, Message, Expires string
		Edit                      *bool
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return fmt.Errorf("approval of a tool: want true, or an object with by, not, message, expires and edit: %w", err)
	}
	a.needed, a.by = true, plugins.Approver{By: m.By, NotRequester: m.Not == "requester", Message: m.Message, NoEdit: m.Edit != nil && !*m.Edit}
	if m.Not != "" && !a.by.NotRequester {
		return fmt.Errorf("approval of a tool: not is %q, and must be requester", m.Not)
	}
	if m.Expires != "" {
		d, err := plugins.ParseDuration(m.Expires)
		if err != nil {
			return fmt.Errorf("approval of a tool: expires: %w", err)
		}
		a.by.Expires = d
	}
	return a.by.Validate()
}

// program starts and restarts a program on demand.
type program struct {
	cfg  Config
	fits func(*hello) error    // refuses a program that is not what it should be
	said atomic.Pointer[hello] // of the latest start
	sick atomic.Pointer[error] // error of the latest start; nil on success

	settled chan struct{}  // closed after the first start, which begin makes
	stop    chan struct{}  // closed by close
	force   chan struct{}  // closed when close waits no longer
	working sync.WaitGroup // starts, and waits for retired connections
	alone   chan struct{}  // has a place for each run with a process of its own

	mu      sync.Mutex // guards the fields below
	conn    *conn      // nil before the first start
	attempt *attempt   // the running start; nil for none
	pause   time.Duration
	failed  time.Time // time of the first of the failed starts since the last successful one; zero for none
	closed  bool
}

// attempt is one start of a program.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

func newProgram(cfg Config, fits func(*hello) error) (*program, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("the command is empty")
	}
	if cfg.Start < 0 || cfg.Stop < 0 || cfg.Alive < 0 {
		return nil, errors.New("a time is negative")
	}
	cfg.Start = cmp.Or(cfg.Start, 30*time.Second)
	cfg.Stop = cmp.Or(cfg.Stop, 5*time.Second)
	cfg.Alive = cmp.Or(cfg.Alive, 3*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	return &program{cfg: cfg, fits: fits, settled: make(chan struct{}), stop: make(chan struct{}), force: make(chan struct{}), alone: make(chan struct{}, aloneAtOnce)}, nil
}

// begin starts the program beside the server's start. Its failure is the program's health; the next use tries again.
func (p *program) begin() {
	p.working.Go(func() { // ends with the attempt
		defer close(p.settled)
		c, err := p.connect(context.Background())
		if err != nil {
			p.cfg.Log.Warn("program not started", "program", p.cfg.Info.Name, "error", p.shown(err.Error()), "help", "correct its command in the settings, or install it")
			return
		}
		c.leave()
	})
}

// started starts the program, unless it runs, and waits for that.
func (p *program) started(ctx context.Context) error {
	c, err := p.connect(ctx)
	if err != nil {
		return errors.New(p.shown(err.Error()))
	}
	c.leave()
	return nil
}

// use returns the running program as connect does. Its error is for clients.
func (p *program) use(ctx context.Context, code string) (*conn, error) {
	c, err := p.connect(ctx)
	return c, p.unavailable(ctx, err, code)
}

// useAlone is use for a process that serves one user, and ends when it leaves. There are a few at a time.
func (p *program) useAlone(ctx context.Context, code string) (*conn, error) {
	select {
	case p.alone <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.stop:
		return nil, plugins.ErrStopping
	}
	c, err := p.start()
	if err != nil {
		<-p.alone
		return nil, p.unavailable(ctx, err, code)
	}
	c.alone = true
	c.join()
	c.retire()
	if !p.succeed(c, func() { <-p.alone }) {
		c.close()
		return nil, plugins.ErrStopping
	}
	return c, nil
}

// unavailable returns the error of a use for clients, nil for none.
func (p *program) unavailable(ctx context.Context, err error, code string) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, plugins.ErrStopping) {
		return err
	}
	return &plugins.Error{Code: code, Message: fmt.Sprintf("The program of %s cannot be started: %s", p.cfg.Info.Name, p.shown(err.Error())), Retryable: true}
}

// connect returns the running program. If there is none it starts one, after the pause due to crashes. The caller must
// leave the connection.
func (p *program) connect(ctx context.Context) (*conn, error) {
	for {
		c, a := p.join()
		if c != nil {
			return c, nil
		}
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// join returns the running program, or the attempt to start it.
func (p *program) join() (*conn, *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil && p.conn.join() {
		return p.conn, nil
	}
	if p.attempt == nil {
		p.attempt = &attempt{done: make(chan struct{})}
		if p.closed {
			p.attempt.err = plugins.ErrStopping
			close(p.attempt.done)
			return nil, p.attempt
		}
		old := p.conn
		p.conn = nil
		p.working.Go(func() { p.try(p.attempt, old) }) // ends with the attempt; close waits
	}
	return nil, p.attempt
}

// try starts the program as the successor of old.
func (p *program) try(a *attempt, old *conn) {
	pause := p.after(old)
	var c *conn
	select {
	case <-time.After(pause):
		c, a.err = p.start()
	case <-p.stop:
		a.err = plugins.ErrStopping
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(a.done)
	p.attempt, p.conn, p.pause = nil, c, pause
	p.sick.Store(nil)
	if a.err == nil {
		p.failed = time.Time{}
	} else {
		if p.failed.IsZero() {
			p.failed = time.Now()
		}
		p.pause = longer(pause)
		p.sick.Store(&a.err)
	}
}

// after returns the delay before the start that follows old, which is nil for the first start and after a failed one.
func (p *program) after(old *conn) time.Duration {
	switch {
	case old == nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.pause
	case !old.crashed(): // it hangs, and ends when its users have left
		if !p.succeed(old, func() {}) {
			old.close()
		}
		return 0
	}
	old.close()
	if time.Since(old.born) >= healthy {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return longer(p.pause)
}

// succeed closes a retired connection when its users have left, and then calls then. It reports false if p is closed.
func (p *program) succeed(old *conn, then func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.working.Go(func() {
		select {
		case <-old.broken:
		case <-p.stop:
		}
		old.close()
		then()
	})
	return true
}

// renew replaces the running program by a new process.
func (p *program) renew() error {
	p.mu.Lock()
	old := p.conn
	if old == nil || p.attempt != nil || p.closed { // the next use starts it
		p.mu.Unlock()
		return nil
	}
	p.working.Add(1)
	p.mu.Unlock()
	defer p.working.Done()
	c, err := p.start()
	if err != nil {
		return errors.New(p.shown(err.Error()))
	}
	p.mu.Lock()
	if p.conn == old && p.attempt == nil {
		p.conn = c
	} else { // it has ended meanwhile, and was started again
		old = c
	}
	p.mu.Unlock()
	old.retire()
	if !p.succeed(old, func() {}) {
		old.close()
	}
	return nil
}

func longer(pause time.Duration) time.Duration { return min(max(2*pause, firstPause), maxPause) }

// start starts and initializes the program.
func (p *program) start() (*conn, error) {
	c, err := dial(&p.cfg, p.force)
	if err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	if err := p.greet(c); err != nil {
		c.close() // its end is logged before the error is returned
		if errors.Is(err, errCrashed) {
			err = cmp.Or(c.child.Err(), err)
		}
		return nil, fmt.Errorf("initialize: %w", reason(c.child, err))
	}
	c.log.Info("program started", "within", time.Since(c.born).Round(time.Millisecond))
	return c, nil
}

func (p *program) greet(c *conn) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.cfg.Start,
		fmt.Errorf("the program has not answered within %v", p.cfg.Start))
	defer cancel()
	p.working.Go(func() { // ends with the initialization
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	raw, err := c.ask(ctx, "initialize", struct {
		Protocol int    `json:"protocol"`
		Name     string `json:"name"`
		Alive    int64  `json:"alive"` // milliseconds
	}{Protocol, p.cfg.Info.Name, p.cfg.Alive.Milliseconds()})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &c.said); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if c.said.Protocol != Protocol {
		return fmt.Errorf("the program speaks version %d of the protocol, Baton version %d", c.said.Protocol, Protocol)
	}
	if err := p.fits(&c.said); err != nil {
		return err
	}
	p.said.Store(&c.said)
	if c.said.Alive {
		c.running.Go(func() { c.watch(p.cfg.Alive) }) // ends with the connection
	}
	return nil
}

// close ends the program and waits for its end. It kills all its processes once ctx is done.
func (p *program) close(ctx context.Context) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.stop)
	p.mu.Unlock()
	defer context.AfterFunc(ctx, func() { close(p.force) })()
	p.working.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.close()
	}
}
