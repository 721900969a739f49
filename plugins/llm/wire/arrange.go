package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// Conversation is a request in the order that all providers accept: neighbours have different roles, no message is empty, each
// call has one result, which follows it, and a user's message or a result is last.
type Conversation struct {
	Model    string
	System   []string
	Messages []Message
	Tools    []Tool
	Options  llms.CallOptions
	Schema   json.RawMessage
	LeftOut  []llm.LeftOut

	aliases aliases // of the tools' properties
}

// Message is a message of a Conversation.
type Message struct {
	Role  string // User, Assistant or Results
	Parts []Part
}

// Turn returns the messages of the current turn: those after the last user's message that follows no result.
func (c *Conversation) Turn() []Message {
	for i, m := range slices.Backward(c.Messages) {
		if m.Role == User && (i == 0 || c.Messages[i-1].Role != Results) {
			return c.Messages[i+1:]
		}
	}
	return c.Messages
}

// The roles of messages. A message of results follows each message with calls, and has their results in the same order.
const (
	User      = "user"
	Assistant = "assistant"
	Results   = "tool"
)

// Part is a part of a message. Exactly one member is set.
type Part struct {
	Text    string
	Media   *Media
	Call    *Call
	Result  *Result
	Carried json.RawMessage // data of this model, from its earlier answers
}

// Call is a call of a tool.
type Call struct {
	ID        string // "" if the provider gave none and wants none
	Given     string // the id in Request.Messages
	Name      string
	Arguments json.RawMessage // an object
}

// Result is the result of a call.
type Result struct {
	ID, Name string // of the call
	Text     string
}

// Texts for places where a provider needs one and the conversation has none.
const (
	goesOn      = "(the conversation goes on)"
	goOn        = "Go on."
	bridge      = "…"
	interrupted = "The call was interrupted before it had a result"
)

// arranger arranges the messages of one request.
type arranger struct {
	*state

	e *Endpoint
	c *Conversation
}

// arrange returns req in the form that caps demand. It is a pure function of its arguments and e's names. It fails with
// nothing_to_answer for a request without messages.
func (e *Endpoint) arrange(req llm.Request, s *state) (*Conversation, error) {
	a := &arranger{state: s, e: e, c: &Conversation{Model: e.Model, Options: req.Options, Schema: req.Schema}}
	a.tools(req.Options.Tools)
	if err := a.tooMany(); err != nil {
		return nil, err
	}
	list := a.read(req.Messages)
	pair(list)
	for _, m := range merge(list) {
		a.add(m)
	}
	if len(a.c.Messages) == 0 {
		return nil, &llm.Error{Code: "nothing_to_answer", Message: "The run has no message to answer"}
	}
	a.frame()
	a.identify()
	return a.c, nil
}

// said is a message while it is arranged: its results are beside its calls.
type said struct {
	Message
	results map[*Call]*Result // of an assistant's message
	answers *said             // of a message of results: the message with their calls, nil for none
}

// read converts messages and collects the instructions.
func (a *arranger) read(messages []llms.MessageContent) (list []*said) {
	for _, given := range messages {
		m := &said{Message: Message{Role: cmp.Or(roles[given.Role], User)}, results: map[*Call]*Result{}}
		for _, p := range given.Parts {
			part, ok := a.part(m.Role, p)
			switch {
			case !ok:
			case m.Role == "system":
				a.c.System = append(a.c.System, part.Text)
			default:
				m.Parts = append(m.Parts, part)
			}
		}
		if len(m.Parts) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// roles are the roles of messages by those of a request. Others are users'.
var roles = map[llms.ChatMessageType]string{
	llms.ChatMessageTypeSystem: "system", llms.ChatMessageTypeAI: Assistant, llms.ChatMessageTypeTool: Results, llms.ChatMessageTypeFunction: Results,
}

// part converts a part of a message; ok is false for a part that is left out.
func (a *arranger) part(role string, p llms.ContentPart) (part Part, ok bool) {
	switch p := p.(type) {
	case llm.Carried:
		if role != Assistant || p.Origin != a.e.origin() || a.refused.has(keyOf("carried", p.Data)) {
			return Part{}, false
		}
		return Part{Carried: p.Data}, true
	case llms.TextContent:
		return Part{Text: p.Text}, strings.TrimSpace(p.Text) != ""
	case llms.ToolCall:
		if role != Assistant {
			return Part{}, false
		}
		name, arguments := callOf(p)
		return Part{Call: &Call{ID: p.ID, Given: p.ID, Name: name, Arguments: a.c.aliases.put(arguments)}}, true
	case llms.ToolCallResponse:
		if strings.TrimSpace(p.Content) == "" {
			p.Content = ""
		}
		return Part{Result: &Result{ID: p.ToolCallID, Name: p.Name, Text: p.Content}}, role == Results
	}
	part, ok = a.media(p)
	if ok && part.Media != nil && role != User {
		part = Part{Text: part.Media.describe("cannot be given here")}
	}
	return part, ok
}

// openCall is a call without a result.
type openCall struct {
	m    *said
	call *Call
}

// pair assigns results to calls: to those of the latest message with such a call, in their order, otherwise to a call after the
// result. A call without a result gets one.
func pair(list []*said) {
	open := map[string][]openCall{} // by id
	answer := func(r *Result) *said {
		calls := open[r.ID]
		if len(calls) == 0 {
			return nil
		}
		m := calls[len(calls)-1].m
		i := slices.IndexFunc(calls, func(c openCall) bool { return c.m == m })
		m.results[calls[i].call] = &Result{Name: calls[i].call.Name, Text: r.Text}
		open[r.ID] = slices.Delete(calls, i, i+1)
		return m
	}
	var early []*Result
	for _, m := range list {
		for _, p := range m.Parts {
			if p.Call != nil {
				open[p.Call.ID] = append(open[p.Call.ID], openCall{m, p.Call})
			}
			if p.Result == nil {
				continue
			}
			if by := answer(p.Result); by != nil {
				m.answers = by
			} else {
				early = append(early, p.Result)
			}
		}
	}
	for _, r := range early {
		answer(r)
	}
	for id, calls := range open {
		for range calls {
			answer(&Result{ID: id, Text: interrupted})
		}
	}
}

// merge merges neighbours of one role. Messages of an assistant are one answer unless results of the first are between them:
// an answer of texts and calls in turn is in the log as several messages, whose results follow all of them.
func merge(list []*said) (merged []*said) {
	answered := map[*said]bool{}
	into := map[*said]*said{} // what an assistant's message was merged into
	for _, m := range list {
		if m.Role == Results {
			if m.answers != nil {
				answered[into[m.answers]] = true
			}
			continue
		}
		if n := len(merged); n > 0 && merged[n-1].Role == m.Role && !answered[merged[n-1]] {
			last := merged[n-1]
			last.Parts = join(last.Parts, m.Parts)
			maps.Copy(last.results, m.results)
			into[m] = last
			continue
		}
		into[m] = m
		merged = append(merged, m)
	}
	return merged
}

// join appends parts of a message to those of another. A text that follows a text becomes its next paragraph.
func join(parts, more []Part) []Part {
	if n := len(parts); n > 0 && parts[n-1].Text != "" && more[0].Text != "" {
		parts[n-1].Text += "\n\n" + more[0].Text
		more = more[1:]
	}
	return append(parts, more...)
}

// add adds a message with the results of its calls.
func (a *arranger) add(m *said) {
	results := Message{Role: Results}
	alone := true
	for _, p := range m.Parts {
		if p.Call != nil {
			results.Parts = append(results.Parts, Part{Result: m.results[p.Call]})
		}
		alone = alone && p.Carried != nil
	}
	if alone {
		return // nothing was said
	}
	if n := len(a.c.Messages); n > 0 && a.c.Messages[n-1].Role == m.Role { // a result between them was late
		a.c.Messages[n-1].Parts = join(a.c.Messages[n-1].Parts, m.Parts)
	} else {
		a.c.Messages = append(a.c.Messages, m.Message)
	}
	if results.Parts != nil {
		a.c.Messages = append(a.c.Messages, results)
	}
}

// frame adds messages that the provider needs at the beginning, in between, and at the end.
func (a *arranger) frame() {
	say := func(role, text string) Message { return Message{Role: role, Parts: []Part{{Text: text}}} }
	var list []Message
	system := a.caps.System == User && len(a.c.System) > 0
	if (a.caps.FirstUser || system) && a.c.Messages[0].Role != User {
		list = append(list, say(User, goesOn))
	}
	for _, m := range a.c.Messages {
		if n := len(list); a.caps.Bridge && n > 0 && list[n-1].Role == Results && m.Role == User {
			list = append(list, say(Assistant, bridge))
		}
		list = append(list, m)
	}
	if list[len(list)-1].Role == Assistant {
		list = append(list, say(User, goOn))
	}
	if system {
		list[0].Parts = join([]Part{{Text: strings.Join(a.c.System, "\n\n")}}, list[0].Parts)
		a.c.System = nil
	}
	a.c.Messages = list
}

// identify gives calls and their results ids that the provider accepts.
func (a *arranger) identify() {
	taken := map[string]bool{}
	for i, m := range a.c.Messages {
		n := 0
		for _, p := range m.Parts {
			if p.Call != nil {
				p.Call.ID = a.caps.IDs.id(p.Call.ID, taken)
				result := a.c.Messages[i+1].Parts[n].Result
				result.ID = p.Call.ID
				n++
			}
		}
	}
}

// callOf returns a call's name and arguments, {} for absent or invalid ones.
func callOf(c llms.ToolCall) (name string, arguments json.RawMessage) {
	if c.FunctionCall == nil {
		return "", json.RawMessage("{}")
	}
	arguments = json.RawMessage(strings.TrimSpace(c.FunctionCall.Arguments))
	if !json.Valid(arguments) || arguments[0] != '{' {
		arguments = json.RawMessage("{}")
	}
	return c.FunctionCall.Name, arguments
}
