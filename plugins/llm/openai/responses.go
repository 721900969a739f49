package openai

import (
	"cmp"
	"context"
	"encoding/json"
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
	a := &responsesAnswer{Answer: e.Answer(req, show), endpoint: e, said: map[string]bool{}, done: map[string]bool{}}
	return a.Read(ctx, res, a.add)
}

// responsesEvent is the part of an event that is used.
type responsesEvent struct {
	Type        wire.Word       `json:"type"`
	OutputIndex wire.Word       `json:"output_index"`
	ItemID      wire.Word       `json:"item_id"`
	Delta       wire.Text       `json:"delta"`
	Arguments   wire.Args       `json:"arguments"`
	Item        json.RawMessage `json:"item"`
	Response    *responsesEnd   `json:"response"`
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
	said     map[string]bool // items whose text, or name of a call, was read
	done     map[string]bool // items that were sent as a whole
	indexed  bool            // events have the index of their item
	refused  bool
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
	key := a.key(ev.OutputIndex, ev.ItemID)
	switch kind {
	case "response.failed", "response.cancelled":
		if ev.Response != nil {
			return false, a.endpoint.Fault(0, ev.Response.Error)
		}
	case "response.completed", "response.incomplete":
		if ev.Response != nil {
			return true, a.end(ev.Response)
		}
	case "response.output_text.delta":
		a.said[key] = true
		return false, a.Text(string(ev.Delta))
	case "response.refusal.delta":
		a.refused, a.said[key] = true, true
		return false, a.Text(string(ev.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.said[key] = true
		return false, a.Reasoning(string(ev.Delta))
	case "response.function_call_arguments.delta", "response.function_call_arguments.done":
		whole := strings.HasSuffix(kind, ".done")
		_, err := a.Call(wire.CallPart{Key: key, Args: wire.Args{Text: string(ev.Delta) + ev.Arguments.Text, Whole: whole}})
		return false, err
	case "response.output_item.added", "response.output_item.done":
		done := strings.HasSuffix(kind, ".done")
		a.done[key] = done
		return false, a.item(ev.OutputIndex, ev.Item, done)
	}
	return false, a.Failed(object, strings.HasPrefix(kind, "response."))
}

// key returns the identity of an item of the output.
func (a *responsesAnswer) key(index, id wire.Word) string {
	a.indexed = a.indexed || index != ""
	if a.indexed {
		return string(index)
	}
	return string(id)
}

// item begins or completes a call, carries reasoning, and adds text that was not sent in pieces.
func (a *responsesAnswer) item(index wire.Word, raw json.RawMessage, done bool) error {
	var item responsesItem
	if err := a.Decode(raw, &item); err != nil {
		return err
	}
	key := a.key(index, item.ID)
	said := a.said[key]
	switch {
	case item.Type == "function_call":
		a.said[key] = true
		part := wire.CallPart{Key: key, Args: wire.Args{Text: item.Arguments.Text, Whole: true}}
		if !said {
			part.ID, part.Name, part.Begins = string(cmp.Or(item.CallID, item.ID)), string(item.Name), true
		}
		_, err := a.Call(part)
		return err
	case !done:
		return nil
	case item.Type == "reasoning" && item.EncryptedContent != "":
		var thought responsesThought
		if err := a.Decode(raw, &thought); err != nil {
			return err
		}
		if err := a.Carry(thought); err != nil {
			return err
		}
	}
	if said {
		return nil
	}
	a.said[key] = true
	switch item.Type {
	case "message":
		return a.Text(string(item.Content))
	case "reasoning":
		return a.Reasoning(string(cmp.Or(item.Summary, item.Content)))
	}
	return nil
}

// end adds the items that had no events of their own.
func (a *responsesAnswer) end(r *responsesEnd) error {
	for i, raw := range r.Output {
		index := wire.Word(strconv.Itoa(i))
		if a.done[a.key(index, "")] {
			continue
		}
		if err := a.item(index, raw, true); err != nil {
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

func (a *responsesAnswer) count(r *responsesEnd) {
	u := &r.Usage
	a.Usage.InputTokens, a.Usage.OutputTokens = int64(u.InputTokens), int64(u.OutputTokens)
	a.Usage.CachedInputTokens = int64(u.InputTokensDetails.CachedTokens)
	a.Usage.CacheWriteInputTokens = int64(u.InputTokensDetails.CacheWriteTokens)
	a.Usage.ReasoningTokens = int64(u.OutputTokensDetails.ReasoningTokens)
}
