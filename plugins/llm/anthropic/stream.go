package anthropic

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/runtime/agui"
)

// Stream implements llm.Streamer.
func (m *Model) Stream(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	body, err := m.request(e, req)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := e.Post(ctx, m.cfg.BaseURL+"/v1/messages", body)
	if err != nil {
		return llm.Response{}, err
	}
	defer res.Body.Close()

	a := &answer{Answer: e.Answer(show)}
	events := agui.NewReader(res.Body, wire.MaxEvent)
	for {
		_, data, err := events.Next()
		if err != nil {
			return a.Response(), e.Lost(ctx, err)
		}
		var ev event
		if err := json.Unmarshal(data, &ev); err != nil {
			return a.Response(), e.Garbled(err)
		}
		switch ev.Type {
		case "error":
			return a.Response(), e.Fault(0, data)
		case "message_stop":
			return a.Response(), nil
		}
		if err := a.add(&ev); err != nil {
			return a.Response(), err
		}
	}
}

// event is the part of an event that is used.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock block `json:"content_block"`
	Delta        struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

// block is a part of a message.
type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Data  string          `json:"data"` // of hidden reasoning
	thought
}

// thought is signed reasoning.
type thought struct {
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type usage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	OutputTokensDetails      struct {
		ThinkingTokens int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// answer tracks the single open block.
type answer struct {
	*wire.Answer
	open  block
	call  int // index of the open block if it is a call
	bytes int // of its arguments
}

func (a *answer) add(ev *event) error {
	switch ev.Type {
	case "message_start":
		a.count(ev.Message.Usage)
		return a.Counted()
	case "message_delta":
		a.count(ev.Usage)
		if ev.Delta.StopReason != "" {
			a.Finish = finishOf(ev.Delta.StopReason)
		}
	case "content_block_start":
		return a.start(ev.ContentBlock)
	case "content_block_delta":
		d := &ev.Delta
		switch d.Type {
		case "text_delta":
			return a.Text(d.Text)
		case "thinking_delta":
			a.open.Thinking += d.Thinking
			return a.Reasoning(d.Thinking)
		case "signature_delta":
			a.open.Signature += d.Signature
		case "input_json_delta":
			if a.open.Type == "tool_use" {
				a.bytes += len(d.PartialJSON)
				return a.Arguments(a.call, d.PartialJSON)
			}
		}
	case "content_block_stop":
		return a.stop()
	}
	return nil
}

func (a *answer) start(b block) error {
	a.open = b
	switch b.Type {
	case "text":
		return a.Text(b.Text)
	case "thinking":
		return a.Reasoning(b.Thinking)
	case "tool_use":
		var err error
		a.call, err = a.Call(b.ID, b.Name)
		a.bytes = 0
		return err
	}
	return nil
}

func (a *answer) stop() error {
	b := a.open
	a.open = block{}
	switch {
	case b.Type == "thinking" && b.Signature != "":
		return a.Carry(struct {
			Type string `json:"type"`
			thought
		}{b.Type, b.thought})
	case b.Type == "redacted_thinking":
		return a.Carry(map[string]string{"type": b.Type, "data": b.Data})
	case b.Type == "tool_use" && a.bytes == 0 && len(b.Input) > len("{}"):
		return a.Arguments(a.call, string(b.Input)) // in one piece, from servers with Anthropic's protocol
	}
	return nil
}

// count updates the usage. Anthropic counts cached tokens separately.
func (a *answer) count(u usage) {
	if in := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens; in > 0 {
		a.Usage.InputTokens = in
		a.Usage.CachedInputTokens, a.Usage.CacheWriteInputTokens = u.CacheReadInputTokens, u.CacheCreationInputTokens
	}
	a.Usage.OutputTokens = max(a.Usage.OutputTokens, u.OutputTokens)
	a.Usage.ReasoningTokens = max(a.Usage.ReasoningTokens, u.OutputTokensDetails.ThinkingTokens)
}

func finishOf(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence":
		return "stop"
	case "tool_use":
		return "tool_calls"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	}
	return stop
}
