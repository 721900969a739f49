package openai

import (
	"cmp"
	"context"
	"slices"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

func (m *Model) chat(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	res, err := e.Exchange(ctx, m.address("/chat/completions", e.Model), req, m.chatShape)
	if err != nil {
		return llm.Response{}, err
	}
	a := &chatAnswer{Answer: e.Answer(req, show)}
	answer, err := a.Read(ctx, res, a.add)
	thoughts := a.thoughts.whole()
	if err != nil || len(answer.Calls) == 0 && !afterCalls(req.Messages) || thoughts.none() {
		return answer, err
	}
	err = a.Carry(thoughts)
	return a.Response(), err
}

// afterCalls reports whether the current turn has called tools. Only in such turns do servers need reasoning back.
func afterCalls(messages []llms.MessageContent) bool {
	for _, m := range slices.Backward(messages) {
		if m.Role != llms.ChatMessageTypeHuman {
			return m.Role == llms.ChatMessageTypeTool
		}
	}
	return false
}

// chatChunk is the part of an event, or of a whole completion, that is used, including extensions of other servers.
type chatChunk struct {
	Choices wire.List[chatChoice] `json:"choices"`
	Usage   *chatUsage            `json:"usage"`
}

type chatChoice struct {
	Delta        *chatDelta `json:"delta"`
	Message      *chatDelta `json:"message"`
	Text         wire.Text  `json:"text"` // of completions, the API before chat
	FinishReason wire.Word  `json:"finish_reason"`
	Error        wire.Text  `json:"error"`
}

type chatDelta struct {
	Content          wire.Content             `json:"content"`
	Refusal          wire.Text                `json:"refusal"`
	Reasoning        wire.Text                `json:"reasoning"`
	ReasoningContent wire.Text                `json:"reasoning_content"`
	ReasoningDetails wire.List[chatDetail]    `json:"reasoning_details"`
	ToolCalls        wire.List[chatCallDelta] `json:"tool_calls"`
	FunctionCall     *chatFunctionDelta       `json:"function_call"`
}

type chatCallDelta struct {
	Index             wire.Word         `json:"index"`
	ID                wire.Word         `json:"id"`
	Function          chatFunctionDelta `json:"function"`
	ExtraContent      chatExtra         `json:"extra_content"`
	chatFunctionDelta                   // where some servers have it
}

type chatFunctionDelta struct {
	Name wire.Word `json:"name"`
	wire.Input
}

type chatUsage struct {
	PromptTokens        wire.Count `json:"prompt_tokens"`
	CompletionTokens    wire.Count `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens wire.Count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens wire.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type chatAnswer struct {
	*wire.Answer
	thoughts chatThoughts
	streamed bool // in deltas, which a message at the end only repeats
	called   bool // in tool_calls, which a function_call only repeats
	refused  bool
}

func (a *chatAnswer) add(_ string, object []byte) (done bool, err error) {
	var c chatChunk
	if err := a.Decode(object, &c); err != nil {
		return false, err
	}
	if c.Usage != nil {
		a.count(c.Usage)
		if err := a.Counted(); err != nil {
			return false, err
		}
	}
	if err := a.Failed(object, c.Choices != nil || c.Usage != nil); err != nil {
		return false, err
	}
	a.Ended = c.Usage != nil && len(c.Choices) == 0
	for _, choice := range c.Choices {
		if err := a.choice(&choice); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (a *chatAnswer) choice(c *chatChoice) error {
	if c.Delta != nil {
		if err := a.delta(c.Delta); err != nil {
			return err
		}
		a.streamed = a.Spoken()
	}
	if c.Message != nil && !a.streamed {
		if err := a.delta(c.Message); err != nil {
			return err
		}
	}
	if c.Delta == nil && c.Message == nil {
		if err := a.Text(string(c.Text)); err != nil {
			return err
		}
	}
	a.Reason = cmp.Or(c.Error.String(), a.Reason)
	if a.Finish = cmp.Or(string(c.FinishReason), a.Finish); a.refused {
		a.Finish = "content_filter"
	}
	return nil
}

func (a *chatAnswer) delta(d *chatDelta) error {
	a.thoughts.add(d)
	thought := cmp.Or(d.ReasoningContent, d.Reasoning, textOf(d.ReasoningDetails))
	if err := a.Reasoning(string(thought) + d.Content.Reasoning); err != nil {
		return err
	}
	a.refused = a.refused || d.Refusal != ""
	if err := a.Text(d.Content.Text + string(d.Refusal)); err != nil {
		return err
	}
	for _, c := range d.ToolCalls {
		a.called = true
		if err := a.call(string(c.Index), &c); err != nil {
			return err
		}
	}
	if d.FunctionCall == nil || a.called {
		return nil
	}
	return a.call("function_call", &chatCallDelta{Function: *d.FunctionCall})
}

func (a *chatAnswer) call(key string, c *chatCallDelta) error {
	f := &c.Function
	if *f == (chatFunctionDelta{}) {
		f = &c.chatFunctionDelta
	}
	_, err := a.Call(wire.CallPart{Key: key, ID: string(c.ID), Name: string(f.Name), Args: f.Given()})
	if err != nil || c.ExtraContent == (chatExtra{}) {
		return err
	}
	return a.Carry(chatCarried{ExtraContent: &c.ExtraContent})
}

func (a *chatAnswer) count(u *chatUsage) {
	a.Usage.InputTokens, a.Usage.OutputTokens = int64(u.PromptTokens), int64(u.CompletionTokens)
	a.Usage.CachedInputTokens = int64(u.PromptTokensDetails.CachedTokens)
	a.Usage.ReasoningTokens = int64(u.CompletionTokensDetails.ReasoningTokens)
}
