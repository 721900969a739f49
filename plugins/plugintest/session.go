package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

var errCrashed = errors.New("plugintest: the process died")

// session is one run: its log, and the data that survives a crash.
type session struct {
	cfg   Config
	agent plugins.Agent
	in    plugins.Input

	mu          sync.Mutex // guards the fields below
	textEnded   *sync.Cond
	texting     *host // the host with an open text message
	verifier    agui.Verifier
	fold        *fold.Fold
	events      []agui.Event
	illegal     []error
	records     map[string]*record // by place
	made        int                // number of completed records
	open        []question         // unanswered
	questions   []agui.Interrupt
	answered    int // number of cfg.Answers used
	taken       int // number of cfg.Next used
	ids         map[string]int
	remembered  map[string]string
	interrupted map[string]bool // ids of messages and calls that a crash interrupted
	cut         []string        // ids of messages of Dos that a crash interrupted
	retracted   map[string]bool // ids of retracted messages
	usage       []agui.TokenUsage
	once        []agui.TokenUsage // the part of usage that was counted outside of any Do
	lastCall    plugins.ModelCall // the last with a known FinishReason
	slept       time.Duration     // how far the clock was moved
	began       time.Time
	due         time.Time    // the first end of a wait, zero for none
	waits       plugins.Wait // that ends then
	awaited     []string     // names of the events that are waited for
	inbox       []Event      // not received yet, in the order in which they come
	die         func()       // ends the running call of the worker
	dead        func() bool  // reports whether die was called
}

// record is the record of one use.
type record struct {
	hash   string // of the request
	id     string // of the tool call, the sub-agent or the question, once known
	begun  bool   // the tool has been called
	done   bool
	output json.RawMessage
}

// question is an open question to a person, or a call that the client executes.
type question struct {
	rec       *record
	place     string
	interrupt agui.Interrupt
	call      agui.ToolOutput // of a call, without the result
}

func (q *question) isCall() bool { return q.call.ToolCallID != "" }

func newSession(a plugins.Agent, cfg Config) *session {
	s := &session{
		cfg:         cfg,
		agent:       a,
		fold:        fold.New(nil, nil),
		records:     map[string]*record{},
		ids:         map[string]int{},
		remembered:  map[string]string{},
		interrupted: map[string]bool{},
		retracted:   map[string]bool{},
	}
	s.began, s.inbox = time.Now(), slices.Clone(cfg.Events)
	slices.SortStableFunc(s.inbox, func(a, b Event) int { return cmp.Compare(a.After, b.After) })
	maps.Copy(s.remembered, cfg.Remembered)
	if query := cfg.Input.Query; s.cfg.Messages == nil && query != "" {
		s.cfg.Messages = []agui.Message{{ID: "query", Role: agui.RoleUser, Content: query}}
	}
	s.in = completed(cfg.Input, s.cfg.Messages, a.Info().Name)
	s.textEnded = sync.NewCond(&s.mu)
	return s
}

// completed fills in the defaults of an author's input.
func completed(in plugins.Input, messages []agui.Message, node string) plugins.Input {
	if in.Query == "" {
		for _, m := range messages {
			if m.Role == agui.RoleUser {
				in.Query = m.Text()
			}
		}
	}
	if in.State == nil {
		in.State = json.RawMessage("{}")
	}
	for field, def := range map[*string]string{
		&in.ThreadID: "thread", &in.RunID: "run", &in.User: "user", &in.Project: "project", &in.Node: node,
	} {
		if *field == "" {
			*field = def
		}
	}
	in.Execution = max(in.Execution, 1)
	return in
}

// run calls the worker until it ends or waits for an answer that cfg does not have. It holds s.mu except during the calls.
// The caller of the methods below holds it too.
func (s *session) run(ctx context.Context) (*Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startSpan(s.cfg.Messages)
	if string(s.in.State) != "{}" {
		s.write(agui.StateSnapshot{Snapshot: s.in.State})
	}
	for {
		out, err := s.call(ctx)
		switch {
		case errors.Is(err, errCrashed):
			s.cutShort()
			continue
		case errors.Is(err, plugins.ErrWaiting) && len(s.open) == 0 && !s.due.IsZero():
			s.sleep()
			continue
		case errors.Is(err, plugins.ErrWaiting):
			s.wait()
			if s.answer() {
				continue
			}
		default:
			s.finish(err)
		}
		return s.result(out, err), errors.Join(s.illegal...)
	}
}

// call calls the worker once.
func (s *session) call(ctx context.Context) (agui.WorkerOutput, error) {
	s.due, s.awaited = time.Time{}, nil
	ctx, cancel := context.WithCancelCause(ctx)
	s.die = func() { cancel(errCrashed) }
	s.dead = func() bool { return errors.Is(context.Cause(ctx), errCrashed) }
	h := &host{ctx: ctx, s: s, agent: s.agent.Info().Name}
	s.mu.Unlock()
	var watch sync.WaitGroup
	watch.Go(func() { // ends with the call
		select {
		case <-s.cfg.Crash:
			cancel(errCrashed)
		case <-ctx.Done():
		}
	})
	out, err := plugins.Execute(ctx, s.agent, h, s.in)
	cause := context.Cause(ctx)
	cancel(plugins.ErrEnded)
	watch.Wait()
	s.mu.Lock()
	if errors.Is(cause, errCrashed) {
		err = cause
	}
	return out, err
}

// now returns the time of the session, on a clock that waits move.
func (s *session) now() time.Time { return time.Now().Add(s.slept) }

// rest notes a wait and its end.
func (s *session) rest(w plugins.Wait, until time.Time) {
	s.awaited = append(s.awaited, w.Event)
	if s.due.IsZero() || until.Before(s.due) {
		s.due, s.waits = until, w
	}
}

// sleep parks the run and moves the clock to the first end of a wait, or to the event that ends one before.
func (s *session) sleep() {
	s.cutShort()
	kind, until, by := "time", s.due, ""
	if s.waits.Event != "" {
		kind = "event"
	}
	for _, e := range s.inbox {
		if at := s.began.Add(e.After); at.Before(until) && slices.Contains(s.awaited, e.Name) {
			until, by = at, e.Name
			break
		}
	}
	s.write(agui.Parked(s.agent.Info().Name, kind, s.waits.Event, s.due))
	s.slept += max(until.Sub(s.now()), 0)
	s.write(agui.Woken(s.agent.Info().Name, by))
}

// arrived returns the first event of a name that has come and was not received: its place in the inbox, or -1.
func (s *session) arrived(name string) int {
	return slices.IndexFunc(s.inbox, func(e Event) bool { return e.Name == name && !s.began.Add(e.After).After(s.now()) })
}

func (s *session) result(out agui.WorkerOutput, err error) *Result {
	return &Result{
		Output:      out,
		Err:         err,
		Events:      s.events,
		Questions:   s.questions,
		Records:     s.made,
		Usage:       s.usage,
		Remembered:  s.remembered,
		once:        s.once,
		messages:    slices.DeleteFunc(s.fold.Messages(), func(m agui.Message) bool { return s.retracted[m.ID] }),
		state:       s.fold.State(),
		interrupted: s.interrupted,
	}
}

// write is add for the session's own events. Illegal ones are recorded as well.
func (s *session) write(ev agui.Event) { _ = s.add(ev) }

// add writes ev to the log unless it is illegal.
func (s *session) add(ev agui.Event) error {
	err := s.verifier.Add(ev)
	if err == nil {
		_, err = s.fold.Apply(ev)
	}
	if err != nil {
		return s.refuse(err)
	}
	s.events = append(s.events, ev)
	if ev, ok := ev.(agui.Custom); ok {
		for _, id := range agui.RetractedBy(ev) {
			s.retracted[id] = true
		}
	}
	if _, open := s.verifier.OpenText(); !open {
		s.texting = nil
		s.textEnded.Broadcast()
	}
	return nil
}

// refuse records a mistake of the worker.
func (s *session) refuse(err error) error {
	s.illegal = append(s.illegal, err)
	return err
}

// keep completes a record together with the events after the first since. The process can die before or after.
func (s *session) keep(rec *record, output json.RawMessage, since int) error {
	if s.made+1 == s.cfg.CrashBefore {
		s.cfg.CrashBefore = 0
		s.rewind(since)
		s.die()
		return errCrashed
	}
	rec.done, rec.output = true, output
	s.made++
	if s.made == s.cfg.CrashAfter {
		s.die()
		return errCrashed
	}
	return nil
}

// repeats marks the messages after the first since events as interrupted by a crash: their Do is repeated.
func (s *session) repeats(since int, d *doing) {
	if !s.dead() {
		return
	}
	s.cut = append(s.cut, d.shown...)
	for _, ev := range s.events[min(since, len(s.events)):] {
		switch e := ev.(type) {
		case agui.TextMessageStart:
			s.interrupted[e.MessageID] = true
		case agui.ReasoningMessageStart:
			s.interrupted[e.MessageID] = true
		}
	}
}

// rewind removes the events after the first n, which were not stored.
func (s *session) rewind(n int) {
	events := s.events[:n]
	s.events, s.verifier, s.fold = nil, agui.Verifier{}, fold.New(nil, nil)
	for _, ev := range events {
		s.write(ev)
	}
}

// id returns a new id.
func (s *session) id(kind string) string {
	s.ids[kind]++
	return fmt.Sprintf("%s-%d", kind, s.ids[kind])
}

// answer answers the open questions and starts the next span, if cfg has enough answers.
func (s *session) answer() bool {
	give := s.cfg.Answer
	if give == nil {
		left := s.cfg.Answers[s.answered:]
		if len(left) < len(s.open) {
			return false
		}
		s.answered += len(s.open)
		give = func(agui.Interrupt) (next plugins.Answer) {
			next, left = left[0], left[1:]
			return next
		}
	}
	s.startSpan(nil)
	for _, q := range s.open {
		q.rec.done, q.rec.output = true, s.reply(&q, give(q.interrupt))
		s.made++
	}
	s.open = nil
	return true
}

// reply writes the events of an answer and returns its record.
func (s *session) reply(q *question, a plugins.Answer) json.RawMessage {
	if !q.isCall() {
		return encode(a)
	}
	out := q.call
	out.Status, out.ResultSummary = agui.StatusSuccess, text(a.Payload)
	if a.Cancelled {
		out = failed(out, &plugins.Error{Code: "declined", Message: "the client declined the call"}, "")
	}
	s.write(agui.ToolCallResult{
		MessageID:  s.id("result"),
		ToolCallID: out.ToolCallID,
		Content:    out.ResultSummary,
		Output:     &out,
	})
	return encode(out)
}

// withdraw closes the questions inside a failed sub-agent.
func (s *session) withdraw(inside string) {
	s.open = slices.DeleteFunc(s.open, func(q question) bool {
		switch {
		case !strings.HasPrefix(q.place, inside):
			return false
		case q.isCall():
			out := failed(q.call, errInterrupted, "")
			s.write(agui.ToolCallResult{MessageID: s.id("result"), ToolCallID: out.ToolCallID, Content: out.ResultSummary, Output: &out})
			q.rec.done, q.rec.output = true, encode(out)
			s.made++
		default:
			q.rec.id = "" // the sub-agent can be called and ask again
		}
		return true
	})
}

// text returns the string in raw, or raw itself.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// owed reports whether the client has to execute the call.
func (s *session) owed(callID string) bool {
	return slices.ContainsFunc(s.open, func(q question) bool { return q.call.ToolCallID == callID })
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own structs always marshal
	}
	return raw
}
