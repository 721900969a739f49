package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Guards check what an Agent gets, calls and answers. Guards of one kind run in order, each on what the one before it has left.
// Each verdict is recorded and is an event of the log. A guard that fails or exceeds its time refuses.
//
// A refused input fails the agent with the code guard_refused, and the refused messages are retracted: later prompts omit them.
// A refused tool call is not made, and its result is a failure with the code guard_refused. A refused output fails the agent,
// and its text is retracted.
type Guards struct {
	// Input checks the texts that are new to the agent: before it starts, and those that Next returns. A rewritten text
	// replaces the messages, in later prompts too.
	Input []Guard
	// Tool checks each call of CallTool and CallTools before it is made, except calls that their worker answers itself. The
	// calls of a client's tool can be allowed or refused; other verdicts refuse them.
	Tool []Guard
	// Output checks the answer. While it has a guard that does not let the text stream, no text or reasoning of the agent is
	// shown; then the answer alone is.
	Output []Guard
}

// Guard is an agent, a tool or a function that decides about an agent's input, tool call or output. It has exactly one of Agent,
// Tool and Check.
//
// The query of an agent and the arguments of a tool are the Subject as JSON; its result, or its text, is a Verdict as JSON.
// Nothing of the agent or the tool is shown, except the calls of its model, which count to the run. It can call no tools and
// ask nobody.
type Guard struct {
	Name    string // in events; default the name of the agent or the tool
	Agent   string
	Tool    string
	Check   func(ctx context.Context, s Subject) (Verdict, error)
	Timeout time.Duration // of one check; 0 means one minute
	Streams bool          // for Output: the text is shown while it is generated, and retracted unless it is allowed
}

// Subject is what a guard decides about.
type Subject struct {
	On      string          `json:"on"`               // GuardInput, GuardTool or GuardOutput
	Input   string          `json:"input,omitempty"`  // the new texts
	Tool    string          `json:"tool,omitempty"`   // the name of the called tool or agent
	Args    json.RawMessage `json:"args,omitempty"`   // the arguments of the call
	Output  string          `json:"output,omitempty"` // the answer, with key points and suggested actions as lines
	Result  json.RawMessage `json:"result,omitempty"` // the answer of an agent with an output schema
	User    string          `json:"user"`
	Project string          `json:"project"`
}

// The values of Subject.On.
const (
	GuardInput  = "input"
	GuardTool   = "tool"
	GuardOutput = "output"
)

// Verdict is a guard's decision.
type Verdict struct {
	Verdict string          `json:"verdict"`          // Allow, Refuse, Rewrite or AskPerson
	Reason  string          `json:"reason,omitempty"` // a sentence for clients: of a refusal, or the question to a person
	Text    string          `json:"text,omitempty"`   // of Rewrite: the new input or output
	Args    json.RawMessage `json:"args,omitempty"`   // of Rewrite: the new arguments of the call, an object
}

// The values of Verdict.Verdict.
const (
	Allow     = "allow"
	Refuse    = "refuse"
	Rewrite   = "rewrite"
	AskPerson = "ask" // a person decides; for a tool call, this is an approval
)

const codeRefused = "guard_refused"

// Validate checks that each guard has one of Agent, Tool and Check.
func (gs *Guards) Validate() error {
	for _, g := range slices.Concat(gs.Input, gs.Tool, gs.Output) {
		kinds := 0
		for _, has := range []bool{g.Agent != "", g.Tool != "", g.Check != nil} {
			if has {
				kinds++
			}
		}
		switch {
		case kinds != 1:
			return fmt.Errorf("guard %q: has not exactly one of Agent, Tool and Check", g.name())
		case g.name() == "" || len(g.name()) > 100:
			return fmt.Errorf("guard %q: a name has 1 to 100 bytes", g.name())
		case g.Timeout < 0:
			return fmt.Errorf("guard %q: timeout is negative", g.name())
		}
	}
	return nil
}

func (g *Guard) name() string { return cmp.Or(g.Name, g.Agent, g.Tool) }

// holds reports whether the agent's texts wait for a verdict before viewers get them.
func (gs *Guards) holds() bool {
	return slices.ContainsFunc(gs.Output, func(g Guard) bool { return !g.Streams })
}

// fits fails for a verdict that cannot be applied.
func (v *Verdict) fits(on string) error {
	switch v.Verdict {
	case Allow, Refuse, AskPerson:
		return nil
	case Rewrite:
		if on == GuardTool && isObject(v.Args) || on != GuardTool && v.Text != "" {
			return nil
		}
		return &Error{Message: "it rewrites without a new text or new arguments"}
	}
	return &Error{Message: "it returned no verdict"}
}

func isObject(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(raw)), "{") && json.Valid(raw)
}

// verdictOf decodes a verdict from a text with a JSON object, which can be in a code fence.
func verdictOf(text string) (v Verdict, err error) {
	if from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); from >= 0 && to > from {
		text = text[from : to+1]
	}
	if json.Unmarshal([]byte(text), &v) != nil {
		return v, &Error{Message: "it returned no verdict"}
	}
	return v, nil
}

// judge returns the guard's verdict on a subject. It is recorded together with its event.
func (r *Run) judge(ctx context.Context, g *Guard, s Subject) (v Verdict, err error) {
	s.User, s.Project = r.Input.User, r.Input.Project
	subject, err := encode(s)
	if err != nil {
		return v, err
	}
	err = r.Do(ctx, "guard "+g.name()+" "+digest(string(subject)), &v, func(ctx context.Context) error { // a verdict is about this subject alone
		if v, err = r.decide(ctx, g, s); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.host.Emit(agui.Ruling{Name: g.name(), On: s.On, Verdict: v.Verdict, Reason: v.Reason}.Event())
	})
	return v, err
}

// decide calls the guard. It fails only if the step is over: a guard without a usable verdict refuses.
func (r *Run) decide(ctx context.Context, g *Guard, s Subject) (v Verdict, err error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(g.Timeout, time.Minute))
	defer cancel()
	err = protect(func() (err error) {
		v, err = r.callGuard(limited, g, s)
		return err
	})
	if cause := context.Cause(ctx); cause != nil {
		return v, cause
	}
	if e, ok := errors.AsType[*Error](err); errors.Is(err, ErrWaiting) || ok && e.Code == "budget_exceeded" {
		return v, err // of its model: that is no verdict
	}
	if err == nil {
		err = v.fits(s.On)
	}
	shown, known := errors.AsType[*Error](err)
	switch {
	case limited.Err() != nil:
		v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s did not decide in time", g.name())}
	case known:
		v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s failed: %s", g.name(), shown.Message)}
	case err != nil:
		v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s failed", g.name())}
	}
	if v.Reason = strings.ToValidUTF8(v.Reason, ""); len(v.Reason) > maxReason {
		v.Reason = strings.ToValidUTF8(v.Reason[:maxReason], "") + "…"
	}
	return v, nil
}

// maxReason limits the reason of a verdict, in bytes.
const maxReason = 2000

// guardCaller is host.GuardCaller.
type guardCaller interface {
	GuardAgent(ctx context.Context, u Use, query string) (agui.WorkerOutput, error)
	GuardTool(ctx context.Context, u Use) (agui.ToolOutput, error)
}

func (r *Run) callGuard(ctx context.Context, g *Guard, s Subject) (Verdict, error) {
	if g.Check != nil {
		return g.Check(ctx, s)
	}
	h, ok := r.host.(guardCaller)
	if !ok {
		return Verdict{}, &Error{Message: "agents and tools cannot be guards here"}
	}
	subject, err := encode(s)
	if err != nil {
		return Verdict{}, err
	}
	u, _, err := r.use(ctx, r.alive, "guard", digest(string(subject)), nil) // what a guard has recorded is for this subject alone
	if err != nil {
		return Verdict{}, err
	}
	ctx = (&scope{path: u.path()}).in(ctx)
	if u.Name = g.Agent; g.Agent != "" {
		out, err := h.GuardAgent(ctx, u, string(subject))
		if err != nil {
			return Verdict{}, err
		}
		return verdictOf(cmp.Or(string(out.Result), out.Answer))
	}
	u.Name, u.Request = g.Tool, subject
	out, err := h.GuardTool(ctx, u)
	if err == nil && out.Status == agui.StatusFailure {
		err = &Error{Message: out.ResultSummary}
	}
	if err != nil {
		return Verdict{}, err
	}
	return verdictOf(out.ResultSummary)
}

// passed is the result of all guards of one kind.
type passed struct {
	text      string // if rewritten
	rewritten bool
	asked     bool // a person has allowed it
}

// pass asks the guards about an input or an output. It fails with the code guard_refused if one of them, or a person, refuses.
func (r *Run) pass(ctx context.Context, guards []Guard, s Subject) (p passed, err error) {
	for i := range guards {
		g := &guards[i]
		v, err := r.judge(ctx, g, s)
		if err != nil {
			return p, err
		}
		switch v.Verdict {
		case Refuse:
			return p, &Error{Code: codeRefused, Message: cmp.Or(v.Reason, fmt.Sprintf("The guard %s has refused the %s", g.name(), s.On))}
		case Rewrite:
			p.text, p.rewritten = v.Text, true
			if s.On == GuardInput {
				s.Input = v.Text
			} else {
				s.Output, s.Result = v.Text, nil
			}
		case AskPerson:
			p.asked = true
			if err := r.askPerson(ctx, g, s, v.Reason); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// answerSchema is the JSON Schema of a person's decision, which is that of an approval without edits.
const answerSchema = `{"type":"object","required":["approved"],"additionalProperties":false,"properties":{"approved":{"type":"boolean"}}}`

// askPerson fails unless a person allows the subject.
func (r *Run) askPerson(ctx context.Context, g *Guard, s Subject, why string) error {
	about, err := json.Marshal(map[string]any{"for": "guard", "guard": g.name(), "on": s.On, "text": s.Input + s.Output})
	if err != nil {
		return err
	}
	if len(about) > maxAbout {
		about, _ = json.Marshal(map[string]any{"for": "guard", "guard": g.name(), "on": s.On})
	}
	a, err := r.Ask(ctx, agui.Interrupt{
		Reason: "confirmation", Message: cmp.Or(why, fmt.Sprintf("Allow the %s?", s.On)),
		ResponseSchema: json.RawMessage(answerSchema), Metadata: about,
	})
	if err != nil {
		return err
	}
	var given struct {
		Approved bool `json:"approved"`
	}
	if a.Cancelled || json.Unmarshal(a.Payload, &given) != nil || !given.Approved {
		return &Error{Code: codeRefused, Message: fmt.Sprintf("The %s was not approved", s.On)}
	}
	return nil
}

// maxAbout limits the text in a question to a person, in bytes.
const maxAbout = 128 << 10

// fresh is the part of an input that is new to the agent.
type fresh struct {
	Text  string   `json:"text,omitempty"`
	IDs   []string `json:"ids,omitempty"`   // of the messages with the text
	Query string   `json:"query,omitempty"` // another text, of a workflow's node
}

// freshIn returns what the agent has not answered yet in the thread. A message that an agent wrote has its name, which no client
// can write.
func (r *Run) freshIn(ctx context.Context) (fresh, error) {
	for limit := 10; ; limit *= 10 {
		msgs, more, err := r.Messages(ctx, limit)
		if err != nil {
			return fresh{}, err
		}
		answered := -1
		for i := range msgs {
			var made struct {
				Agent string `json:"agent"`
			}
			if m := &msgs[i]; m.Role == agui.RoleAssistant && m.SubagentRunID == "" && json.Unmarshal(m.Metadata, &made) == nil && made.Agent == r.name {
				answered = i
			}
		}
		if answered < 0 && more {
			continue
		}
		f, query := freshOf(msgs[answered+1:]), r.Input.Query
		isLast := func(m agui.Message) bool { return m.Role == agui.RoleUser && m.Text() == query }
		if query != "" && !slices.ContainsFunc(msgs[answered+1:], isLast) {
			f.Query = query
		}
		return f, nil
	}
}

// freshOf returns the messages of people, and the texts of a client's instructions, which are not rewritten or retracted.
func freshOf(msgs []agui.Message) (f fresh) {
	var texts []string
	for i := range msgs {
		switch m := &msgs[i]; m.Role {
		case agui.RoleUser:
			texts, f.IDs = append(texts, m.Text()), append(f.IDs, m.ID)
		case agui.RoleSystem, agui.RoleDeveloper:
			texts = append(texts, m.Text())
		}
	}
	f.Text = strings.Join(texts, "\n\n")
	return f
}

// guardInput checks the new part of the input, and applies the rewrites of the guards to it.
func (r *Run) guardInput(ctx context.Context) error {
	if len(r.guards.Input) == 0 {
		return nil
	}
	ctx = r.Branch(ctx, "guard input")
	var f fresh // recorded, because the messages are hidden once they are retracted
	if err := r.Do(ctx, "input", &f, func(ctx context.Context) (err error) {
		f, err = r.freshIn(ctx)
		return err
	}); err != nil {
		return err
	}
	m, err := r.passMessages(ctx, f)
	if err != nil {
		return err
	}
	if m != nil {
		r.rewrote, r.rewritten = f.IDs, m
		r.Input.Query = m.Content
	}
	if err := r.guardContext(ctx); err != nil || f.Query == "" {
		return err
	}
	p, err := r.pass(ctx, r.guards.Input, Subject{On: GuardInput, Input: f.Query})
	if r.Input.Query = f.Query; p.rewritten {
		r.Input.Query = p.text
	}
	return err
}

// guardContext checks the context of the request, of which the model's instructions have the text.
func (r *Run) guardContext(ctx context.Context) error {
	left := slices.Clone(r.Input.Context)
	for i, c := range left {
		p, err := r.pass(ctx, r.guards.Input, Subject{On: GuardInput, Input: c.Description + "\n" + c.Value})
		if err != nil {
			return err
		}
		if p.rewritten {
			left[i] = agui.Context{Value: p.text}
		}
	}
	r.Input.Context = left
	return nil
}

// guardAppended checks messages that were appended, and returns what the guards leave of them.
func (r *Run) guardAppended(ctx context.Context, u Use, msgs []agui.Message) ([]agui.Message, error) {
	if len(r.guards.Input) == 0 {
		return msgs, nil
	}
	m, err := r.passMessages(r.inside(ctx, u), freshOf(msgs))
	if err != nil || m == nil {
		return msgs, err
	}
	return []agui.Message{*m}, nil
}

// passMessages asks the guards about messages. It returns the message that replaces them if they are rewritten, or nil.
func (r *Run) passMessages(ctx context.Context, f fresh) (*agui.Message, error) {
	if len(f.IDs) == 0 {
		return nil, nil
	}
	p, err := r.pass(ctx, r.guards.Input, Subject{On: GuardInput, Input: f.Text})
	refused, ok := errors.AsType[*Error](err)
	switch {
	case ok && refused.Code == codeRefused:
		return nil, cmp.Or(r.replace(ctx, f.IDs, nil), err)
	case err != nil || !p.rewritten:
		return nil, err
	}
	m := &agui.Message{Role: agui.RoleUser, Content: p.text}
	return m, r.replace(ctx, f.IDs, m)
}

// replace retracts messages of the thread, and shows m in their place, if there is one. It sets m's id. A workflow's other nodes
// need the messages: for a node they are only retracted when it refuses them, which ends the run.
func (r *Run) replace(ctx context.Context, ids []string, m *agui.Message) error {
	id := ""
	err := r.Do(ctx, "replace", &id, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if m != nil {
			id = r.host.NewID()
		}
		if r.Input.Subagent != "" || m != nil && r.Input.Workflow != "" {
			return nil
		}
		if err := r.host.Emit(agui.Retracted(ids)); err != nil || m == nil {
			return err
		}
		if err := r.host.Emit(agui.TextMessageStart{MessageID: id, Role: agui.RoleUser}); err != nil {
			return err
		}
		if err := r.emitText(id, m.Content); err != nil {
			return err
		}
		return r.host.Emit(agui.TextMessageEnd{MessageID: id, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: m.Content}})
	})
	if m != nil {
		m.ID = id
	}
	return err
}

// guardCall asks the guards about a tool call, and puts their verdict into u.
func (r *Run) guardCall(ctx context.Context, u *Use) error {
	if u.Output != nil {
		return nil
	}
	ctx = r.inside(ctx, *u)
	clients := slices.ContainsFunc(r.Input.Tools, func(t agui.Tool) bool { return t.Name == u.Name })
	s := Subject{On: GuardTool, Tool: u.Name, Args: u.Request}
	for i := range r.guards.Tool {
		g := &r.guards.Tool[i]
		v, err := r.judge(ctx, g, s)
		if err != nil {
			return err
		}
		if clients && v.Verdict != Allow && v.Verdict != Refuse { // the client has the call as it was asked
			v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s can only allow or refuse a call of a client's tool", g.name())}
		}
		switch v.Verdict {
		case Refuse:
			why := cmp.Or(v.Reason, fmt.Sprintf("The guard %s has refused the call", g.name()))
			u.Output = &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: codeRefused, Message: why}}
			return nil
		case Rewrite:
			u.Edited, s.Args = v.Args, v.Args
		case AskPerson:
			u.Approval = cmp.Or(v.Reason, fmt.Sprintf("Allow %s?", u.Name))
		}
	}
	return nil
}

// recheck returns a function that asks the guards about arguments that an approver has edited. Its output refuses them.
func (r *Run) recheck(ctx context.Context, u Use) func(args json.RawMessage) (*agui.ToolOutput, error) {
	if len(r.guards.Tool) == 0 || u.Output != nil {
		return nil
	}
	return func(args json.RawMessage) (*agui.ToolOutput, error) {
		edited := Use{Place: u.Inside("edited"), Name: u.Name, Request: args}
		if err := r.guardCall(ctx, &edited); err != nil {
			return nil, r.noteWaiting(err)
		}
		if edited.Output == nil && edited.Edited != nil {
			const why = "A guard would rewrite the edited arguments"
			edited.Output = &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: codeRefused, Message: why}}
		}
		return edited.Output, nil
	}
}

// inside returns a context that places uses inside of u.
func (r *Run) inside(ctx context.Context, u Use) context.Context {
	s := newScope(r, u.path())
	s.do = r.scopeOf(ctx).do
	return s.in(ctx)
}

// guardOutput checks the answer of a worker that has succeeded. The texts that it has shown are retracted unless the answer is
// allowed as it is.
func (r *Run) guardOutput(ctx context.Context, out *agui.WorkerOutput) error {
	if len(r.guards.Output) == 0 {
		return nil
	}
	r.mu.Lock()
	for r.working > 0 {
		r.idle.Wait()
	}
	if out.Answer == "" && r.last != nil {
		out.Answer = r.last.text.String()
	}
	unfinished := r.failed != nil || r.waiting
	r.mu.Unlock()
	if unfinished {
		return nil
	}
	text := strings.Join(slices.Concat([]string{out.Answer}, out.KeyPoints, out.SuggestedActions), "\n")
	p, err := r.pass(r.Branch(ctx, "guard output"), r.guards.Output, Subject{On: GuardOutput, Output: text, Result: out.Result})
	if errors.Is(err, ErrWaiting) && !p.asked { // for a budget of a guard's model: there is no verdict yet
		return err
	}
	if p.rewritten && out.Result != nil && err == nil {
		if out.Result = json.RawMessage(p.text); !json.Valid(out.Result) {
			err = &Error{Code: codeRefused, Message: "A guard has rewritten the output to a text that is not JSON"}
		}
	}
	if p.rewritten {
		*out = agui.WorkerOutput{Status: out.Status, Answer: p.text, Result: out.Result}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !p.rewritten && !p.asked && !r.holds {
		return nil
	}
	if retractErr := r.retractLast(); err == nil {
		err = retractErr
	}
	r.holds = false
	return err
}

// retractLast retracts the worker's last message. The caller holds r.mu.
func (r *Run) retractLast() error {
	m := r.last
	if r.last = nil; m == nil {
		return nil
	}
	if m == r.open {
		if err := r.end(interrupted(m)); err != nil {
			return err
		}
	}
	if m.held || m.text.Len() == 0 { // it was not shown, or is only what calls belong to
		return nil
	}
	return r.host.Emit(agui.Retracted([]string{m.id}))
}

// ExecuteGuard executes an agent as a guard on a host: it shows nothing but the calls of its model, calls no tools and agents,
// and asks nobody.
func ExecuteGuard(ctx context.Context, a Agent, host Host, in Input) (agui.WorkerOutput, error) {
	return Execute(ctx, a, quiet{host}, in)
}

// quiet is the host of an agent that is a guard.
type quiet struct{ Host }

func (quiet) Emit(agui.Event) error            { return nil }
func (quiet) PatchState(json.RawMessage) error { return errQuiet }
func (quiet) Plugins() (tools, agents []Info)  { return nil, nil }

func (quiet) OpenCalls(context.Context, string, []Use) error { return errQuiet }

func (quiet) CallTool(context.Context, Use) (agui.ToolOutput, error) {
	return agui.ToolOutput{}, errQuiet
}

func (quiet) CallAgent(context.Context, string, Use, string) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, errQuiet
}

func (quiet) Ask(context.Context, Use, agui.Interrupt) (Answer, error) { return Answer{}, errQuiet }
func (quiet) Next(context.Context, Use) ([]agui.Message, error)        { return nil, nil }

var errQuiet = &Error{Code: "guard", Message: "a guard calls no tools, asks nobody and changes no state"}

// The optional abilities of a host that concern the calls of models.

func (q quiet) MayCallModel() error {
	if l, ok := q.Host.(interface{ MayCallModel() error }); ok {
		return l.MayCallModel()
	}
	return nil
}

func (q quiet) Idle(ctx context.Context, wait func() error) error {
	if h, ok := q.Host.(interface {
		Idle(ctx context.Context, wait func() error) error
	}); ok {
		return h.Idle(ctx, wait)
	}
	return wait()
}

func (q quiet) WaitForPace(ctx context.Context, until time.Time, wait func() error) error {
	if h, ok := q.Host.(interface {
		WaitForPace(ctx context.Context, until time.Time, wait func() error) error
	}); ok {
		return h.WaitForPace(ctx, until, wait)
	}
	return wait()
}

// BeginModelCall drops the prompt and the answer: they contain the guard's instructions and the text that it may hold back.
func (q quiet) BeginModelCall(ctx context.Context, _ *Prompt) (context.Context, func(c ModelCall, a *ModelAnswer, err error)) {
	w, ok := q.Host.(interface {
		BeginModelCall(ctx context.Context, p *Prompt) (context.Context, func(c ModelCall, a *ModelAnswer, err error))
	})
	if !ok {
		return ctx, func(ModelCall, *ModelAnswer, error) {}
	}
	ctx, end := w.BeginModelCall(ctx, nil)
	return ctx, func(c ModelCall, _ *ModelAnswer, err error) { end(c, nil, err) }
}
