package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/prompts"
)

// ModelCall is a call of a model.
type ModelCall = data.Prompt

// SentPrompt is the prompt of a model call. Tools, calls and results have the names and ids of the log, whatever their provider calls them.
type SentPrompt struct {
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

// hide leaves the conversation alone.
func (s *SentPrompt) hide() {
	s.Hidden = &HiddenPrompt{SystemBytes: len(s.System), Tools: len(s.Tools)}
	for i := range s.Tools {
		s.Hidden.ToolBytes += len(s.Tools[i].Description) + len(s.Tools[i].Parameters)
	}
	s.System, s.Tools, s.Parameters = "", nil, nil // parameters have the schema of the answer
	s.Changes = slices.DeleteFunc(s.Changes, func(c plugins.PromptChange) bool { return c.Kind == plugins.PromptLeftOut })
}

// Answered is the answer of a model.
type Answered = prompts.Answered

// ErrModelCallNotFound is returned for a model call that the run has not made.
var ErrModelCallNotFound = refuse(KindNotFound, "model_call_not_found", "The run has made no such call of a model")

// MaxSent limits the messages that ModelCall returns, in bytes. The oldest messages are cut.
const MaxSent = 8 << 20

// ModelCalls lists a run's calls of models with an id behind after, the oldest first.
func (rs *Runs) ModelCalls(ctx context.Context, c Caller, name, after string, limit int) (Page[ModelCall], error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return Page[ModelCall]{}, err
	}
	calls, err := rs.store.Prompts(ctx, c.project, run.Key, after, limit)
	for i := range calls.Rows {
		interrupted(&run, &calls.Rows[i])
	}
	return calls, unavailable(err)
}

// interrupted corrects the status of a call whose run has ended without its end.
func interrupted(run *Run, call *ModelCall) {
	if call.Status == agui.ModelStarted && run.Status != Running {
		call.Status = agui.ModelInterrupted
	}
}

// ModelCall returns a call of a model by its id, with what the model was sent and its answer. Each is nil if it is not kept. On a server with
// accounts only operators see its instructions, tools and parameters.
func (rs *Runs) ModelCall(ctx context.Context, c Caller, name, id string) (ModelCall, *SentPrompt, *Answered, error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return ModelCall{}, nil, nil, err
	}
	call, err := rs.store.Prompt(ctx, c.project, run.Key, id)
	if errors.Is(err, ErrNotFound) {
		return ModelCall{}, nil, nil, ErrModelCallNotFound
	}
	if err != nil {
		return ModelCall{}, nil, nil, unavailable(err)
	}
	interrupted(&run, &call)
	r := &promptReader{store: rs.store, project: c.project, thread: run.ThreadKey, left: MaxSent}
	sent, err := r.sent(ctx, &call)
	if err != nil {
		return ModelCall{}, nil, nil, unavailable(err)
	}
	if sent != nil && rs.accounts && c.rank() < RoleOperator {
		sent.hide()
	}
	answer, err := r.answer(ctx, call.Answer)
	return call, sent, answer, unavailable(err)
}

// promptReader resolves the references of prompts.
type promptReader struct {
	store   data.ByProject
	project string
	thread  int64
	left    int // bytes that may still be read; the last row may exceed them
}

// item is a piece, or a message of the thread.
type item struct {
	kind  byte
	piece string
	seq   int64
}

// found are the pieces and messages that were read.
type found struct {
	pieces   map[string]json.RawMessage
	messages map[int64]*data.Message
	whole    bool // nothing was left out for its size
}

// readAtOnce limits the messages and pieces of one read.
const readAtOnce = 100

// sent reads the prompt of a call: the instructions, and then messages from the last one on, as long as they fit.
func (r *promptReader) sent(ctx context.Context, call *ModelCall) (*SentPrompt, error) {
	if call.Sent == "" {
		return nil, nil
	}
	sent := &SentPrompt{}
	var frame, messages []item
	for _, ref := range prompts.References(call.Sent) {
		switch ref.Kind {
		case prompts.RefMessages:
			for seq := ref.First; seq <= ref.Last; seq++ {
				messages = append(messages, item{kind: ref.Kind, seq: seq})
			}
		case prompts.RefMessage:
			messages = append(messages, item{kind: ref.Kind, piece: ref.Piece})
		default:
			frame = append(frame, item{kind: ref.Kind, piece: ref.Piece})
		}
	}
	if err := r.frame(ctx, frame, sent); err != nil {
		return nil, err
	}
	var changes []plugins.PromptChange
	if call.Changes != nil {
		if err := json.Unmarshal(call.Changes, &changes); err != nil {
			return nil, err
		}
	}
	sent.Changes = changes
	if err := r.conversation(ctx, messages, sent); err != nil {
		return nil, err
	}
	sent.Tools = slices.DeleteFunc(sent.Tools, func(t plugins.PromptTool) bool {
		return slices.ContainsFunc(changes, func(c plugins.PromptChange) bool { return c.Kind == plugins.PromptLeftOut && c.Of == t.Name })
	})
	return sent, nil
}

// frame reads all but the messages.
func (r *promptReader) frame(ctx context.Context, items []item, sent *SentPrompt) error {
	f, err := r.read(ctx, items)
	if err != nil {
		return err
	}
	var instructions []string
	for _, it := range items {
		body := f.pieces[it.piece]
		switch {
		case body == nil:
		case it.kind == prompts.RefInstructions:
			var text string
			if err := json.Unmarshal(body, &text); err != nil {
				return err
			}
			instructions = append(instructions, text)
		case it.kind == prompts.RefOffer:
			var offer prompts.Offer
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
func (r *promptReader) conversation(ctx context.Context, items []item, sent *SentPrompt) error {
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
			case !prompts.Converses(said.Message.Role):
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
		sent.Changes = append(sent.Changes, plugins.PromptChange{Kind: "cut", Why: fmt.Sprintf("The first %d messages are not shown, as the prompt has more than %d bytes", cut, MaxSent)})
	}
	return nil
}

// message returns a message that was read. Its ID is that of the thread's message, and empty for a piece.
func (f *found) message(it item, thread int64) (said prompts.Said, ok bool, err error) {
	if it.kind == prompts.RefMessages {
		if m := f.messages[it.seq]; m != nil {
			return prompts.Said{Message: m.Message}, true, nil
		}
		it.piece = prompts.FormerID(thread, it.seq)
	}
	body := f.pieces[it.piece]
	if body == nil {
		return said, false, nil
	}
	err = json.Unmarshal(body, &said)
	return said, true, err
}

// read reads pieces and messages as long as bytes are left.
func (r *promptReader) read(ctx context.Context, items []item) (*found, error) {
	f := &found{make(map[string]json.RawMessage), make(map[int64]*data.Message), true}
	var ids []string
	var seqs []int64
	for _, it := range items {
		if it.kind == prompts.RefMessages {
			seqs = append(seqs, it.seq)
		} else if !slices.Contains(ids, it.piece) {
			ids = append(ids, it.piece)
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
			r.left -= len(m.Content) + len(m.Parts) + sizeOfCalls(m.ToolCalls)
		}
		if !p.More {
			for _, seq := range seqs { // an edit has replaced it, or it is gone
				if f.messages[seq] == nil {
					ids = append(ids, prompts.FormerID(r.thread, seq))
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

func sizeOfCalls(calls []agui.ToolCall) (n int) {
	for _, c := range calls {
		n += len(c.Arguments)
	}
	return n
}

// answer reads an answer.
func (r *promptReader) answer(ctx context.Context, refs string) (*Answered, error) {
	if refs == "" {
		return nil, nil
	}
	var items []item
	for _, ref := range prompts.References(refs) {
		items = append(items, item{kind: ref.Kind, piece: ref.Piece, seq: ref.First})
	}
	r.left = MaxSent
	f, err := r.read(ctx, items)
	if err != nil {
		return nil, err
	}
	answer := &Answered{}
	for _, it := range items {
		if m := f.messages[it.seq]; m != nil {
			answer.Add(&m.Message)
		} else if body := f.pieces[it.piece]; body != nil && it.kind == prompts.RefAnswer {
			err = json.Unmarshal(body, answer)
		}
	}
	return answer, err
}
