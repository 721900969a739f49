package openai

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/runtime/agui"
)

func (m *Model) respond(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	body, err := m.responsesRequest(e, req)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := e.Post(ctx, m.address("/responses"), body)
	if err != nil {
		return llm.Response{}, err
	}
	defer res.Body.Close()

	a := &responsesAnswer{Answer: e.Answer(show), calls: map[int]int{}, streamed: map[int]bool{}}
	events := agui.NewReader(res.Body, wire.MaxEvent)
	for {
		_, data, err := events.Next()
		if err != nil {
			return a.Response(), e.Lost(ctx, err)
		}
		var ev responsesEvent
		if err := json.Unmarshal(data, &ev); err != nil {
			return a.Response(), e.Garbled(err)
		}
		switch ev.Type {
		case "error":
			return a.Response(), e.Fault(0, data)
		case "response.failed":
			a.count(ev.Response)
			return a.Response(), e.Fault(0, ev.Response.Error)
		case "response.completed", "response.incomplete":
			a.count(ev.Response)
			a.Finish = a.finish(ev.Response)
			return a.Response(), nil
		}
		if err := a.add(&ev); err != nil {
			return a.Response(), err
		}
	}
}

// responsesEvent is the part of an event that is used.
type responsesEvent struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	Delta       string          `json:"delta"`
	Item        json.RawMessage `json:"item"`
	Response    responsesEnd    `json:"response"`
}

type responsesItem struct {
	Type             string `json:"type"`
	CallID           string `json:"call_id"`
	Name             string `json:"name"`
	Arguments        string `json:"arguments"`
	EncryptedContent string `json:"encrypted_content"`
}

type responsesEnd struct {
	Error             json.RawMessage `json:"error"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		InputTokens        int64 `json:"input_tokens"`
		OutputTokens       int64 `json:"output_tokens"`
		InputTokensDetails struct {
			CachedTokens     int64 `json:"cached_tokens"`
			CacheWriteTokens int64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputTokensDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type responsesAnswer struct {
	*wire.Answer
	calls    map[int]int  // our index by the position in the output
	streamed map[int]bool // calls with arguments in pieces
	refused  bool
}

func (a *responsesAnswer) add(ev *responsesEvent) error {
	switch ev.Type {
	case "response.output_text.delta":
		return a.Text(ev.Delta)
	case "response.refusal.delta":
		a.refused = true
		return a.Text(ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return a.Reasoning(ev.Delta)
	case "response.function_call_arguments.delta":
		if i, ok := a.calls[ev.OutputIndex]; ok {
			a.streamed[i] = true
			return a.Arguments(i, ev.Delta)
		}
	case "response.output_item.added", "response.output_item.done":
		return a.item(ev)
	}
	return nil
}

// item starts calls, completes calls sent in one piece, and carries reasoning.
func (a *responsesAnswer) item(ev *responsesEvent) error {
	var item responsesItem
	if err := json.Unmarshal(ev.Item, &item); err != nil {
		return err
	}
	done := ev.Type == "response.output_item.done"
	switch {
	case item.Type == "reasoning" && done && item.EncryptedContent != "":
		return a.Carry(ev.Item)
	case item.Type != "function_call":
		return nil
	}
	i, ok := a.calls[ev.OutputIndex]
	if !ok {
		var err error
		if i, err = a.Call(item.CallID, item.Name); err != nil {
			return err
		}
		a.calls[ev.OutputIndex] = i
	}
	if done && !a.streamed[i] {
		return a.Arguments(i, item.Arguments)
	}
	return nil
}

func (a *responsesAnswer) count(end responsesEnd) {
	u := end.Usage
	a.Usage.InputTokens, a.Usage.OutputTokens = u.InputTokens, u.OutputTokens
	a.Usage.CachedInputTokens = u.InputTokensDetails.CachedTokens
	a.Usage.CacheWriteInputTokens = u.InputTokensDetails.CacheWriteTokens
	a.Usage.ReasoningTokens = u.OutputTokensDetails.ReasoningTokens
}

func (a *responsesAnswer) finish(end responsesEnd) string {
	switch reason := end.IncompleteDetails.Reason; {
	case reason == "max_output_tokens":
		return "length"
	case reason != "":
		return reason
	case a.refused:
		return "content_filter"
	}
	return "stop"
}
