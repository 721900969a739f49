package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// Use is one recorded call by a worker: Do, CallTool, CallAgent, Ask, Next or Usage.
type Use struct {
	// Place is the call's position in the worker's code: its enclosing calls, its kind and name, and its ordinal among
	// equal calls there. "do:plan#1/tool:search#2" is the second call of the tool search inside the first Do named
	// plan. A replayed worker that makes the same calls gets the same places. Workers of one run can have equal places;
	// a host distinguishes the workers.
	Place string
	// Name is the name of the called tool or agent, or of the Do.
	Name string
	// Request is a tool's arguments, an agent's query, or a question without the fields that differ on each replay. It
	// is nil for Do, Next and Usage.
	Request json.RawMessage
	// ID is the id of an announced call. The record of the call was made with the record of its Do.
	ID string
	// Output is the output of a tool call that its worker answers itself. A replayed worker answers the same calls.
	Output *agui.ToolOutput
	// Edited replaces the arguments of a tool call that a guard has rewritten: the call is made with them, and shown like one
	// that an approver has edited. nil makes it with Request.
	Edited json.RawMessage
	// Recheck asks the guards about arguments that an approver has edited. An output refuses them. nil if there are no guards.
	Recheck func(args json.RawMessage) (*agui.ToolOutput, error)
	// Approval is the question of a guard that makes a tool call wait for a person's approval; empty for none.
	Approval string
}

// Hash identifies the Request in a record: a digest, and the beginning of the Request, which errors show.
func (u Use) Hash() string {
	if u.Request == nil {
		return ""
	}
	const shown = 200 // bytes
	return digest(string(u.Request)) + " " + strings.ToValidUTF8(string(u.Request[:min(len(u.Request), shown)]), "")
}

// Check fails if hash, the request hash in the record at u's place, differs from the hash of u's Request. An empty hash
// matches any request.
func (u Use) Check(hash string) error {
	if hash == "" || hash == u.Hash() {
		return nil
	}
	_, recorded, _ := strings.Cut(hash, " ")
	_, now, _ := strings.Cut(u.Hash(), " ")
	return &Error{Code: "replay_mismatch", Message: fmt.Sprintf(
		"%s was recorded with another request: %s, and now it is %s. A replayed worker must make the same requests "+
			"in the same places: put what can differ in a Do, and make concurrent calls with CallTools or in a Branch each.",
		u.Place, recorded, now)}
}

// Inside returns a place inside the use, such as that of a call's approval.
func (u Use) Inside(name string) string { return u.path() + segment(name) }

// Question returns the place of a question that a tool asks during the call u. See Call.Ask.
func (u Use) Question(key string) string { return u.Inside("ask:" + key) }

// Counts reports whether place is that of a Usage inside the use.
func (u Use) Counts(place string) bool {
	return strings.HasPrefix(place, u.path()) && strings.HasPrefix(place[strings.LastIndexByte(place, '/')+1:], "usage#")
}

// path is the prefix of places inside the use. Its length is limited at any depth.
func (u Use) path() string { return short(u.Place) + "/" }

// scope counts the uses of the worker itself, of the function of a Do, or of a branch.
type scope struct {
	run      *Run
	path     string            // prefix of the places in the scope
	uses     map[string]int    // by kind and name; guarded by run.mu
	branches map[string]*scope // by key; guarded by run.mu
	doing    map[string]bool   // running uses without a request: a Do by its name, a Next; guarded by run.mu
	do       *doing            // the enclosing Do, nil outside of any
}

type scopeKey struct{}

func newScope(r *Run, path string) *scope {
	return &scope{run: r, path: path, uses: make(map[string]int), branches: make(map[string]*scope), doing: make(map[string]bool)}
}

// in returns a context that places uses in s.
func (s *scope) in(ctx context.Context) context.Context { return context.WithValue(ctx, scopeKey{}, s) }

// scopeOf returns the scope of a use with ctx.
func (r *Run) scopeOf(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok && s.run == r {
		return s
	}
	return r.root
}

// place returns the next place of a kind and name in s. The caller holds run.mu.
func (s *scope) place(kind, name string) string {
	what := kind
	if name != "" {
		what += ":" + segment(name)
	}
	s.uses[what]++
	return fmt.Sprintf("%s%s#%d", s.path, what, s.uses[what])
}

// begin refuses a use without a request while an equal one is running, because their records could not be distinguished.
// The caller holds run.mu.
func (s *scope) begin(what string) error {
	if s.doing[what] {
		return &Error{Code: "name_in_use", Message: what + " is already running: use a Branch for each goroutine"}
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

// Branch returns a context with places of its own: uses are counted separately for each key. Goroutines that use the same
// Do, tool, agent or question need a Branch each, with a key that is the same on replay. Otherwise places depend on the
// order in which the goroutines arrive, and a replay can fail with replay_mismatch. Do and Next, which have no request,
// fail with name_in_use while another Do of that name, or another Next, is running in the same place.
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

// segment escapes a name for use in a place.
func segment(name string) string { return short(escapes.Replace(strings.ToValidUTF8(name, "\uFFFD"))) }

// short limits the length of a part of a place, because places are database keys.
func short(s string) string {
	switch {
	case len(s) <= 250:
		return s
	case IsVerdict(s):
		return verdictPlace + "~" + digest(s)
	}
	return "~" + digest(s)
}

// verdictPlace begins the segment of a place below which guards record their verdicts. Other segments never begin with it.
const verdictPlace = "guard:"

// IsVerdict reports whether a place is of a guard: its verdict, or what it recorded to reach it.
func IsVerdict(place string) bool {
	return strings.HasPrefix(place, verdictPlace) || strings.Contains(place, "/"+verdictPlace)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// announcedUse is the use of an announced call. The id makes its place unique anywhere in the worker.
func (r *Run) announcedUse(id, tool string) Use {
	return Use{Place: r.root.path + "call:" + segment(id), Name: tool, ID: id}
}
