package wire

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

// CallPart is the part of a tool call in one event. Servers omit, delay or repeat any member, so none of them alone identifies a
// call.
type CallPart struct {
	Key    string // the index of the call or block, "" for none
	ID     string
	Name   string // of the tool, or a piece of it
	Args   Args
	Begins bool // the event begins a call, and has its whole name
}

// calls are the calls of an answer.
type calls struct {
	names []string // of the request's tools
	list  []*call  // in the order of their first parts
	order []*call  // as shown, by llm.CallPiece.Index
}

type call struct {
	key, given string // the key and the id of its parts
	id, name   string
	begun      bool // by a part that Begins
	again      bool // named again after its end, which can be the beginning of another call
	shown      int  // bytes of args that were shown
	ordered    bool // is in calls.order
	arguments
}

// arguments are the pieces of a call's arguments, which should be one JSON object together.
type arguments struct {
	text       strings.Builder
	half       half
	start, end int    // of the first object in text, so far; an empty object is skipped if others follow
	braces     braces // finds end
	pieces     int
	last       string // the latest piece
	cumulative bool   // each piece repeats the one before and adds to it
	event      int    // of the latest piece
}

// maxCalls limits the calls of an answer.
const maxCalls = 256

// Call adds a part of a call, and returns the call's id if it is known.
func (a *Answer) Call(p CallPart) (id string, err error) {
	l := &a.calls
	p.Name = strings.TrimSpace(p.Name)
	c := l.find(&p, a.events)
	switch {
	case c == nil && p.ID == "" && p.Name == "" && p.Args.Text == "":
		return "", nil
	case c == nil && len(l.list) == maxCalls:
		return "", &llm.Error{Code: "bad_response", Message: a.endpoint.Provider + ": the model called too many tools at once"}
	case c == nil:
		c = &call{key: p.Key, begun: p.Begins}
		l.list = append(l.list, c)
		a.places = append(a.places, &place{call: c})
	}
	if c.given = cmp.Or(c.given, p.ID); !c.ordered {
		c.id = c.given
	}
	c.begun = c.begun || p.Begins
	l.rename(c, p.Name)
	c.add(p.Args, a.events)
	return c.id, a.preview(c)
}

// find returns the call that a part belongs to, nil for none. It removes arguments that only repeat the call's.
func (l *calls) find(p *CallPart, event int) *call {
	switch {
	case p.Name == "":
		return l.nameless(p)
	case p.ID != "":
		return l.identified(p)
	}
	c := l.under(p.Key)
	switch {
	case c == nil:
		return nil
	case !l.opens(c, p):
		c.again = c.complete() && !c.blank() && p.Args.Text == ""
		return c
	case c.pieces > 1 && event != c.event && p.Name == c.name && c.same(p.Args.Text):
		p.Args = Args{} // the whole call again, after its pieces
		return c
	}
	return nil
}

// nameless returns the call of a part without a name: that with its id, else that under its key, else the newest with a name. Such a part
// opens a call only where nothing else can have been meant.
func (l *calls) nameless(p *CallPart) *call {
	var byID, byKey, newest *call
	for _, c := range l.list {
		switch {
		case p.ID != "" && c.given == p.ID && (byID == nil || c.key == p.Key || byID.key != p.Key):
			byID = c
		case p.Key != "" && c.key == p.Key:
			byKey = c
		case c.name != "" || p.Key == "":
			newest = c
		}
	}
	c := cmp.Or(byID, byKey, newest)
	switch {
	case c == nil:
	case c.same(p.Args.Text):
		p.Args = Args{}
	case c.again && opening(p.Args.Text):
		p.Name = c.name
		return nil
	}
	return c
}

// identified returns the call of a part with a name and an id, which can come late, differ in each piece or be the same for all calls.
func (l *calls) identified(p *CallPart) *call {
	begins := p.Args.Text == "" || opening(p.Args.Text) // can be the first part of a call
	elsewhere := false
	for _, c := range slices.Backward(l.list) {
		switch {
		case c.given != p.ID:
		case p.Key != c.key && p.Key != "" && c.key != "":
			elsewhere = true
		case c.same(p.Args.Text):
			p.Args = Args{}
			return c
		case begins && p.Args.Text != "" && c.complete() && !c.blank():
			return nil
		default:
			return c
		}
	}
	switch c := l.under(p.Key); {
	case c == nil, elsewhere:
		return nil
	case c.name == "" && c.given == "":
		return c
	case p.Begins, c.complete() && !c.blank() && opening(p.Args.Text), p.Name != c.name && !l.continues(c.name, p.Name):
		return nil
	case c.given == "", p.Key != "" && !begins:
		return c
	}
	return nil
}

// under returns the latest call with a key, or without a key the latest of all.
func (l *calls) under(key string) *call {
	for _, c := range slices.Backward(l.list) {
		if key == "" || c.key == key {
			return c
		}
	}
	return nil
}

// opens reports whether a part with a name and without an id opens another call than c, the latest under its key.
func (l *calls) opens(c *call, p *CallPart) bool {
	switch {
	case c.name == "":
		return false
	case p.Begins:
		return true
	case p.Args.Text != "" && !opening(p.Args.Text):
		return false
	case p.Name == c.name:
		return c.complete() && !c.blank() && (p.Args.Text != "" || p.Key == "")
	case l.continues(c.name, p.Name), c.text.Len() == 0 && !l.known(c.name) && strings.HasPrefix(p.Name, c.name):
		return false
	}
	return l.known(p.Name) || l.known(c.name) || c.complete()
}

func (l *calls) known(name string) bool { return slices.Contains(l.names, name) }

// continues reports whether name is the next piece of a tool's name that began with soFar.
func (l *calls) continues(soFar, name string) bool {
	return slices.ContainsFunc(l.names, func(known string) bool { return strings.HasPrefix(known, soFar+name) })
}

// rename adds a piece of the name, which can be the whole name again.
func (l *calls) rename(c *call, name string) {
	switch {
	case name == "", c.ordered && c.name != "":
	case name == c.name && (l.known(name) || !l.continues(name, name)):
	case l.known(c.name) && !l.continues(c.name, name):
	case strings.HasPrefix(name, c.name) && l.known(name):
		c.name = name
	default:
		c.name += name
	}
}

// preview shows a call, once its name is certain, and the new part of its arguments.
func (a *Answer) preview(c *call) error {
	l := &a.calls
	text := c.text.String()[c.start:c.end]
	held := !opening(text) || text == "{" || text == "{}"
	certain := c.ordered || c.begun || l.known(c.name) && !slices.ContainsFunc(l.names, func(n string) bool { return n != c.name && strings.HasPrefix(n, c.name) })
	if c.name == "" || held && !certain {
		return nil
	}
	if err := a.announce(c); err != nil || held {
		return err
	}
	from := max(c.shown, c.start)
	if from >= c.end {
		return nil
	}
	piece := c.text.String()[from:c.end]
	if !a.over {
		piece = piece[:a.aliases.whole(piece)]
	}
	c.shown = from + len(piece)
	return a.show(llm.Piece{Call: &llm.CallPiece{Index: slices.Index(l.order, c), Arguments: a.aliases.resolve(piece)}})
}

// announce shows a call after those that began before it.
func (a *Answer) announce(c *call) error {
	l := &a.calls
	if c.ordered {
		return nil
	}
	for _, before := range l.list {
		if before.ordered || before.name == "" {
			continue
		}
		if before.ordered = true; before.id == "" || slices.ContainsFunc(l.order, func(o *call) bool { return o.id == before.id }) {
			before.id = "baton_" + rand.Text()
		}
		l.order = append(l.order, before)
		if err := a.show(llm.Piece{Call: &llm.CallPiece{Index: len(l.order) - 1, ID: before.id, Name: before.name}}); err != nil {
			return err
		}
		if before == c {
			return nil
		}
	}
	return nil
}

// settle decides at the end of an answer which calls it has.
func (a *Answer) settle() error {
	l := &a.calls
	a.over = true
	for i := 0; i < len(l.list); i++ {
		c := l.list[i]
		if l.empty(i) {
			l.list = slices.Delete(l.list, i, i+1)
			l.order = slices.DeleteFunc(l.order, func(o *call) bool { return o == c })
			i--
			continue
		}
		c.name = cmp.Or(c.name, "unnamed")
		if object := c.lastObject(); object != "" {
			c.arguments = arguments{}
			c.add(Args{object, true}, 0)
		}
	}
	for _, c := range l.list {
		if err := a.announce(c); err != nil {
			return err
		}
		if err := a.preview(c); err != nil {
			return err
		}
	}
	return nil
}

// empty reports whether the call at i is none: it has no members, or only those of another call again.
func (l *calls) empty(i int) bool {
	c := l.list[i]
	switch {
	case c.given != "" || c.begun:
		return false
	case c.name == "":
		return c.start == c.end || c.blank()
	}
	return c.text.Len() == 0 && slices.ContainsFunc(l.list[:i], func(o *call) bool { return o.key == c.key && o.name == c.name && o.text.Len() > 0 })
}

// add adds a piece.
func (a *arguments) add(piece Args, event int) {
	text := a.half.join(piece.Text)
	if text == "" || piece.Whole && a.complete() && !a.blank() {
		return
	}
	if piece.Whole {
		*a = arguments{}
	}
	a.cumulative = a.pieces > 0 && strings.HasPrefix(text, a.last) && (a.pieces == 1 || a.cumulative)
	a.pieces++
	a.last, a.event = text, event
	a.text.WriteString(text)
	a.scan()
}

// scan looks for the end of the first object in the new text.
func (a *arguments) scan() {
	for {
		text := a.text.String()[a.end:]
		if a.end == a.start || a.braces.done {
			trimmed := strings.TrimLeft(text, " \t\r\n")
			if trimmed == "" || a.braces.done && !a.blank() {
				return
			}
			a.start = a.end + len(text) - len(trimmed)
			a.end, a.braces, text = a.start, braces{}, trimmed
		}
		n := feed(&a.braces, text)
		if n < 0 {
			a.end += len(text)
			return
		}
		a.end += n
	}
}

// complete reports whether the arguments have a whole object.
func (a *arguments) complete() bool { return a.braces.done && a.text.String()[a.start] == '{' }

// blank reports whether the arguments are an empty object, which some servers send before the real one.
func (a *arguments) blank() bool { return a.text.String()[a.start:a.end] == "{}" }

// same reports whether text is the object of the arguments again.
func (a *arguments) same(text string) bool {
	return text != "" && a.complete() && compact(text) == compact(a.text.String()[a.start:a.end])
}

func opening(text string) bool { return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") }

func compact(text string) string {
	var buf bytes.Buffer
	if json.Compact(&buf, []byte(text)) != nil {
		return text
	}
	return buf.String()
}

// lastObject returns the last object of arguments that are several, "" for one. If each piece repeats the one before, it is the last piece.
func (a *arguments) lastObject() (last string) {
	rest := a.text.String()[a.start:]
	if a.braces.done && strings.TrimSpace(rest[a.end-a.start:]) == "" {
		return ""
	}
	d := json.NewDecoder(strings.NewReader(rest))
	for {
		var v json.RawMessage
		switch err := d.Decode(&v); {
		case err == io.EOF:
			return last
		case err != nil:
			if a.cumulative && opening(a.last) && json.Valid([]byte(a.last)) {
				return a.last
			}
			return ""
		}
		if v[0] == '{' && compact(string(v)) != "{}" {
			last = string(v)
		}
	}
}

// String returns the arguments so far, "{}" for none.
func (a *arguments) String() string {
	return cmp.Or(strings.TrimSpace(a.text.String()[a.start:]), "{}")
}
