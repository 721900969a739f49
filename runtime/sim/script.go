package sim

import (
	"fmt"
	"strings"
)

// Op is one action of a worker. A script is a list of them, written as words: "say do{note ask} next".
//
//	say reason open          a text, a reasoning, a text that stays open
//	tell fetch               a text, and a call with a result, of a size that depends on the place (see Room)
//	note idem gate front     calls of the tools of that name: one that must never run twice, one that may, one
//	                         that a person approves, one that the client answers
//	badnote badgate slow     calls with arguments that the tool does not take, of a tool that ignores its context
//	ask late                 questions, one that expires
//	do{…} sub{…} go{…}       inside a Do, in a sub-agent, all at once
//	think{…}                 calls of tools that are announced piece by piece, then made all at once
//	try{…}                   going on although it waits for an answer
//	next state               take what was appended, change the state
//	wait stall               a pause, one that ignores the context
//	sleep await              a pause in which the run is parked, also one that an event ends
//	long half                some seconds of work with a record and a text each half a second, half a second
//	stay                     a Do that lasts until the caller releases it, where there is one caller alone
//	fail die panic           fails at its first execution, for good, by a panic
//	reuse illegal            a message id of an earlier run, an event that may not be emitted
//	a{…} b{…} c{…} m{…}      the script of that node of a workflow, of m for each of three items
type Op struct {
	Name string
	Body []Op
}

// plainOps are the ops without a body.
var plainOps = strings.Fields("say reason open note idem gate front badnote badgate slow ask late next state wait stall fail die panic reuse illegal")

// Script is a worker's actions, in order.
type Script []Op

func (s Script) String() string {
	words := make([]string, len(s))
	for i, op := range s {
		words[i] = op.Name
		if op.Body != nil {
			words[i] += "{" + Script(op.Body).String() + "}"
		}
	}
	return strings.Join(words, " ")
}

// count counts the ops that is accepts, including nested ones.
func (s Script) count(is func(Op) bool) (n int) {
	for _, op := range s {
		if is(op) {
			n++
		}
		n += Script(op.Body).count(is)
	}
	return n
}

// parse reads the result of String.
func parse(text string) (Script, error) {
	p := parser{rest: text}
	s, err := p.list()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("script %q: unexpected %q", text, p.rest)
	}
	return s, err
}

type parser struct{ rest string }

func (p *parser) list() (Script, error) {
	s := Script{}
	for {
		p.rest = strings.TrimLeft(p.rest, " ")
		if p.rest == "" || p.rest[0] == '}' {
			return s, nil
		}
		end := strings.IndexAny(p.rest, " {}")
		if end < 0 {
			end = len(p.rest)
		}
		op := Op{Name: p.rest[:end]}
		p.rest = p.rest[end:]
		if op.Name == "" {
			return nil, fmt.Errorf("script: a brace without a name at %q", p.rest)
		}
		if strings.HasPrefix(p.rest, "{") {
			p.rest = p.rest[1:]
			body, err := p.list()
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(p.rest, "}") {
				return nil, fmt.Errorf("script: %s{ has no end", op.Name)
			}
			p.rest = p.rest[1:]
			op.Body = body
		}
		s = append(s, op)
	}
}

// MarshalText encodes a script as words.
func (s Script) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes a script.
func (s *Script) UnmarshalText(text []byte) error {
	read, err := parse(string(text))
	*s = read
	return err
}
