package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Use is one recorded call of a worker: of Do, CallTool, CallAgent, Ask or Next.
type Use struct {
	// Place is where the call stands in the worker's code: what it stands in, what it calls, and the how-manieth
	// call of that it is there. "do:plan#1/tool:search#2" is the second call of the tool search inside the first Do
	// named plan. A worker that does the same when it is called again meets the same places, whatever of it was
	// recorded. Places of different workers of one run are the same; a host tells the workers apart.
	Place string
	// Name is that of the tool or the agent that is called, or of the Do.
	Name string
	// Request is what is asked: a tool's arguments, an agent's query, a question without what changes from call to
	// call. It is nil for Do and Next, which ask for nothing.
	Request json.RawMessage
	// ID is that of a call that was announced, whose record has been made with that of its Do.
	ID string
}

// Hash stands for the Request in a record.
func (u Use) Hash() string {
	if u.Request == nil {
		return ""
	}
	return digest(string(u.Request))
}

// Check fails when the record at u's place, made for the request of that hash, is not one of u's Request. A record
// without a hash fits any.
func (u Use) Check(hash string) error {
	if hash == "" || hash == u.Hash() {
		return nil
	}
	return &Error{Code: "replay_mismatch", Message: fmt.Sprintf(
		"%s was recorded with another request than it is called with now. A worker that is called again must ask the same "+
			"in the same places: what can differ belongs in a Do, and uses at the same time in CallTools or in a Branch each.",
		u.Place)}
}

// Inside returns the place of what belongs to the use, such as a call's approval.
func (u Use) Inside(name string) string { return u.path() + name }

// Counts reports whether a place inside the use is that of a Usage.
func (u Use) Counts(place string) bool {
	return strings.HasPrefix(place, u.path()) && strings.HasPrefix(place[strings.LastIndexByte(place, '/')+1:], "usage#")
}

// path is the front of places inside the use. Places stay short, however deep the code is.
func (u Use) path() string { return short(u.Place) + "/" }

// scope is where uses are counted: the worker itself, the function of a Do, or a branch.
type scope struct {
	run      *Run
	path     string            // the front of the places in it
	uses     map[string]int    // how many of each name there were; guarded by run.mu
	branches map[string]*scope // by key; likewise
	doing    map[string]bool   // what is running that nobody could tell apart: a Do of a name, a Next; likewise
	do       *doing            // the Do that it is in, nil outside of any
}

type scopeKey struct{}

func newScope(r *Run, path string) *scope {
	return &scope{run: r, path: path, uses: make(map[string]int), branches: make(map[string]*scope), doing: make(map[string]bool)}
}

// in returns a context in which uses stand in s.
func (s *scope) in(ctx context.Context) context.Context { return context.WithValue(ctx, scopeKey{}, s) }

// scopeOf returns where a use with ctx stands.
func (r *Run) scopeOf(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok && s.run == r {
		return s
	}
	return r.root
}

// place returns the next place of a kind and name in s. run.mu is held.
func (s *scope) place(kind, name string) string {
	what := kind
	if name != "" {
		what += ":" + segment(name)
	}
	s.uses[what]++
	return fmt.Sprintf("%s%s#%d", s.path, what, s.uses[what])
}

// begin refuses a use that asks for nothing while another such is running: nobody could tell the records of the two apart.
// run.mu is held.
func (s *scope) begin(what string) error {
	if s.doing[what] {
		return &Error{Code: "name_in_use", Message: what + " is running already: goroutines take a Branch each"}
	}
	if err := s.run.alive(); err != nil {
		return err
	}
	s.doing[what] = true
	return nil
}

func (s *scope) end(what string) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	delete(s.doing, what)
}

// Branch returns a context whose uses have places of their own: those of one key are counted apart from those of
// another and from what stands outside. Goroutines that use the same Do, tool, agent or question take a Branch each,
// with a key that is the same when the worker is called again. Without one their places are given in the order in which
// they come, which may be another the next time: who then meets the record of another request gets replay_mismatch. A
// Do and a Next, which have no request, are refused with name_in_use while another Do of the name, or another Next, is
// running in the same place.
//
//	for _, city := range cities {
//		ctx := run.Branch(ctx, city)
//		run.Go(func() error { return tell(ctx, run, city) })
//	}
func (r *Run) Branch(ctx context.Context, key string) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scopeOf(ctx)
	b := s.branches[key]
	if b == nil {
		b = newScope(r, short(s.path+"branch:"+segment(key))+"/")
		b.do = s.do
		s.branches[key] = b
	}
	return b.in(ctx)
}

var escapes = strings.NewReplacer("%", "%25", "/", "%2F", "#", "%23", "\x00", "%00")

// segment is a name as a part of a place.
func segment(name string) string { return short(escapes.Replace(strings.ToValidUTF8(name, "\uFFFD"))) }

// short keeps parts of places, which are keys in databases, within a length.
func short(s string) string {
	if len(s) <= 250 {
		return s
	}
	return "~" + digest(s)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
