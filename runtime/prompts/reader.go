package prompts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Sent is the prompt of a model call. Tools, calls and results have the names and ids of the log, whatever their provider calls them.
type Sent struct {
	System     string
	Messages   []agui.Message // with their role, content, calls and ToolCallID, and the ID if the thread has the message in this form
	Tools      []plugins.PromptTool
	Parameters json.RawMessage        // an object, nil for none
	Changes    []plugins.PromptChange // between the log and the prompt
	Hidden     *HiddenPrompt          // what the caller may not see, nil for operators
}

// HiddenPrompt is the sizes of the instructions and tools, for users and viewers, who do not see them. Absent for operators.
type HiddenPrompt struct {
	SystemBytes int `json:"systemBytes"` // Bytes of the instructions.
	Tools       int `json:"tools"`       // Number of tools.
	ToolBytes   int `json:"toolBytes"`   // Bytes of the tools.
}

// Hide leaves the conversation alone.
func (s *Sent) Hide() {
	s.Hidden = &HiddenPrompt{SystemBytes: len(s.System), Tools: len(s.Tools)}
	for i := range s.Tools {
		s.Hidden.ToolBytes += len(s.Tools[i].Description) + len(s.Tools[i].Parameters)
	}
	s.System, s.Tools, s.Parameters = "", nil, nil // parameters have the schema of the answer
	s.Changes = slices.DeleteFunc(s.Changes, func(c plugins.PromptChange) bool { return c.Kind == plugins.PromptLeftOut })
}

// maxSent limits the messages that Read returns, in bytes. The oldest messages are cut.
const maxSent = 8 << 20

// reader resolves the references of
type reader struct {
	store   data.ByProject
	project string
	thread  int64
	left    int // bytes that may still be read; the last row may exceed them
}

// found are the pieces and messages that were read.
type found struct {
	pieces   map[string]json.RawMessage
	messages map[int64]*data.Message
	whole    bool // nothing was left out for its size
}

// Read returns what a call of a model was sent, and its answer. Each is nil if it is not kept.
func Read(ctx context.Context, store data.ByProject, project string, thread int64, call *data.Prompt) (*Sent, *Answered, error) {
	r := &reader{store: store, project: project, thread: thread, left: maxSent}
	sent, err := r.sent(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	answer, err := r.answer(ctx, call.Answer)
	return sent, answer, err
}

// readAtOnce limits the messages and pieces of one read.
const readAtOnce = 100

// sent reads the prompt of a call: the instructions, and then messages from the last one on, as long as they fit.
func (r *reader) sent(ctx context.Context, call *data.Prompt) (*Sent, error) {
	if call.Sent == "" {
		return nil, nil
	}
	sent := &Sent{}
	var frame, messages []reference
	for _, ref := range readReferences(call.Sent) {
		switch ref.Kind {
		case refMessages:
			for ; ref.First <= ref.Last; ref.First++ {
				messages = append(messages, ref)
			}
		case refMessage:
			messages = append(messages, ref)
		default:
			frame = append(frame, ref)
		}
	}
	if err := r.frame(ctx, frame, sent); err != nil {
		return nil, err
	}
	if call.Changes != nil {
		if err := json.Unmarshal(call.Changes, &sent.Changes); err != nil {
			return nil, err
		}
	}
	if err := r.conversation(ctx, messages, sent); err != nil {
		return nil, err
	}
	sent.Tools = slices.DeleteFunc(sent.Tools, func(t plugins.PromptTool) bool {
		return slices.ContainsFunc(sent.Changes, func(c plugins.PromptChange) bool { return c.Kind == plugins.PromptLeftOut && c.Of == t.Name })
	})
	return sent, nil
}

// frame reads all but the messages.
func (r *reader) frame(ctx context.Context, items []reference, sent *Sent) error {
	f, err := r.read(ctx, items)
	if err != nil {
		return err
	}
	var instructions []string
	for _, it := range items {
		body := f.pieces[it.Piece]
		switch {
		case body == nil:
		case it.Kind == refInstructions:
			var text string
			if err := json.Unmarshal(body, &text); err != nil {
				return err
			}
			instructions = append(instructions, text)
		case it.Kind == refOffer:
			var offer offerPiece
			if err := json.Unmarshal(body, &offer); err != nil {
				return err
			}
			instructions = append(instructions, offer.System...)
			sent.Tools, sent.Parameters = offer.Tools, offer.Parameters
		}
	}
	sent.System = strings.Join(instructions, "\n\n")
	return nil
}

// conversation reads the messages, the last ones first.
func (r *reader) conversation(ctx context.Context, items []reference, sent *Sent) error {
	removed, cut := false, 0
	for end := len(items); end > 0 && cut == 0; end -= readAtOnce {
		some := items[max(end-readAtOnce, 0):end]
		f, err := r.read(ctx, some)
		if err != nil {
			return err
		}
		for i, it := range slices.Backward(some) {
			said, ok, err := f.message(it, r.thread)
			switch {
			case err != nil:
				return err
			case !ok && !f.whole:
				cut = max(end-readAtOnce, 0) + i + 1
			case !ok:
				removed = true
				continue
			case !converses(said.Message.Role):
				continue
			}
			if cut > 0 {
				break
			}
			sent.Messages = append(sent.Messages, said.Message)
			sent.Changes = append(sent.Changes, said.Changes...)
		}
	}
	slices.Reverse(sent.Messages)
	if removed {
		sent.Changes = append(sent.Changes, plugins.PromptChange{Kind: "removed", Why: "Other runs have been deleted, with messages that this prompt had"})
	}
	if cut > 0 {
		sent.Changes = append(sent.Changes, plugins.PromptChange{Kind: "cut", Why: fmt.Sprintf("The first %d messages are not shown, as the prompt has more than %d bytes", cut, maxSent)})
	}
	return nil
}

// message returns a message that was read. Its ID is that of the thread's message, and empty for a piece.
func (f *found) message(it reference, thread int64) (said Said, ok bool, err error) {
	if it.Kind == refMessages {
		if m := f.messages[it.First]; m != nil {
			return Said{Message: m.Message}, true, nil
		}
		it.Piece = FormerID(thread, it.First)
	}
	body := f.pieces[it.Piece]
	if body == nil {
		return said, false, nil
	}
	err = json.Unmarshal(body, &said)
	return said, true, err
}

// read reads pieces and messages as long as bytes are left.
func (r *reader) read(ctx context.Context, items []reference) (*found, error) {
	f := &found{make(map[string]json.RawMessage), make(map[int64]*data.Message), true}
	var ids []string
	var seqs []int64
	for _, it := range items {
		if it.Kind == refMessages {
			seqs = append(seqs, it.First)
		} else if !slices.Contains(ids, it.Piece) {
			ids = append(ids, it.Piece)
		}
	}
	for len(seqs) > 0 && r.left > 0 {
		p, err := r.store.MessagesBySeq(ctx, r.project, r.thread, seqs)
		if err != nil {
			return nil, err
		}
		for i := range p.Rows {
			m := &p.Rows[i]
			f.messages[m.Seq] = m
			r.left -= len(m.Content) + len(m.Parts)
			for _, c := range m.ToolCalls {
				r.left -= len(c.Arguments)
			}
		}
		if !p.More {
			for _, seq := range seqs { // an edit has replaced it, or it is gone
				if f.messages[seq] == nil {
					ids = append(ids, FormerID(r.thread, seq))
				}
			}
			seqs = nil
			break
		}
		last := p.Rows[len(p.Rows)-1].Seq
		seqs = slices.DeleteFunc(seqs, func(seq int64) bool { return seq >= last })
	}
	for len(ids) > 0 && r.left > 0 {
		p, err := r.store.PromptPieces(ctx, r.project, r.thread, ids)
		if err != nil {
			return nil, err
		}
		for i := range p.Rows {
			f.pieces[p.Rows[i].ID] = p.Rows[i].Body
			r.left -= len(p.Rows[i].Body)
		}
		if !p.More {
			ids = nil
			break
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return f.pieces[id] != nil })
	}
	f.whole = len(seqs)+len(ids) == 0
	return f, nil
}

// answer reads an answer.
func (r *reader) answer(ctx context.Context, refs string) (*Answered, error) {
	if refs == "" {
		return nil, nil
	}
	items := readReferences(refs)
	r.left = maxSent
	f, err := r.read(ctx, items)
	if err != nil {
		return nil, err
	}
	answer := &Answered{}
	for _, it := range items {
		if m := f.messages[it.First]; m != nil {
			answer.Add(&m.Message)
		} else if body := f.pieces[it.Piece]; body != nil && it.Kind == refAnswer {
			err = json.Unmarshal(body, answer)
		}
	}
	return answer, err
}
