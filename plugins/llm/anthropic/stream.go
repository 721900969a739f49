package anthropic

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Stream implements llm.Streamer.
func (m *Model) Stream(ctx context.Context, req llm.Request, show func(llm.Piece) error) (llm.Response, error) {
	e := m.endpoint.For(req.Options)
	res, err := e.Exchange(ctx, m.cfg.BaseURL+"/v1/messages", req, m.shape)
	if err != nil {
		return llm.Response{}, err
	}
	a := &answer{Answer: e.Answer(req, show), blocks: map[string]*block{}}
	return a.Read(ctx, res, a.add)
}

// event is the part of an event, or of a whole message, that is used.
type event struct {
	Type         wire.Word       `json:"type"`
	Index        wire.Word       `json:"index"`
	Message      *reply          `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        struct {
		Type        wire.Word `json:"type"`
		Text        wire.Text `json:"text"`
		Thinking    wire.Text `json:"thinking"`
		Signature   wire.Word `json:"signature"`
		PartialJSON wire.Args `json:"partial_json"`
		StopReason  wire.Word `json:"stop_reason"`
	} `json:"delta"`
	reply
}

// reply is an answer, complete or not.
type reply struct {
	Content    wire.List[json.RawMessage] `json:"content"`
	StopReason wire.Word                  `json:"stop_reason"`
	Usage      usage                      `json:"usage"`
}

// block is a part of a message.
type block struct {
	Type      wire.Word `json:"type"`
	Text      wire.Text `json:"text"`
	ID        wire.Word `json:"id"`
	Name      wire.Word `json:"name"`
	Thinking  wire.Text `json:"thinking"`
	Signature wire.Word `json:"signature"`
	Data      wire.Word `json:"data"` // of hidden reasoning
	wire.Input

	carry               func(any) error // in the block's place
	thinking, signature wire.Pieces
}

type usage struct {
	InputTokens              wire.Count `json:"input_tokens"`
	OutputTokens             wire.Count `json:"output_tokens"`
	CacheReadInputTokens     wire.Count `json:"cache_read_input_tokens"`
	CacheCreationInputTokens wire.Count `json:"cache_creation_input_tokens"`
	OutputTokensDetails      struct {
		ThinkingTokens wire.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// answer tracks the open blocks.
type answer struct {
	*wire.Answer
	blocks map[string]*block // by their index
	last   string            // the index of the latest block, for events without one
}

func (a *answer) add(name string, object []byte) (done bool, err error) {
	var ev event
	if err := a.Decode(object, &ev); err != nil {
		return false, err
	}
	if ev.Type == "" {
		ev.Type = wire.Word(name)
	}
	if ev.Index == "" {
		ev.Index = wire.Word(a.last)
	}
	a.last = string(ev.Index)
	switch ev.Type {
	case "message_start":
		if ev.Message != nil {
			a.count(&ev.Message.Usage)
		}
		return false, a.Counted()
	case "content_block_start":
		return false, a.start(a.last, ev.ContentBlock)
	case "content_block_delta":
		return false, a.delta(a.last, &ev)
	case "content_block_stop":
		return false, a.stop(a.last)
	case "message_delta":
		a.count(&ev.Usage)
		return false, a.finish(ev.Delta.StopReason)
	case "message_stop":
		return true, nil
	case "message":
		return true, a.whole(&ev.reply)
	case "ping":
	default:
		return false, a.Failed(object, false)
	}
	return false, nil
}

func (a *answer) start(index string, raw json.RawMessage) error {
	var b block
	if err := a.Decode(raw, &b); err != nil {
		return err
	}
	if err := a.stop(index); err != nil { // without an event of its own
		return err
	}
	a.blocks[index] = &b
	if b.Type == "thinking" || b.Type == "redacted_thinking" {
		b.carry = a.Reserve()
		b.thinking.Add(b.Thinking)
		b.signature.Add(wire.Text(b.Signature))
	}
	switch b.Type {
	case "text":
		return a.Text(string(b.Text))
	case "thinking":
		return a.Reasoning(string(b.Thinking))
	case "tool_use":
		input := b.Given()
		if input.Text == "{}" {
			input.Text = "" // the input follows in pieces
		}
		_, err := a.Call(wire.CallPart{Key: index, ID: string(b.ID), Name: string(b.Name), Args: input, Begins: true})
		return err
	}
	return nil
}

func (a *answer) delta(index string, ev *event) error {
	b := a.blocks[index]
	if b == nil { // the block's start is missing or late
		b = &block{Type: "tool_use"}
	}
	d := &ev.Delta
	switch d.Type {
	case "text_delta":
		return a.Text(string(d.Text))
	case "thinking_delta":
		b.thinking.Add(d.Thinking)
		return a.Reasoning(string(d.Thinking))
	case "signature_delta":
		b.signature.Add(wire.Text(d.Signature))
	case "input_json_delta":
		if b.Type == "tool_use" {
			_, err := a.Call(wire.CallPart{Key: index, Args: d.PartialJSON})
			return err
		}
	}
	return nil
}

// stop carries the reasoning of a block.
func (a *answer) stop(index string) error {
	b := a.blocks[index]
	delete(a.blocks, index)
	switch {
	case b == nil:
	case b.Type == "thinking" && b.signature.Text() != "":
		text := string(b.thinking.Text())
		return b.carry(thought{Type: "thinking", Thinking: &text, Signature: string(b.signature.Text())})
	case b.Type == "redacted_thinking":
		return b.carry(thought{Type: "redacted_thinking", Data: string(b.Data)})
	}
	return nil
}

// whole adds a message that was sent at once.
func (a *answer) whole(m *reply) error {
	a.count(&m.Usage)
	for i, raw := range m.Content {
		index := strconv.Itoa(i)
		if err := a.start(index, raw); err != nil {
			return err
		}
	}
	return a.finish(m.StopReason)
}

// count updates the usage. Anthropic counts cached tokens separately.
func (a *answer) count(u *usage) {
	if in := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens; in > 0 {
		a.Usage.InputTokens = int64(in)
		a.Usage.CachedInputTokens, a.Usage.CacheWriteInputTokens = int64(u.CacheReadInputTokens), int64(u.CacheCreationInputTokens)
	}
	a.Usage.OutputTokens = max(a.Usage.OutputTokens, int64(u.OutputTokens))
	a.Usage.ReasoningTokens = max(a.Usage.ReasoningTokens, int64(u.OutputTokensDetails.ThinkingTokens))
}

// finish ends the answer and its open blocks.
func (a *answer) finish(reason wire.Word) error {
	if reason == "" {
		return nil
	}
	a.Finish = string(reason)
	for _, index := range slices.Sorted(maps.Keys(a.blocks)) {
		if err := a.stop(index); err != nil {
			return err
		}
	}
	return nil
}
