package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/runtime/agui"
)

func (m *Model) chat(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	body, err := m.chatRequest(e, req)
	if err != nil {
		return llm.Response{}, err
	}
	address := m.address("/chat/completions")
	if m.uncounted.Load() {
		body.StreamOptions = nil
	}
	res, err := e.Post(ctx, address, body)
	if refused := (*llm.Error)(nil); body.StreamOptions != nil && errors.As(err, &refused) &&
		refused.Code == "bad_request" && strings.Contains(refused.Message, "stream_options") {
		m.uncounted.Store(true) // usage is optional
		body.StreamOptions = nil
		res, err = e.Post(ctx, address, body)
	}
	if err != nil {
		return llm.Response{}, err
	}
	defer res.Body.Close()

	a := &chatAnswer{Answer: e.Answer(show), byIndex: map[int]int{}}
	events := agui.NewReader(res.Body, wire.MaxEvent)
	for {
		_, data, err := events.Next()
		if err != nil {
			if a.Finish == "" || ctx.Err() != nil { // after its finish reason the answer is complete
				return a.Response(), e.Lost(ctx, err)
			}
			break
		}
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			break
		}
		var c chatChunk
		if err := json.Unmarshal(data, &c); err != nil {
			return a.Response(), e.Garbled(err)
		}
		if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) {
			return a.Response(), e.Fault(0, data)
		}
		if err := a.add(&c); err != nil {
			return a.Response(), err
		}
	}
	return a.end()
}

// chatChunk is the part of an event that is used, including extensions of other servers.
type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			Refusal          string `json:"refusal"`
			Reasoning        string `json:"reasoning"`
			ReasoningContent string `json:"reasoning_content"`
			ToolCalls        []struct {
				Index    *int   `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string    `json:"name"`
					Arguments arguments `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatUsage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// arguments are JSON in a string, or directly JSON from some servers.
type arguments string

func (a *arguments) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(a))
	}
	*a = arguments(data)
	return nil
}

// chatAnswer assigns pieces to calls, even if the server does not identify them.
type chatAnswer struct {
	*wire.Answer
	byIndex map[int]int // our index by the server's
	refused bool
	thought strings.Builder
}

func (a *chatAnswer) add(c *chatChunk) error {
	if c.Usage != nil {
		a.Usage = c.Usage.of(a.Usage)
		if err := a.Counted(); err != nil {
			return err
		}
	}
	for _, choice := range c.Choices {
		d := &choice.Delta
		thought := d.ReasoningContent
		if thought == "" {
			thought = d.Reasoning
		}
		a.thought.WriteString(thought)
		a.refused = a.refused || d.Refusal != ""
		if err := a.Reasoning(thought); err != nil {
			return err
		}
		if err := a.Text(d.Content + d.Refusal); err != nil {
			return err
		}
		for _, call := range d.ToolCalls {
			i, err := a.find(call.Index, call.ID, call.Function.Name)
			if err != nil {
				return err
			}
			if i < 0 {
				continue
			}
			if err := a.Arguments(i, string(call.Function.Arguments)); err != nil {
				return err
			}
		}
		if choice.FinishReason != "" {
			a.Finish = choice.FinishReason
		}
	}
	return nil
}

// find returns the call of a piece, starting a new one if needed, and -1 for a piece without a call.
func (a *chatAnswer) find(index *int, id, name string) (int, error) {
	known, last := false, a.Calls()-1
	if index != nil {
		if i, ok := a.byIndex[*index]; ok {
			known, last = true, i
		}
	}
	sameID := id == "" || last >= 0 && id == a.ID(last)
	switch {
	case known && sameID, name == "" && (known || index == nil), id != "" && sameID && last >= 0:
		return last, nil
	case name == "":
		return -1, nil
	}
	i, err := a.Call(id, name)
	if index != nil {
		a.byIndex[*index] = i
	}
	return i, err
}

func (a *chatAnswer) end() (llm.Response, error) {
	switch {
	case a.refused:
		a.Finish = "content_filter"
	case a.Finish == "", a.Finish == "function_call":
		a.Finish = "stop"
	}
	if a.Calls() > 0 && a.thought.Len() > 0 {
		if err := a.Carry(chatCarried{ReasoningContent: a.thought.String()}); err != nil {
			return a.Response(), err
		}
	}
	return a.Response(), nil
}

func (c *chatUsage) of(u agui.TokenUsage) agui.TokenUsage {
	u.InputTokens, u.OutputTokens = c.PromptTokens, c.CompletionTokens
	u.CachedInputTokens = c.PromptTokensDetails.CachedTokens
	u.ReasoningTokens = c.CompletionTokensDetails.ReasoningTokens
	return u
}
