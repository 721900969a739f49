package process

import (
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

// Protocol is the version of the protocol that is spoken here.
const Protocol = 1

const (
	firstPause = 100 * time.Millisecond // before a program that crashed is started again
	maxPause   = 30 * time.Second
	healthy    = time.Minute // how long it must have run for its crash to count as the first
)

// hello is a program's answer to initialize.
type hello struct {
	Protocol int        `json:"protocol"`
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
	Approval    bool            `json:"approval"`
}

// program keeps a program running while it is wanted.
type program struct {
	cfg  Config
	said atomic.Pointer[hello] // of the latest start
	sick atomic.Pointer[error] // why the latest start failed; nil when it did not

	stop    chan struct{}  // closed by close
	working sync.WaitGroup // what starts it, and what waits for those that are put aside

	mu      sync.Mutex // guards the fields below
	conn    *conn      // nil before the first start
	attempt *attempt   // the start that goes on; nil for none
	pause   time.Duration
	failed  time.Time // when the first of the starts failed of which none has succeeded; zero for none
	closed  bool
}

// attempt is one start of a program.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

func newProgram(cfg Config) (*program, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("the command is empty")
	}
	if cfg.Start < 0 || cfg.Stop < 0 {
		return nil, errors.New("a time is negative")
	}
	cfg.Start = cmp.Or(cfg.Start, 10*time.Second)
	cfg.Stop = cmp.Or(cfg.Stop, 5*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	return &program{cfg: cfg, stop: make(chan struct{})}, nil
}

// open starts the program and has what it says of itself checked. When that fails it is closed: nobody else does it.
func (p *program) open(ctx context.Context, check func(*hello) error) error {
	c, err := p.connect(ctx)
	if err == nil {
		defer c.leave()
		err = check(&c.said)
	}
	if err != nil {
		p.close()
	}
	return err
}

// connect returns the running program, which it starts when there is none, after the pause that its crashes have
// earned it. The caller leaves the connection.
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

// try starts the program anew after old.
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

// after returns how long to wait before the start that follows old, which is nil for the first and for one that
// follows an attempt that failed.
func (p *program) after(old *conn) time.Duration {
	switch {
	case old == nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.pause
	case !old.crashed(): // it hangs, and goes when it has nothing more to do
		p.working.Go(func() {
			select {
			case <-old.broken:
			case <-p.stop:
			}
			old.close()
		})
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

func longer(pause time.Duration) time.Duration { return min(max(2*pause, firstPause), maxPause) }

// start starts the program and greets it.
func (p *program) start() (*conn, error) {
	c, err := dial(&p.cfg)
	if err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	if err := p.greet(c); err != nil {
		c.close()
		if errors.Is(err, errCrashed) {
			err = cmp.Or(c.child.Err(), err)
		}
		return nil, fmt.Errorf("initialize: %w", err)
	}
	return c, nil
}

func (p *program) greet(c *conn) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.cfg.Start,
		fmt.Errorf("the program has not answered within %v", p.cfg.Start))
	defer cancel()
	p.working.Go(func() { // ends with the greeting
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	raw, err := c.ask(ctx, "initialize", struct {
		Protocol int    `json:"protocol"`
		Name     string `json:"name"`
	}{Protocol, p.cfg.Info.Name})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &c.said); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if c.said.Protocol != Protocol {
		return fmt.Errorf("the program speaks version %d of the protocol, Baton version %d", c.said.Protocol, Protocol)
	}
	p.said.Store(&c.said)
	return nil
}

// check says why the program cannot be started.
func (p *program) check() error {
	if err := p.sick.Load(); err != nil {
		return *err
	}
	return nil
}

// close ends the program and waits for its end.
func (p *program) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.stop)
	p.mu.Unlock()
	p.working.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.close()
	}
}
