package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/runtime/agui"
)

// answer is the record of one answer of the model.
type answer struct {
	Text   string              `json:"text,omitempty"`
	Calls  []call              `json:"calls,omitempty"`
	Kept   *kept               `json:"kept,omitempty"`
	Call   plugins.ModelCall   `json:"call"`
	Fitted []fitted            `json:"fitted,omitempty"` // how the prompt was compacted, one after the other
	Lost   []plugins.ModelCall `json:"lost,omitempty"`   // calls of the model that failed, had a useless answer or summarised
	Output *agui.WorkerOutput  `json:"output,omitempty"` // if the agent has a schema
}

// call is a tool call of an answer.
type call struct {
	ID         string `json:"id"`
	ProviderID string `json:"providerId"`
	Name       string `json:"name"` // our name of the tool
	Arguments  string `json:"arguments"`
}

// args returns a call's arguments: JSON, or a text that the tool refuses.
func (c call) args() any {
	if isObject(c.Arguments) {
		return json.RawMessage(c.Arguments)
	}
	return c.Arguments
}

// output returns the worker's output for its last answer.
func (ans *answer) output() agui.WorkerOutput {
	out := agui.WorkerOutput{Answer: ans.Text}
	if ans.Output != nil {
		out = *ans.Output
	}
	if ans.Call.FinishReason == "length" {
		out.Status = agui.StatusPartialSuccess
	}
	return out
}

// ask calls the model once in a Do and shows the answer as it arrives.
func (t *turn) ask(ctx context.Context) (*answer, error) {
	t.steps++
	t.offerReader()
	before, turns, live := t.prompt, slices.Clone(t.turns), false
	var ans answer
	err := t.run.Do(ctx, "model", &ans, func(ctx context.Context) error {
		ans, live = answer{}, true
		t.prompt, t.turns = before, slices.Clone(turns)
		if err := t.answer(ctx, &ans); err != nil {
			return err
		}
		return t.attachKept(ctx, ans.Kept)
	})
	if !live {
		t.leavesOut = agui.Compaction{} // viewers were told
		for _, f := range ans.Fitted {
			t.compact(f.Target)
			t.sumUp(f.Note)
		}
	}
	calls := ans.Lost
	if err == nil {
		calls = append(calls, ans.Call)
	}
	for _, c := range calls {
		t.count(c.Usage)
	}
	return &ans, shown(err)
}

// answer gets an answer from the first model that does not fail.
func (t *turn) answer(ctx context.Context, ans *answer) error {
	for i, m := range t.a.models {
		last := i == len(t.a.models)-1
		err := t.answerOf(ctx, m, !last, ans)
		if _, failed := errors.AsType[*Error](err); !failed || last || ctx.Err() != nil {
			return err
		}
		if err := t.run.Retract(ctx); err != nil {
			return err
		}
	}
	return nil
}

// answerOf calls a model; other reports whether there is another one. It retries retryable errors after a pause, until the model is
// down. Each attempt emits messages of its own.
func (t *turn) answerOf(ctx context.Context, m Streamer, other bool, ans *answer) error {
	req := Request{Options: t.a.cfg.Options, LeftOut: t.leaveOut}
	req.Options.Tools = t.tools.list
	req.Schema = t.a.cfg.Output
	if room := t.room(); room > 0 && t.promptSize() > room {
		if _, err := t.fitInto(ctx, room/10*7, ans); err != nil {
			return err
		}
	}
	ask := func(list []message) { req.sent, req.Messages = list, contents(list) }
	ask(t.messages)
	broken, compacted, refused := 0, 0, 0
	pause := 500 * time.Millisecond
	for tries := 0; ; {
		err := t.attempt(ctx, m, other, req, ans)
		if wrong, ok := errors.AsType[*brokenError](err); ok {
			if err := t.run.Retract(ctx); err != nil {
				return err
			}
			if broken++; broken > maxRepairs {
				return &Error{Code: "bad_output", Message: wrong.Error()}
			}
			ask(slices.Concat(req.sent, plainSent(wrong.repair()...)))
			continue
		}
		failed, ok := errors.AsType[*Error](err)
		if ok && failed.Code == "context_too_long" && compacted < maxCompactions {
			less, err := t.fitInto(ctx, t.promptSize()/2, ans)
			if err != nil {
				return err
			}
			if less {
				compacted++
				ask(t.messages)
				continue
			}
		}
		if !ok || !failed.Retryable || failed.RetryAfter > longestPause || ctx.Err() != nil {
			return err
		}
		paces := paceOf(m, &req)
		paced := paces != nil && failed.Code == "rate_limited" && refused < maxRefused
		if !paced && (tries == t.a.cfg.Retries || paces.Down() != nil) {
			return err
		}
		if err := t.run.Retract(ctx); err != nil {
			return err
		}
		if paced { // Admit waits
			refused++
			continue
		}
		tries++
		if err := rest(ctx, cmp.Or(failed.RetryAfter, pause/2+rand.N(pause))); err != nil {
			return err
		}
		pause = min(pause*3/2, longestPause)
	}
}

// maxRefused limits how often the provider's limits delay an answer before it counts as failed.
const maxRefused = 10

// longestPause is the maximum delay before a retry. If a provider asks for more, the call has failed.
const longestPause = time.Minute

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt calls a model once. Its usage counts even if it fails, as far as it is known.
func (t *turn) attempt(ctx context.Context, m Streamer, other bool, req Request, ans *answer) error {
	s := &show{ctx: ctx, run: t.run, tools: t.tools, spent: counter{ctx: ctx, run: t.run}}
	s.answer = t.a.form.member()
	resp, err := t.stream(ctx, m, other, req, s, s.piece)
	spent := plugins.ModelCall{Usage: resp.Usage, FinishReason: resp.Finish}
	if err == nil {
		err = s.complete(&resp, ans)
	}
	if err == nil && len(ans.Calls) == 0 && strings.TrimSpace(resp.Text) == "" {
		err = none(&resp)
	}
	if err == nil && len(ans.Calls) == 0 && t.tools.written(resp.Text) {
		err = &Error{Code: "bad_answer", Message: "The model has written the call of a tool as text", Retryable: true}
	}
	if err == nil && t.a.form != nil && len(ans.Calls) == 0 {
		err = t.structure(&resp, ans)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if countErr := s.spent.end(spent, err == nil); countErr != nil && err == nil {
		err = countErr
	}
	if ans.Call = spent; err != nil && spent.Usage != (agui.TokenUsage{}) {
		ans.Lost = append(ans.Lost, plugins.ModelCall{Usage: spent.Usage})
	}
	return err
}

// none returns the failure of an answer that has neither text nor calls.
func none(resp *Response) *Error {
	reason, only := "", ""
	if resp.Reason != "" && resp.Reason != "stop" {
		reason = ": " + resp.Reason
	}
	if resp.Reasoning != "" {
		only = ", only reasoning"
	}
	switch resp.Finish {
	case "content_filter":
		return &Error{Code: "content_filter", Message: "The model's provider refused to answer" + reason}
	case "length":
		return &Error{Code: "answer_cut", Message: "The limit of tokens (max_tokens) was reached before the model's answer began" + only}
	}
	return &Error{Code: "empty_answer", Message: "The model has not answered" + only + reason, Retryable: true}
}

// stream calls a model once, and reports the call with its prompt, answer and usage. seen has the answer as far as viewers see it,
// nil if they see nothing.
func (t *turn) stream(ctx context.Context, m Streamer, other bool, req Request, seen *show, piece func(Piece) error) (Response, error) {
	if err := t.run.MayCallModel(ctx, t.expected(m, &req)); err != nil {
		return Response{}, err
	}
	call, err := t.admit(ctx, m, other, &req)
	if err != nil {
		return Response{}, err
	}
	defer call.End(pace.ErrNeither) // after a panic
	told, sent := t.send(ctx, m, &req)
	if seen != nil { // the call is about the conversation, not its summary
		if err := t.showCompacted(told); err != nil {
			return Response{}, err
		}
	}
	made := 0
	resp, err := m.Stream(told, req, func(p Piece) error {
		made += p.size()
		call.Answered()
		sent.piece(&p)
		return piece(p)
	})
	resp.Usage, resp.Finish = limited(resp.Usage), word(resp.Finish)
	resp.Usage = t.usageOf(ctx, &resp, req, made, err)
	call.Used(resp.Usage.TotalTokens)
	call.End(outcome(ctx, err))
	var calls []*preview
	if seen != nil {
		calls = seen.calls
	}
	ended := plugins.ModelCall{Usage: resp.Usage, FinishReason: resp.Finish}
	if err != nil { // the answer would have named them
		provider, model := namesOf(m, &req)
		ended.Usage.Provider, ended.Usage.Model = cmp.Or(ended.Usage.Provider, provider), cmp.Or(ended.Usage.Model, model)
		t.report(provider, model, err)
	}
	sent.answered(ended, &resp, calls, shown(err))
	return resp, err
}

// maxOutput is the estimate of an answer's tokens for a model whose limit is not configured.
const maxOutput = 16_000

// expected returns the most that a call is expected to use.
func (t *turn) expected(m Streamer, req *Request) agui.TokenUsage {
	_, model := namesOf(m, req)
	return agui.TokenUsage{
		Model: model, InputTokens: int64(t.estimate(*req)), OutputTokens: int64(cmp.Or(max(req.Options.MaxTokens, 0), maxOutput)),
	}
}

// admit waits until a model may be called.
func (t *turn) admit(ctx context.Context, m Streamer, other bool, req *Request) (*pace.Call, error) {
	in := t.run.Input
	call, err := paceOf(m, req).Admit(ctx, pace.Request{
		Project: in.Project, User: in.User, Tokens: int64(t.estimate(*req)), Else: other,
	}, func(until time.Time, wait func() error) error { return t.run.WaitForPace(ctx, until, wait) })
	if down, ok := errors.AsType[*pace.DownError](err); ok {
		return nil, &Error{Code: "unavailable", Message: down.Error()}
	}
	if errors.Is(err, pace.ErrTooLong) {
		return nil, &Error{Code: "rate_limited", Message: "The model's limit of calls is reached: " + err.Error()}
	}
	return call, err
}

// paceOf returns the limits of a model, or nil if it has none.
func paceOf(m Streamer, req *Request) *pace.Model {
	if paced, ok := m.(Paced); ok {
		pacer, model := paced.Pacer()
		return pacer.Model(cmp.Or(req.Options.Model, model))
	}
	return nil
}

// outcome classifies the error of a call for the model's breaker: its code alone, because operators of any project read it.
func outcome(ctx context.Context, err error) error {
	failed, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return nil
	case ok && ctx.Err() == nil && slices.Contains(down, failed.Code):
		return errors.New(failed.Code)
	}
	return pace.ErrNeither
}

// down are the failures of a model that is down.
var down = []string{"overloaded", "timeout", "connection_lost", "provider_error"}

// word returns a provider's finish reason if it is a valid word.
func word(s string) string {
	if len(s) > 64 || strings.ContainsFunc(s, unicode.IsControl) {
		return "other"
	}
	return s
}

// show shows the pieces of one attempt.
type show struct {
	ctx    context.Context
	run    *plugins.Run
	tools  *toolbox
	spent  counter
	text   io.WriteCloser
	reason io.WriteCloser
	calls  []*preview // by index, nil while it has no name
	answer *member    // of a structured answer, nil for free text
	said   int        // bytes of text
	size   int        // bytes in total
}

// maxAnswer limits an answer including its reasoning and calls, in bytes.
const maxAnswer = 8 << 20

func (s *show) piece(p Piece) error {
	s.size += p.size()
	switch {
	case s.size > maxAnswer:
		return &Error{Code: "answer_too_large", Message: "The model's answer is too large"}
	case p.Usage != nil:
		return s.spent.add(*p.Usage)
	case p.Call != nil:
		return s.call(p.Call)
	case p.Reasoning != "":
		if s.reason == nil {
			s.reason = s.run.Reason()
		}
		return write(s.reason, p.Reasoning)
	}
	if s.said += len(p.Text); s.answer != nil {
		p.Text = s.answer.next(p.Text)
	}
	if p.Text == "" {
		return nil
	}
	if s.text == nil {
		s.text = s.run.Text()
	}
	return write(s.text, p.Text)
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// maxCalls limits the tool calls of one answer.
const maxCalls = 128

func (s *show) call(p *CallPiece) error {
	if p.Index < 0 || p.Index >= maxCalls {
		return &Error{Code: "bad_response", Message: "The model called too many tools at once"}
	}
	for len(s.calls) <= p.Index {
		s.calls = append(s.calls, nil)
	}
	a := s.calls[p.Index]
	if a == nil && p.Name != "" {
		call, err := s.run.Announce(s.ctx, s.tools.name(p.Name))
		if err != nil {
			return err
		}
		a = &preview{Announced: call, name: p.Name, called: s.tools.name(p.Name)}
		s.calls[p.Index] = a
	}
	if a == nil || p.Arguments == "" {
		return nil
	}
	a.arguments.WriteString(p.Arguments)
	_, err := a.WriteString(p.Arguments)
	return err
}

// preview is a call as it was streamed, before the answer was complete.
type preview struct {
	*plugins.Announced
	name      string // the provider's
	called    string // ours
	arguments strings.Builder
}

// right reports whether the calls shown so far are those of the complete answer. Only its end shows which calls a confused
// server meant.
func (s *show) right(resp *Response) bool {
	for i, p := range s.calls {
		if p == nil {
			continue
		}
		if i >= len(resp.Calls) {
			return false
		}
		is := resp.Calls[i].FunctionCall
		if shown := p.arguments.String(); p.name != is.Name || shown != "" && shown != is.Arguments {
			return false
		}
	}
	return true
}

// complete shows the parts that were not streamed and fills in the answer. It shows all of an answer again if its calls were
// shown wrongly.
func (s *show) complete(resp *Response, ans *answer) error {
	resp.Calls = slices.Clone(resp.Calls)
	for i, c := range resp.Calls {
		f := llms.FunctionCall{Name: "unnamed", Arguments: "{}"}
		if c.FunctionCall != nil {
			f.Name, f.Arguments = cmp.Or(c.FunctionCall.Name, f.Name), cmp.Or(c.FunctionCall.Arguments, f.Arguments)
		}
		if read, err := readArguments(f.Arguments); err == nil {
			f.Arguments = read
		}
		resp.Calls[i].FunctionCall = &f
	}
	if !s.right(resp) {
		if err := s.run.Retract(s.ctx); err != nil {
			return err
		}
		s.text, s.reason, s.calls, s.said, s.size = nil, nil, nil, 0, 0
		if s.answer != nil {
			s.answer = new(member)
		}
		if err := s.piece(Piece{Reasoning: resp.Reasoning}); err != nil {
			return err
		}
	}
	if s.said == 0 && resp.Text != "" {
		if err := s.piece(Piece{Text: resp.Text}); err != nil {
			return err
		}
	}
	lost, fitted := ans.Lost, ans.Fitted
	*ans = answer{Text: resp.Text, Lost: lost, Fitted: fitted}
	for i, c := range resp.Calls {
		f := c.FunctionCall
		if i >= len(s.calls) || s.calls[i] == nil {
			if err := s.call(&CallPiece{Index: i, Name: f.Name}); err != nil {
				return err
			}
		}
		p := s.calls[i]
		if p.arguments.Len() == 0 {
			if err := s.call(&CallPiece{Index: i, Arguments: f.Arguments}); err != nil {
				return err
			}
		}
		if err := p.Close(); err != nil {
			return err
		}
		ans.Calls = append(ans.Calls, call{ID: p.ID, ProviderID: cmp.Or(c.ID, p.ID), Name: s.tools.name(f.Name), Arguments: f.Arguments})
	}
	ans.Kept = keep(resp, ans)
	return nil
}
