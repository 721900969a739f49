package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/batonrun/baton/plugins"
)

// session is one run in a program. The program's messages are handled in order: notifications at once, and requests one
// after the other within their scope, concurrently with other scopes.
type session struct {
	id     int64
	c      *conn
	run    *plugins.Run
	ctx    context.Context
	result chan message // receives the run's result: the response to run, after all other messages, or a mistake

	answered chan message // receives the response to run

	dead chan struct{} // closed once the program has ended and its messages are handled

	working sync.WaitGroup // its goroutines

	mu     sync.Mutex // guards the fields below
	more   *sync.Cond // inbox has grown, or over is set
	inbox  []parcel
	size   int // of inbox and lanes
	over   bool
	scopes map[string]*scope
	minted int // tokens of scopes

	texts map[int]io.WriteCloser // open messages by the program's numbers; used by serve alone
}

// parcel is a message with the length of its line.
type parcel struct {
	message
	size int
}

// scope is the run, a Do of it, or a branch. Its requests are handled one at a time.
type scope struct {
	ctx  context.Context
	lane []parcel // requests waiting for the current one
	busy bool
	do   *doing // nil for the run and for a branch
	done bool   // its Do has ended
}

const (
	// perRequest is the memory of a request besides its line, with the goroutine that can handle it.
	perRequest = 1 << 10
	maxScopes  = 10_000 // of one run
	maxTexts   = 1000
)

func newSession(ctx context.Context, c *conn, id int64, run *plugins.Run) *session {
	s := &session{
		id: id, c: c, run: run, ctx: ctx, result: make(chan message, 1), answered: make(chan message, 1), dead: make(chan struct{}),
		scopes: map[string]*scope{"": {ctx: ctx}}, texts: make(map[int]io.WriteCloser),
	}
	s.more = sync.NewCond(&s.mu)
	s.working.Go(s.serve) // ends with close
	return s
}

// close ends the session and waits until it no longer uses the run. The context passed to open is done.
func (s *session) close() {
	s.c.mu.Lock()
	delete(s.c.sessions, s.id)
	s.c.mu.Unlock()

	s.mu.Lock()
	s.over = true
	s.more.Broadcast()
	s.mu.Unlock()
	s.working.Wait()
}

// put queues a message of the program. It does not block: a program that writes much more than the run can accept fails
// the run.
func (s *session) put(m message, size int) {
	if m.Method != "" && !emitting(m.Method) {
		size += perRequest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+size > maxInbox {
		s.finish(message{Error: failureOf(&plugins.Error{
			Code: "overrun", Message: fmt.Sprintf("The agent wrote more than %d bytes, or as many requests, faster than they could be handled", maxInbox),
		})})
		return
	}
	s.size += size
	s.inbox = append(s.inbox, parcel{m, size})
	s.more.Signal()
}

// finish sets the run's result unless it has one. The caller holds s.mu.
func (s *session) finish(m message) {
	select {
	case s.result <- m:
	default:
	}
}

// serve handles the queued messages.
func (s *session) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.inbox) == 0 && !s.over {
			s.more.Wait()
		}
		if s.over {
			return
		}
		p := s.inbox[0]
		s.inbox = s.inbox[1:]
		if p.Method == "" {
			if p.died {
				close(s.dead)
			}
			s.finish(p.message)
			return
		}
		s.mu.Unlock()
		s.handle(p)
		s.mu.Lock()
	}
}

// handle executes a message, or queues it in its scope's lane.
func (s *session) handle(p parcel) {
	switch {
	case emitting(p.Method):
		s.settle(p, func() (any, error) { return nil, s.emit(p.Method, p.Params) })
	case p.ID == nil:
		s.settle(p, func() (any, error) { return nil, &badParams{"it needs an id"} })
	case p.Method == "done": // it frees the lane that contains its Do
		recorded := s.done(p) // at once, because the program may have died next
		s.working.Go(func() { s.settle(p, recorded) })
	default:
		s.queue(p)
	}
}

// queue handles a request after the earlier ones of its scope.
func (s *session) queue(p parcel) {
	var in struct {
		In string `json:"in"`
	}
	err := json.Unmarshal(p.Params, &in)
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scopes[in.In]
	switch {
	case err != nil || sc == nil:
		s.working.Go(func() {
			s.settle(p, func() (any, error) { return nil, &badParams{fmt.Sprintf("there is no scope %q", in.In)} })
		})
	case sc.busy:
		sc.lane = append(sc.lane, p)
	default:
		sc.busy = true
		s.working.Go(func() { s.drain(sc, p) }) // ends with the lane, whose requests end with s.ctx
	}
}

// drain handles p and the following requests of its scope.
func (s *session) drain(sc *scope, p parcel) {
	for {
		s.work(sc.ctx, p)
		s.mu.Lock()
		if len(sc.lane) == 0 || s.isDead() {
			sc.busy = false
			s.mu.Unlock()
			return
		}
		p = sc.lane[0]
		sc.lane = sc.lane[1:]
		s.mu.Unlock()
	}
}

// isDead reports whether the program has ended: nobody waits for its further requests, and it makes them again.
func (s *session) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

// work handles a request that can block.
func (s *session) work(ctx context.Context, p parcel) {
	s.settle(p, func() (any, error) { return s.request(ctx, p) })
}

// settle executes p and sends the response. A failed notification has no response and fails the run.
func (s *session) settle(p parcel, fn func() (any, error)) {
	result, err := guard(fn)
	s.mu.Lock()
	s.size -= p.size
	if p.ID == nil && err != nil {
		s.finish(message{Error: failureOf(fmt.Errorf("%s: %w", p.Method, err))})
	}
	s.mu.Unlock()
	if p.ID != nil && !errors.Is(err, errAnswered) {
		s.reply(p, result, err)
	}
}

func (s *session) reply(p parcel, result any, err error) {
	switch {
	case err != nil:
		s.c.send(message{ID: p.ID, Error: failureOf(err)})
	case result == nil:
		s.c.send(message{ID: p.ID, Result: json.RawMessage("{}")})
	default:
		s.c.send(message{ID: p.ID, Result: encode(result)})
	}
}

// guard turns a panic into an error.
func guard(fn func() (any, error)) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &plugins.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}

// begin creates a scope and returns its token.
func (s *session) begin(ctx context.Context, do *doing) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scopes) > maxScopes {
		return "", &badParams{fmt.Sprintf("a run may have %d scopes at a time", maxScopes)}
	}
	s.minted++
	token := "s" + strconv.Itoa(s.minted)
	s.scopes[token] = &scope{ctx: ctx, do: do}
	return token, nil
}

// end removes a scope. The requests in its lane are still handled.
func (s *session) end(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.scopes, token)
}
