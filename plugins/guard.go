package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Guards check the input, the calls and the answers of an Agent. Guards of one kind run in order, each on the result of the one before.
// Each verdict is recorded and is an event of the log. A guard that fails or exceeds its time refuses.
//
// A refused input fails the agent with the code guard_refused, and the refused messages are retracted: later prompts omit them.
// A refused tool call is not made, and its result is a failure with the code guard_refused. A refused output fails the agent,
// and nothing of it is shown.
type Guards struct {
	// Input checks all that people and clients give the agent: before it starts what is new in Messages and the texts in the Input, then what
	// Next, Ask and the calls of client's tools return. A rewritten text replaces the messages, in later prompts too; other texts can be
	// allowed or refused. The worker gets no reasoning, activities and unknown members of messages.
	Input []Guard
	// Tool checks each call of CallTool and CallTools before it is made, except calls that their worker answers itself. The
	// calls of a client's tool can be allowed or refused; other verdicts refuse them.
	Tool []Guard
	// Output checks the questions of the agent, and its answer. Until the answer is allowed, nothing that the agent emits leaves it
	// except the calls of tools that Baton or the client makes: texts, reasoning and other events are dropped, State does nothing, and
	// errors have their code alone. Then the answer is shown.
	Output []Guard
}

// Guard is an agent, a tool or a function that decides about an agent's input, tool call or output. It has exactly one of Agent,
// Tool and Check.
//
// The query of an agent and the arguments of a tool are the Subject as JSON; its result, or its text, is a Verdict as JSON.
// Nothing of the agent or the tool is shown, except the calls of its model, which count to the run. It can call no tools and
// ask no person.
type Guard struct {
	Name    string // in events; default the name of the agent or the tool
	Agent   string
	Tool    string
	Check   func(ctx context.Context, s Subject) (Verdict, error) `json:"-"`
	Rule    string                                                // what Check decides by, such as its expression, by which the servers of a cluster compare their guards
	Timeout time.Duration                                         // of one check; 0 means one minute
}

// Subject is the object of a guard's decision.
type Subject struct {
	On      string          `json:"on"`               // GuardInput, GuardTool or GuardOutput
	Input   string          `json:"input,omitempty"`  // the new texts, one per line
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

// fits fails for a verdict that cannot be applied.
func (v *Verdict) fits(on string) error {
	switch v.Verdict {
	case Allow, Refuse, AskPerson:
		return nil
	case Rewrite:
		if on == GuardTool && isObject(v.Args) || on != GuardTool && v.Text != "" {
			return nil
		}
		return errNoText
	}
	return errNoVerdict
}

var (
	errNoText    = &Error{Message: "it rewrites without a new text or new arguments"}
	errNoVerdict = &Error{Message: "it returned no verdict"}
)

func isObject(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(raw)), "{") && json.Valid(raw)
}

// verdictOf decodes a verdict from a text with a JSON object, which can be in a code fence.
func verdictOf(text string) (v Verdict, err error) {
	if from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}'); from >= 0 && to > from {
		text = text[from : to+1]
	}
	if json.Unmarshal([]byte(text), &v) != nil {
		return v, errNoVerdict
	}
	return v, nil
}
