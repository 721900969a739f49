// Package prompts writes the prompts of models and their answers as references to messages of the thread, and to pieces for all that is not
// among them, so that a long conversation is stored once. It reads them back, too, and knows neither runs at work nor callers.
package prompts

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

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// The kinds of a reference. A prompt is stored as references with spaces between them: each is the letter of its kind, and a key. A range of
// messages, m<seq>-<seq>, includes only messages with a role that a conversation with a model has, so a long conversation is one reference.
const (
	refInstructions = 's' // a piece: a string, of instructions that are not in the offerPiece
	refOffer        = 'o' // a piece: an offerPiece
	refMessages     = 'm' // seqs of messages of the thread
	refMessage      = 'x' // a piece: a Said
	refAnswer       = 'a' // a piece: an Answered
)

// offerPiece is the piece of a prompt with all but its messages. It has the instructions if the rest is small: a prompt with other instructions
// stores the rest again then.
type offerPiece struct {
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

// converses reports whether conversations with models have messages of a role as messages, not as instructions.
func converses(role agui.Role) bool {
	return role == agui.RoleUser || role == agui.RoleAssistant || role == agui.RoleTool
}

// FormerID returns the id of the piece with the content that an edit has replaced, of the message with that seq.
func FormerID(threadKey, seq int64) string { return fmt.Sprintf("m%d.%d", threadKey, seq) }

// maxPiece is the maximum size of a piece in bytes. A larger message is stored without its content.
const maxPiece = 4 << 20

// smallOffer is the size in bytes up to which the tools and parameters share a piece with the instructions. A piece costs some 100 bytes
// in each run that uses it.
const smallOffer = 1 << 10

// Writer makes the rows of a run's prompts. It is not for concurrent use. A nil Writer learns nothing.
type Writer struct {
	thread, run int64
	seed        maphash.Seed
	seqs        map[uint64]int64 // of the thread's messages, by their content
	hashes      map[int64]uint64 // the contents by seq, 0 for messages that are not part of conversations
	runs        map[string]int64 // the runs of the thread's messages, by their id
	stored      map[pieceUse]bool
}

type pieceUse struct {
	run   int64
	piece string
}

// New returns the Writer of a run.
func New(run *data.Run) *Writer {
	return &Writer{
		thread: run.ThreadKey, run: run.Key, seed: maphash.MakeSeed(),
		seqs: make(map[uint64]int64), hashes: make(map[int64]uint64), runs: make(map[string]int64), stored: make(map[pieceUse]bool),
	}
}

// Learn notes a message of the thread, to which prompts can refer.
func (p *Writer) Learn(m *data.Message) {
	if p != nil {
		p.runs[m.ID] = m.RunKey
	}
	switch hash, ok := p.hash(&m.Message); {
	case p == nil || m.Seq == 0:
	case !converses(m.Role):
		p.hashes[m.Seq] = 0
	case ok:
		p.seqs[hash], p.hashes[m.Seq] = m.Seq, hash
	default:
		delete(p.hashes, m.Seq)
	}
}

// hash returns the hash of what a model gets of a message. ok is false for a message with media.
func (p *Writer) hash(m *agui.Message) (hash uint64, ok bool) {
	if p == nil || !converses(m.Role) {
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

// Lose forgets which pieces are stored, because rows with some of them were not written.
func (p *Writer) Lose() {
	if p != nil {
		clear(p.stored)
	}
}

// references are references to messages and pieces while they are collected.
type references struct {
	*Writer
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
		fmt.Fprintf(&r.text, " %c%d", refMessages, r.first)
	default:
		fmt.Fprintf(&r.text, " %c%d-%d", refMessages, r.first, r.last)
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
	r.piece(refMessage, body, cmp.Or(r.runs[m.ID], r.run)) // a copy is removed with its message
}

func tooLong(size int) string {
	return fmt.Sprintf("It has %d bytes, of which nothing is kept: %d are the most", size, maxPiece)
}

// sent returns the references for a prompt and the rows of its new pieces.
func (p *Writer) sent(prompt *plugins.Prompt) (string, []data.Row) {
	r := &references{Writer: p}
	offer := data.MustJSON(offerPiece{Tools: prompt.Tools, Parameters: prompt.Parameters})
	all := data.MustJSON(offerPiece{prompt.System, prompt.Tools, prompt.Parameters})
	switch {
	case len(offer) <= smallOffer && len(all) <= maxPiece:
		r.piece(refOffer, all, r.run)
	default:
		for _, text := range prompt.System {
			if len(text) > maxPiece {
				text = tooLong(len(text))
			}
			r.piece(refInstructions, data.MustJSON(text), r.run)
		}
		if len(offer) > maxPiece {
			offer = data.MustJSON(offerPiece{Parameters: data.MustJSON(map[string]string{"tools": tooLong(len(offer))})})
		}
		r.piece(refOffer, offer, r.run)
	}
	for i := range prompt.Messages {
		r.message(&prompt.Messages[i])
	}
	return r.String(), r.rows
}

// maxChanges limits the changes of a prompt as a whole, in bytes.
const maxChanges = 64 << 10

// Changes returns changes as JSON, nil for none. The last one counts those that do not fit.
func Changes(changes []plugins.PromptChange) json.RawMessage {
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

// reference is a reference of a prompt or an answer: to a piece, or to a range of messages.
type reference struct {
	Kind        byte
	Piece       string
	First, Last int64 // seqs
}

// readReferences returns the references in the text of a Prompt.
func readReferences(text string) (list []reference) {
	for field := range strings.FieldsSeq(text) {
		ref := reference{Kind: field[0], Piece: field[1:]}
		if ref.Kind == refMessages {
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

// Call is a call of a model that is under way.
type Call struct {
	data.Prompt
	changes []plugins.PromptChange
	shown   []string // messages that its worker has begun since
}

// maxShown limits the messages of an answer.
const maxShown = 1000

// Show notes the message that an event of the call's worker begins.
func (c *Call) Show(ev agui.Event) {
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
	if n := len(c.shown); n < maxShown && (n == 0 || c.shown[n-1] != id) {
		c.shown = append(c.shown, id)
	}
}

// Begin returns the rows of a call that begins. prompt may be nil.
func (p *Writer) Begin(c *Call, prompt *plugins.Prompt) (rows []data.Row) {
	if prompt != nil {
		c.Provider, c.Model = data.Plain(data.Clip(prompt.Provider, 200)), data.Plain(data.Clip(prompt.Model, 200))
		if p != nil {
			c.changes, c.Changes = prompt.Changes, Changes(prompt.Changes)
			c.Sent, rows = p.sent(prompt)
		}
	}
	return append(rows, new(c.Prompt))
}

// End returns the rows of a call's end. Its answer refers to the messages that show it, or to a piece if they do not have all of it or more.
// message returns a message as the log shows it, and its seq, 0 for none. answer may be nil.
func (p *Writer) End(c *Call, end *data.PromptEnd, answer *plugins.ModelAnswer, message func(id string) (agui.Message, int64)) []data.Row {
	if answer != nil {
		end.FirstToken = answer.FirstToken
	}
	if p == nil {
		return []data.Row{end}
	}
	if answer != nil && len(answer.Changes) > 0 {
		end.Changes = Changes(append(slices.Clip(c.changes), answer.Changes...))
	}
	r := &references{Writer: p}
	var shown Answered
	for _, id := range c.shown {
		if m, seq := message(id); seq != 0 {
			shown.Add(&m)
			r.closeRange() // a range would include other messages
			r.seq(seq)
		}
	}
	if answer != nil && (answer.Text != "" || answer.Reasoning != "" || len(answer.Calls) > 0) {
		if whole := (Answered{answer.Text, answer.Reasoning, answer.Calls}); !whole.equal(&shown) {
			body := data.MustJSON(whole)
			if len(body) > maxPiece {
				body = data.MustJSON(Answered{Text: tooLong(len(body))})
			}
			r = &references{Writer: p}
			r.piece(refAnswer, body, r.run)
		}
	}
	end.Answer = r.String()
	return append(r.rows, end)
}
