package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

func (m *Model) respond(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	res, err := e.Exchange(ctx, m.address("/responses", e.Model), req, m.responsesShape)
	if err != nil {
		return llm.Response{}, err
	}
	a := &responsesAnswer{Answer: e.Answer(req, show), endpoint: e}
	return a.Read(ctx, res, a.add)
}

// responsesEvent is the part of an event that is used.
type responsesEvent struct {
	Type         wire.Word       `json:"type"`
	OutputIndex  wire.Word       `json:"output_index"`
	ItemID       wire.Word       `json:"item_id"`
	ContentIndex wire.Word       `json:"content_index"`
	SummaryIndex wire.Word       `json:"summary_index"`
	Delta        wire.Text       `json:"delta"`
	Text         wire.Text       `json:"text"`
	Refusal      wire.Text       `json:"refusal"`
	Arguments    wire.Args       `json:"arguments"`
	Item         json.RawMessage `json:"item"`
	Response     *responsesEnd   `json:"response"`
	responsesEnd
}

// responsesItem is a part of the output.
type responsesItem struct {
	Type             wire.Word `json:"type"`
	ID               wire.Word `json:"id"`
	CallID           wire.Word `json:"call_id"`
	Name             wire.Word `json:"name"`
	Arguments        wire.Args `json:"arguments"`
	EncryptedContent wire.Word `json:"encrypted_content"`
	Summary          wire.Text `json:"summary"`
	Content          wire.Text `json:"content"`
}

// responsesThought is an item of reasoning, as it is in later requests.
type responsesThought struct {
	Type             wire.Word `json:"type"`
	ID               wire.Word `json:"id,omitempty"`
	EncryptedContent wire.Word `json:"encrypted_content"`
	Summary          summary   `json:"summary"`
}

// summary is a list of texts.
type summary []string

// UnmarshalJSON never fails.
func (s *summary) UnmarshalJSON(data []byte) error {
	var list wire.List[struct{ Text wire.Text }]
	_ = list.UnmarshalJSON(data)
	for *s = nil; len(list) > 0; list = list[1:] {
		*s = append(*s, list[0].Text.String())
	}
	return nil
}

// MarshalJSON returns the form of the API.
func (s summary) MarshalJSON() ([]byte, error) {
	list := []object{}
	for _, text := range s {
		list = append(list, object{"type": "summary_text", "text": text})
	}
	return json.Marshal(list)
}

// responsesEnd is a response, complete or not.
type responsesEnd struct {
	Status            wire.Word                  `json:"status"`
	Output            wire.List[json.RawMessage] `json:"output"`
	Error             json.RawMessage            `json:"error"`
	IncompleteDetails struct {
		Reason wire.Word `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		InputTokens        wire.Count `json:"input_tokens"`
		OutputTokens       wire.Count `json:"output_tokens"`
		InputTokensDetails struct {
			CachedTokens     wire.Count `json:"cached_tokens"`
			CacheWriteTokens wire.Count `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputTokensDetails struct {
			ReasoningTokens wire.Count `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type responsesAnswer struct {
	*wire.Answer
	endpoint *wire.Endpoint
	output   []*output // in the order in which it began
	refused  bool
}

// output is an item of the output, as far as it was read.
type output struct {
	kind, id, index string
	said            map[string]bool // parts of the text that came in pieces, by their index
	begun           bool            // the call's name was read
	arguments       string          // that came before the call's name
	done            bool
}

func (o *output) saidAll(part string) bool {
	return o.said[part] || o.said[""] || part == "" && len(o.said) > 0
}

// The kinds of items that are read.
const (
	message      = "message"
	reasoning    = "reasoning"
	functionCall = "function_call"
)

// find returns the item with an id, else that under an index, else the newest of the kind that is not done. It begins one if there is none.
func (a *responsesAnswer) find(kind, id, index string) *output {
	var byIndex, newest *output
	for _, o := range a.output {
		switch {
		case o.kind != kind:
		case id != "" && o.id == id:
			return o
		case index != "" && o.index == index:
			byIndex = o
		case !o.done && (index == "" || o.index == "") && (id == "" || o.id == "" || index == ""):
			newest = o
		}
	}
	o := cmp.Or(byIndex, newest)
	if o == nil {
		o = a.begin(kind)
	}
	o.id, o.index = cmp.Or(o.id, id), cmp.Or(o.index, index)
	return o
}

func (a *responsesAnswer) begin(kind string) *output {
	o := &output{kind: kind, said: map[string]bool{}}
	a.output = append(a.output, o)
	return o
}

func (a *responsesAnswer) add(event string, object []byte) (done bool, err error) {
	var ev responsesEvent
	if err := a.Decode(object, &ev); err != nil {
		return false, err
	}
	kind := cmp.Or(string(ev.Type), event)
	if ev.Response == nil && ev.Status != "" { // the whole response without its event
		ev.Response = &ev.responsesEnd
		kind = "response." + string(ev.Status)
	}
	if ev.Response != nil {
		a.count(ev.Response)
	}
	of := func(kind string) *output { return a.find(kind, string(ev.ItemID), string(ev.OutputIndex)) }
	switch kind {
	case "response.failed", "response.cancelled":
		if ev.Response != nil {
			return false, a.endpoint.Fault(0, ev.Response.Error)
		}
	case "response.completed", "response.incomplete":
		if ev.Response != nil {
			return true, a.end(ev.Response)
		}
	case "response.output_text.delta", "response.output_text.done":
		return false, a.piece(of(message), string(ev.ContentIndex), ev.Delta, ev.Text, a.Text)
	case "response.refusal.delta", "response.refusal.done":
		a.refused = true
		return false, a.piece(of(message), string(ev.ContentIndex), ev.Delta, ev.Refusal, a.Text)
	case "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done":
		return false, a.piece(of(reasoning), string(ev.SummaryIndex), ev.Delta, ev.Text, a.Reasoning)
	case "response.reasoning_text.delta", "response.reasoning_text.done":
		return false, a.piece(of(reasoning), string(ev.ContentIndex), ev.Delta, ev.Text, a.Reasoning)
	case "response.function_call_arguments.delta":
		return false, a.arguments(of(functionCall), wire.Args{Text: string(ev.Delta)})
	case "response.function_call_arguments.done":
		return false, a.arguments(of(functionCall), wire.Args{Text: ev.Arguments.Text, Whole: true})
	case "response.output_item.added", "response.output_item.done":
		return false, a.item(string(ev.OutputIndex), ev.Item, strings.HasSuffix(kind, ".done"))
	}
	return false, a.Failed(object, strings.HasPrefix(kind, "response."))
}

// piece adds a piece of a part of o's text, or the whole part if it did not come in pieces.
func (a *responsesAnswer) piece(o *output, part string, piece, whole wire.Text, add func(string) error) error {
	switch {
	case piece != "":
		o.said[part] = true
		return add(string(piece))
	case whole == "" || o.saidAll(part):
		return nil
	}
	o.said[part] = true
	return add(string(whole))
}

// arguments adds a piece of o's arguments, or all of them.
func (a *responsesAnswer) arguments(o *output, args wire.Args) error {
	if o.begun {
		_, err := a.Call(wire.CallPart{Key: a.key(o), Args: args})
		return err
	}
	if o.arguments += args.Text; args.Whole {
		o.arguments = args.Text
	}
	return nil
}

// key identifies o's call.
func (a *responsesAnswer) key(o *output) string { return strconv.Itoa(slices.Index(a.output, o)) }

// item begins or completes an item. What did not come in pieces is added.
func (a *responsesAnswer) item(index string, raw json.RawMessage, done bool) error {
	var item responsesItem
	if err := a.Decode(raw, &item); err != nil {
		return err
	}
	kind, id := string(item.Type), string(item.ID)
	var o *output
	if known := func(o *output) bool {
		return o.kind == kind && (id != "" && o.id == id || index != "" && o.index == index)
	}; !done && !slices.ContainsFunc(a.output, known) {
		o = a.begin(kind)
		o.id, o.index = id, index
	} else {
		o = a.find(kind, id, index)
	}
	return a.complete(o, &item, raw, done)
}

// complete adds what an item has to o.
func (a *responsesAnswer) complete(o *output, item *responsesItem, raw json.RawMessage, done bool) error {
	o.done = o.done || done
	switch {
	case o.kind == functionCall:
		return a.call(o, item)
	case !done:
		return nil
	case o.kind == message:
		return a.piece(o, "", "", item.Content, a.Text)
	case o.kind != reasoning:
		return nil
	}
	if item.EncryptedContent != "" {
		var thought responsesThought
		if err := a.Decode(raw, &thought); err != nil {
			return err
		}
		if err := a.Carry(thought); err != nil {
			return err
		}
	}
	return a.piece(o, "", "", cmp.Or(item.Summary, item.Content), a.Reasoning)
}

// call begins o's call, or has its arguments.
func (a *responsesAnswer) call(o *output, item *responsesItem) error {
	part := wire.CallPart{Key: a.key(o)}
	if !o.begun {
		o.begun = true
		part.ID, part.Name, part.Begins = string(cmp.Or(item.CallID, item.ID)), string(item.Name), true
		part.Args.Text = o.arguments
		if _, err := a.Call(part); err != nil {
			return err
		}
	}
	_, err := a.Call(wire.CallPart{Key: part.Key, Args: wire.Args{Text: item.Arguments.Text, Whole: true}})
	return err
}

// end adds the items that had no events of their own.
func (a *responsesAnswer) end(r *responsesEnd) error {
	seen := map[string]int{} // by kind
	for _, raw := range r.Output {
		var item responsesItem
		if err := a.Decode(raw, &item); err != nil {
			return err
		}
		o := a.nth(string(item.Type), string(item.ID), seen[string(item.Type)])
		if seen[string(item.Type)]++; o.done {
			continue
		}
		if err := a.complete(o, &item, raw, true); err != nil {
			return err
		}
	}
	switch reason := string(r.IncompleteDetails.Reason); {
	case reason != "":
		a.Finish = reason
	case a.refused:
		a.Finish = "content_filter"
	default:
		a.Finish = "stop"
	}
	return nil
}

// nth returns the item with an id, else that which began as the nth of the kind. It begins one if there is none.
func (a *responsesAnswer) nth(kind, id string, n int) *output {
	var nth *output
	for _, o := range a.output {
		switch {
		case o.kind != kind:
		case id != "" && o.id == id:
			return o
		case n == 0:
			nth = o
			fallthrough
		default:
			n--
		}
	}
	if nth == nil {
		nth = a.begin(kind)
		nth.id = id
	}
	return nth
}

func (a *responsesAnswer) count(r *responsesEnd) {
	u := &r.Usage
	a.Usage.InputTokens, a.Usage.OutputTokens = int64(u.InputTokens), int64(u.OutputTokens)
	a.Usage.CachedInputTokens = int64(u.InputTokensDetails.CachedTokens)
	a.Usage.CacheWriteInputTokens = int64(u.InputTokensDetails.CacheWriteTokens)
	a.Usage.ReasoningTokens = int64(u.OutputTokensDetails.ReasoningTokens)
}
