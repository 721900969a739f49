package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

var errCrashed = errors.New("plugintest: the process died")

// session is one run: its log, and what is kept from one call of the worker to the next.
type session struct {
	cfg   Config
	agent plugins.Agent
	in    plugins.Input

	mu          sync.Mutex // guards the fields below
	textEnded   *sync.Cond
	texting     *host // whose text message is open
	verifier    agui.Verifier
	fold        *fold.Fold
	events      []agui.Event
	illegal     []error
	records     map[string]*record // by place
	made        int                // how many of them are done
	open        []question         // without an answer
	questions   []agui.Interrupt
	answered    int // how many of cfg.Answers have been given
	taken       int // how many of cfg.Next have been taken
	ids         map[string]int
	interrupted map[string]bool // ids of messages, and of calls, that a crash cut short
	cut         []string        // ids of messages that a Do has begun in which the process has died
	retracted   map[string]bool // ids of messages that were taken back
	usage       []agui.TokenUsage
	once        []agui.TokenUsage // of it what was counted outside of any Do
	lastCall    plugins.ModelCall // of which it is known how it ended
	die         func()            // ends the call of the worker that goes on
	dead        func() bool       // reports whether it has ended it
}

// record is what is kept of one use from one call of the worker to the next.
type record struct {
	hash   string // of the request
	id     string // of the tool call, the sub-agent or the question, once it is there
	begun  bool   // the tool has been called
	done   bool
	output json.RawMessage
}

// question is what a run waits for: a person's answer, or the result of a call that the client makes.
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
		in:          completed(cfg.Input, a.Info().Name),
		fold:        fold.New(nil, nil),
		records:     map[string]*record{},
		ids:         map[string]int{},
		interrupted: map[string]bool{},
		retracted:   map[string]bool{},
	}
	s.textEnded = sync.NewCond(&s.mu)
	return s
}

// completed fills in what an author need not write.
func completed(in plugins.Input, node string) plugins.Input {
	if in.Messages == nil && in.Query != "" {
		in.Messages = []agui.Message{{ID: "query", Role: agui.RoleUser, Content: in.Query}}
	}
	if in.Query == "" {
		for _, m := range in.Messages {
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

// run calls the worker until it ends or waits for what cfg does not answer. It holds s.mu but for the
// calls; so do the methods below.
func (s *session) run(ctx context.Context) (*Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startSpan(s.in.Messages)
	if string(s.in.State) != "{}" {
		s.write(agui.StateSnapshot{Snapshot: s.in.State})
	}
	for {
		out, err := s.call(ctx)
		switch {
		case errors.Is(err, errCrashed):
			s.cutShort()
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
	out, err := plugins.Execute(ctx, s.agent, plugins.NewRun(h, s.in))
	cause := context.Cause(ctx)
	cancel(plugins.ErrEnded)
	watch.Wait()
	s.mu.Lock()
	if errors.Is(cause, errCrashed) {
		err = cause
	}
	return out, err
}

func (s *session) result(out agui.WorkerOutput, err error) *Result {
	return &Result{
		Output:      out,
		Err:         err,
		Events:      s.events,
		Questions:   s.questions,
		Records:     s.made,
		Usage:       s.usage,
		once:        s.once,
		messages:    slices.DeleteFunc(s.fold.Messages(), func(m agui.Message) bool { return s.retracted[m.ID] }),
		state:       s.fold.State(),
		interrupted: s.interrupted,
	}
}

// write is add for events that are not a worker's. An illegal one is remembered.
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
		for _, id := range plugins.RetractedBy(ev) {
			s.retracted[id] = true
		}
	}
	if _, open := s.verifier.OpenText(); !open {
		s.texting = nil
		s.textEnded.Broadcast()
	}
	return nil
}

// refuse remembers what the worker must not do.
func (s *session) refuse(err error) error {
	s.illegal = append(s.illegal, err)
	return err
}

// keep completes a record, together with the events behind the first since. The process may die before or after.
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

// repeats notes the messages behind the first since events as cut short, when the process has died: the Do that has
// begun them is done again.
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

// rewind takes back the events behind the first n, which were not stored.
func (s *session) rewind(n int) {
	events := s.events[:n]
	s.events, s.verifier, s.fold = nil, agui.Verifier{}, fold.New(nil, nil)
	for _, ev := range events {
		s.write(ev)
	}
}

// id mints an id.
func (s *session) id(kind string) string {
	s.ids[kind]++
	return fmt.Sprintf("%s-%d", kind, s.ids[kind])
}

// answer gives answers to the open questions and starts the next span, if cfg has enough of them.
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

// reply writes what an answer shows in the log and returns its record.
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

// withdraw closes the questions inside of a sub-agent that has failed.
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
			q.rec.id = "" // the sub-agent may be called again, and ask again
		}
		return true
	})
}

// text returns the string that raw is, or else raw.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// owed reports whether the client is to answer the call.
func (s *session) owed(callID string) bool {
	return slices.ContainsFunc(s.open, func(q question) bool { return q.call.ToolCallID == callID })
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // v is a struct of ours, and what it holds has been marshalled before
	}
	return raw
}
