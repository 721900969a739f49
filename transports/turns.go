package transports

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// turns are for answers that may be large: while one is made, what it shows is in memory several times. Only so many are made at
// a time, with accounts half of them for one user, and others wait: users one after the other, and each for as many as it asks for.
// What waits is bounded as requests are.
type turns struct {
	each int // of one user

	mu   sync.Mutex // guards the fields below
	free int
	by   map[asker]*ownTurns
	line []*ownTurns // whose requests wait, who is next first
}

// asker is a user of a project, or who acts in another's stead.
type asker struct{ project, actor string }

// ownTurns are those of one who asks. They are forgotten when nothing of it waits or has one.
type ownTurns struct {
	who     asker
	has     int
	waiting []chan struct{} // each closed when it is that request's turn
}

// newTurns returns as many as are worth it: more at a time would not be done sooner.
func newTurns(accounts bool) *turns {
	all := max(2, goruntime.GOMAXPROCS(0))
	each := all
	if accounts {
		each = all / 2
	}
	return &turns{free: all, each: each, by: make(map[asker]*ownTurns)}
}

// Turn waits until it is the caller's turn to be given an answer that may be large, which it is until end is called: once the answer
// is made and counts in the budget, and not when it was taken. It fails with the cause of ctx's end, unless
// a turn is free.
func (s *Streams) Turn(ctx context.Context, who runtime.Caller) (end func(), err error) {
	t := s.turns
	own, turn := t.ask(asker{who.Project(), who.Actor()})
	select {
	case <-turn:
	case <-ctx.Done():
		if t.leave(own, turn) {
			return nil, context.Cause(ctx)
		}
	}
	return func() { t.end(own) }, nil
}

// inTurn has a handler answer when it is the caller's turn.
func (s *Streams) inTurn(h auth.Handler) auth.Handler {
	return func(c *fiber.Ctx, who runtime.Caller) error {
		end, err := s.Turn(c.UserContext(), who)
		if err != nil {
			return err
		}
		defer end()
		return h(c, who)
	}
}

// ask puts a request in line, and returns what is closed when it is its turn.
func (t *turns) ask(who asker) (*ownTurns, chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.by[who]
	if own == nil {
		own = &ownTurns{who: who}
		t.by[who] = own
	}
	if len(own.waiting) == 0 {
		t.line = append(t.line, own)
	}
	turn := make(chan struct{})
	own.waiting = append(own.waiting, turn)
	t.give()
	return own, turn
}

// leave takes a request out of the line. It reports false when it has its turn.
func (t *turns) leave(own *ownTurns, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(own.waiting, turn)
	if i < 0 {
		return false
	}
	if own.waiting = slices.Delete(own.waiting, i, i+1); len(own.waiting) == 0 {
		t.line = slices.DeleteFunc(t.line, func(o *ownTurns) bool { return o == own })
	}
	t.forget(own)
	return true
}

func (t *turns) end(own *ownTurns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	own.has--
	t.give()
	t.forget(own)
}

// give gives the turns that are free to those who are first in line and may have one more, which then go behind the others. The
// caller holds mu.
func (t *turns) give() {
	for t.free > 0 {
		i := slices.IndexFunc(t.line, func(o *ownTurns) bool { return o.has < t.each })
		if i < 0 {
			return
		}
		own := t.line[i]
		t.line = slices.Delete(t.line, i, i+1)
		t.free--
		own.has++
		close(own.waiting[0])
		if own.waiting = own.waiting[1:]; len(own.waiting) > 0 {
			t.line = append(t.line, own)
		}
	}
}

// forget forgets who has no turn and waits for none. The caller holds mu.
func (t *turns) forget(own *ownTurns) {
	if own.has == 0 && len(own.waiting) == 0 {
		delete(t.by, own.who)
	}
}
