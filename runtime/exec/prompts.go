package exec

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// The kinds of a Reference. What a model was sent is stored as references, with spaces between them: each is a letter and what it refers to. A range of
// messages is m<seq>-<seq> and includes only messages with a role that a conversation with a model has, so a long conversation is one
// reference.
const (
	RefInstructions = 's' // a piece: a string, of instructions that are not in the Offer
	RefOffer        = 'o' // a piece: an Offer
	RefMessages     = 'm' // seqs of messages of the thread
	RefMessage      = 'x' // a piece: a Said
	RefAnswer       = 'a' // a piece: an Answered
)

// Offer is the piece of a prompt with all but its messages. It has the instructions if the rest is small: a prompt with other instructions
// stores the rest again then.
type Offer struct {
	System     []string             `json:"system,omitempty"`
	Tools      []plugins.PromptTool `json:"tools,omitempty"`
	Parameters json.RawMessage      `json:"parameters,omitempty"`
}

// Said is the piece of a prompt with a message that is not in the thread, or not in this form.
type Said struct {
	Message agui.Message           `json:"message"`
	Changes []plugins.PromptChange `json:"changes,omitempty"`
}

// Answered is the answer to a prompt.
type Answered struct {
	Text      string          `json:"text,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	Calls     []agui.ToolCall `json:"calls,omitempty"`
}

// Converses reports whether conversations with models have messages of a role as messages, not as instructions.
func Converses(role agui.Role) bool {
	return role == agui.RoleUser || role == agui.RoleAssistant || role == agui.RoleTool
}

// FormerID returns the id of the piece with the content that an edit has replaced, of the message with that seq.
func FormerID(threadKey, seq int64) string { return fmt.Sprintf("m%d.%d", threadKey, seq) }

// maxPiece is the maximum size of a piece in bytes. A larger message is stored without its content.
const maxPiece = 4 << 20

// smallOffer is the size in bytes up to which the tools and parameters share a piece with the instructions. A piece costs some 100 bytes
// in each run that uses it.
const smallOffer = 1 << 10

// prompts stores the prompts of a run. The run's mutex guards it.
type prompts struct {
	thread, run int64
	seed        maphash.Seed
	seqs        map[uint64]int64 // of the thread's messages, by their content
	hashes      map[int64]uint64 // the contents by seq, 0 for messages that are not part of conversations
	runs        map[string]int64 // the runs of the thread's messages, by their id
	stored      map[pieceUse]bool
}

// pieceUse is a piece that a run uses.
type pieceUse struct {
	run   int64
	piece string
}

func newPrompts(run *data.Run) *prompts {
	return &prompts{
		thread: run.ThreadKey, run: run.Key, seed: maphash.MakeSeed(),
		seqs: make(map[uint64]int64), hashes: make(map[int64]uint64), runs: make(map[string]int64), stored: make(map[pieceUse]bool),
	}
}

// learn notes a message of the thread, to which prompts can refer.
func (p *prompts) learn(m *data.Message) {
	if p != nil {
		p.runs[m.ID] = m.RunKey
	}
	switch hash, ok := p.hash(&m.Message); {
	case p == nil || m.Seq == 0:
	case !Converses(m.Role):
		p.hashes[m.Seq] = 0
	case ok:
		p.seqs[hash], p.hashes[m.Seq] = m.Seq, hash
	default:
		delete(p.hashes, m.Seq)
	}
}

// hash returns the hash of what a model gets of a message. ok is false for a message with media.
func (p *prompts) hash(m *agui.Message) (hash uint64, ok bool) {
	if p == nil || !Converses(m.Role) {
		return 0, false
	}
	text := m.Content
	if m.Parts != nil {
		const most = 64 << 10
		if len(m.Parts) > most {
			return 0, false
		}
		parts := m.ContentParts()
		if len(parts) != 1 || parts[0].Type != "text" {
			return 0, false
		}
		text = parts[0].Text
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	add := func(texts ...string) {
		for _, t := range texts {
			_, _ = h.WriteString(strconv.Itoa(len(t)) + " ")
			_, _ = h.WriteString(t)
		}
	}
	add(string(m.Role), m.ToolCallID, text)
	for _, c := range m.ToolCalls {
		add(c.ID, c.Name, c.Arguments)
	}
	return h.Sum64() | 1, true
}

// lose forgets which pieces are stored, because rows with some of them were not written.
func (p *prompts) lose() {
	if p != nil {
		clear(p.stored)
	}
}

// references are references to messages and pieces while they are collected.
type references struct {
	*prompts
	text        strings.Builder
	rows        []data.Row // new pieces
	first, last int64      // the range of messages at the end, 0 for none
}

// piece adds a reference to a piece, which is removed with the run.
func (r *references) piece(kind byte, body []byte, run int64) {
	r.closeRange()
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %c %s", r.thread, kind, body))
	id := base64.RawURLEncoding.EncodeToString(sum[:12])
	r.text.WriteString(" " + string(kind) + id)
	if use := (pieceUse{run, id}); !r.stored[use] {
		r.stored[use] = true
		r.rows = append(r.rows, &data.PromptPiece{RunKey: run, ID: id, Body: body})
	}
}

// seq adds a reference to a message of the thread.
func (r *references) seq(seq int64) {
	if r.last != 0 && seq > r.last {
		next := r.last + 1
		for next < seq && r.skips(next) {
			next++
		}
		if next == seq {
			r.last = seq
			return
		}
	}
	r.closeRange()
	r.first, r.last = seq, seq
}

// skips reports whether a range omits the message with that seq.
func (r *references) skips(seq int64) bool {
	hash, known := r.hashes[seq]
	return known && hash == 0
}

func (r *references) closeRange() {
	switch r.first {
	case 0:
	case r.last:
		fmt.Fprintf(&r.text, " %c%d", RefMessages, r.first)
	default:
		fmt.Fprintf(&r.text, " %c%d-%d", RefMessages, r.first, r.last)
	}
	r.first, r.last = 0, 0
}

// String returns the references.
func (r *references) String() string {
	r.closeRange()
	return strings.TrimPrefix(r.text.String(), " ")
}

// message adds a message: a reference to the thread's message with that content, the next one if several have it, or a piece.
func (r *references) message(m *plugins.PromptMessage) {
	if hash, ok := r.hash(&m.Message); ok && m.Changes == nil {
		next := r.last + 1
		for r.last != 0 && r.skips(next) {
			next++
		}
		if r.last != 0 && r.hashes[next] == hash {
			r.seq(next)
			return
		}
		if seq, ok := r.seqs[hash]; ok && r.hashes[seq] == hash {
			r.seq(seq)
			return
		}
	}
	said := Said{m.Message, m.Changes}
	said.Message.ID = "" // messages that differ only in it are one piece
	body := data.MustJSON(said)
	if len(body) > maxPiece {
		said = Said{agui.Message{Role: m.Role, ToolCallID: m.ToolCallID}, []plugins.PromptChange{{Kind: "cut", Of: m.ToolCallID, Why: tooLong(len(body))}}}
		body = data.MustJSON(said)
	}
	r.piece(RefMessage, body, cmp.Or(r.runs[m.ID], r.run)) // a copy is removed with its message
}

func tooLong(size int) string {
	return fmt.Sprintf("It has %d bytes, of which nothing is kept: %d are the most", size, maxPiece)
}

// sent returns the references for a prompt and the rows of its new pieces.
func (p *prompts) sent(prompt *plugins.Prompt) (string, []data.Row) {
	r := &references{prompts: p}
	offer := data.MustJSON(Offer{Tools: prompt.Tools, Parameters: prompt.Parameters})
	all := data.MustJSON(Offer{prompt.System, prompt.Tools, prompt.Parameters})
	switch {
	case len(offer) <= smallOffer && len(all) <= maxPiece:
		r.piece(RefOffer, all, r.run)
	default:
		for _, text := range prompt.System {
			if len(text) > maxPiece {
				text = tooLong(len(text))
			}
			r.piece(RefInstructions, data.MustJSON(text), r.run)
		}
		if len(offer) > maxPiece {
			offer = data.MustJSON(Offer{Parameters: data.MustJSON(map[string]string{"tools": tooLong(len(offer))})})
		}
		r.piece(RefOffer, offer, r.run)
	}
	for i := range prompt.Messages {
		r.message(&prompt.Messages[i])
	}
	return r.String(), r.rows
}

// asking is a call of a model that is under way.
type asking struct {
	step    *step
	prompt  data.Prompt
	changes []plugins.PromptChange
	shown   []string // messages that the step has begun since
}

// maxShown limits the messages of an answer.
const maxShown = 1000

// noteShown notes a message that a step begins.
func (l *Live) noteShown(s *step, ev agui.Event) {
	id := ""
	switch e := ev.(type) {
	case agui.TextMessageStart:
		id = e.MessageID
	case agui.ReasoningMessageStart:
		id = e.MessageID
	case agui.ToolCallStart:
		if id = e.ParentMessageID; id == "" {
			id = e.ToolCallID
		}
	default:
		return
	}
	for _, a := range l.asking {
		if n := len(a.shown); a.step == s && n < maxShown && (n == 0 || a.shown[n-1] != id) {
			a.shown = append(a.shown, id)
		}
	}
}

// begin returns the rows of a call of a model that begins. l.mu is held.
func (a *asking) begin(prompt *plugins.Prompt) []data.Row {
	l := a.step.l
	l.asking = append(l.asking, a)
	var pieces []data.Row
	if prompt != nil {
		a.prompt.Provider, a.prompt.Model = data.Plain(data.Clip(prompt.Provider, 200)), data.Plain(data.Clip(prompt.Model, 200))
		if l.prompts != nil {
			a.changes, a.prompt.Changes = prompt.Changes, listJSON(prompt.Changes)
			a.prompt.Sent, pieces = l.prompts.sent(prompt)
		}
	}
	row := a.prompt
	return append(pieces, &row)
}

// over forgets the call. l.mu is held.
func (a *asking) over() {
	l := a.step.l
	l.asking = slices.DeleteFunc(l.asking, func(other *asking) bool { return other == a })
}

// ended returns the rows of the call's end. l.mu is held.
func (a *asking) ended(state *agui.ModelCall, c *plugins.ModelCall, answer *plugins.ModelAnswer) []data.Row {
	end := &data.PromptEnd{RunKey: a.prompt.RunKey, ID: state.ID, PromptResult: data.PromptResult{
		Status: state.Status, Provider: data.Plain(data.Clip(c.Usage.Provider, 200)), Model: data.Plain(data.Clip(c.Usage.Model, 200)),
		FinishReason: state.FinishReason, Error: state.Error, Took: max(time.Since(a.prompt.StartedAt), 1),
	}}
	if state.Usage != nil {
		end.Usage = *state.Usage
	}
	if answer != nil {
		end.FirstToken = answer.FirstToken
	}
	l := a.step.l
	a.over()
	if l.prompts == nil {
		return []data.Row{end}
	}
	if answer != nil && len(answer.Changes) > 0 {
		end.Changes = listJSON(append(slices.Clip(a.changes), answer.Changes...))
	}
	var pieces []data.Row
	end.Answer, pieces = a.answer(answer)
	return append(pieces, end)
}

// maxChanges limits the changes of a prompt as a whole, in bytes.
const maxChanges = 64 << 10

// listJSON returns changes as JSON, nil for none. The last one counts those that do not fit.
func listJSON(changes []plugins.PromptChange) json.RawMessage {
	if len(changes) == 0 {
		return nil
	}
	size := 0
	for i := range changes {
		if size += len(data.MustJSON(changes[i])) + 1; size > maxChanges {
			rest := fmt.Sprintf("%d more changes are not kept: %d bytes are the most", len(changes)-i, maxChanges)
			changes = append(slices.Clip(changes[:i]), plugins.PromptChange{Kind: "cut", Why: rest})
			break
		}
	}
	return data.MustJSON(changes)
}

// answer returns the references for an answer: to the messages that show it, or to a piece if they do not have all of it or more.
func (a *asking) answer(answer *plugins.ModelAnswer) (string, []data.Row) {
	l := a.step.l
	r := &references{prompts: l.prompts}
	var shown Answered
	for _, id := range a.shown {
		m, ok := l.span.Fold.Message(id)
		seq := l.span.SeqOf(id)
		if !ok || seq == 0 {
			continue
		}
		for i := range m.ToolCalls {
			m.ToolCalls[i].Arguments = l.span.Fold.Arguments(m.ToolCalls[i].ID)
		}
		shown.Add(&m)
		r.closeRange() // a range would include other messages
		r.seq(seq)
	}
	if answer == nil || answer.Text == "" && answer.Reasoning == "" && len(answer.Calls) == 0 {
		return r.String(), nil
	}
	whole := Answered{answer.Text, answer.Reasoning, answer.Calls}
	if whole.equal(&shown) {
		return r.String(), nil
	}
	body := data.MustJSON(whole)
	if len(body) > maxPiece {
		body = data.MustJSON(Answered{Text: tooLong(len(body))})
	}
	r = &references{prompts: l.prompts}
	r.piece(RefAnswer, body, r.run)
	return r.String(), r.rows
}

// Add adds what a message of the log shows of an answer.
func (a *Answered) Add(m *agui.Message) {
	if m.Role == agui.RoleReasoning {
		a.Reasoning += m.Text()
		return
	}
	a.Text += m.Text()
	for _, c := range m.ToolCalls {
		a.Calls = append(a.Calls, agui.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
}

func (a *Answered) equal(b *Answered) bool {
	if a.Text != b.Text || a.Reasoning != b.Reasoning || len(a.Calls) != len(b.Calls) {
		return false
	}
	for i, c := range a.Calls {
		if d := b.Calls[i]; c.ID != d.ID || c.Name != d.Name || cmp.Or(c.Arguments, "{}") != cmp.Or(d.Arguments, "{}") {
			return false
		}
	}
	return true
}

// Reference is a reference of a prompt or an answer: to a piece, or to a range of messages.
type Reference struct {
	Kind        byte
	Piece       string
	First, Last int64 // seqs
}

// References returns the references in the text of a Prompt.
func References(text string) (list []Reference) {
	for field := range strings.FieldsSeq(text) {
		ref := Reference{Kind: field[0], Piece: field[1:]}
		if ref.Kind == RefMessages {
			first, last, ranged := strings.Cut(ref.Piece, "-")
			ref.Piece = ""
			ref.First, _ = strconv.ParseInt(first, 10, 64) // written above
			if ref.Last = ref.First; ranged {
				ref.Last, _ = strconv.ParseInt(last, 10, 64)
			}
		}
		list = append(list, ref)
	}
	return list
}
