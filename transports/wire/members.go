package wire

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/batonrun/baton/runtime/agui"
)

// member is a member of a request's object. Its value is a part of the body.
type member struct {
	name  string
	value json.RawMessage
}

// members checks that body is one JSON object in UTF-8 that every reader after this one can hold, and returns
// its members in order. It is the one time that a body is read as a whole.
func members(body []byte) ([]member, error) {
	s := scanner{text: body}
	err := s.document()
	if err == nil {
		return s.members, nil
	}
	switch {
	case !utf8.Valid(body):
		err = Refuse(codeJSON, "The request body is not valid UTF-8")
	case errors.Is(err, errEmpty):
		err = Refuse(codeJSON, "The request body is empty; send a JSON object")
	case errors.Is(err, errNotJSON):
		err = Refuse(codeJSON, "The request body is not valid JSON")
	case errors.Is(err, errNoObject):
		err = Refuse(codeRequest, "The request must be a JSON object")
	}
	return nil, err
}

// The errors of a scanner, besides those for sizes.
var (
	errEmpty    = errors.New("nothing but space")
	errNotJSON  = errors.New("not valid JSON")
	errNoObject = errors.New("not an object")
)

// scanner reads a JSON text from its start to its end, once, as strictly as encoding/json does.
type scanner struct {
	text    []byte
	at      int
	depth   int
	members []member // of the object that the text is
	counts  bool     // the member that is read holds elements that are decoded one by one
	n       int      // how many there were
	all     int      // values that a later decoder may decode: of a state, arguments or an answer
}

// counted are the members whose elements and their elements become structs: a message's calls and parts.
func counted(name string) bool {
	switch name {
	case "messages", "tools", "context", "resume", "contextItemIds":
		return true
	}
	return false
}

// The limits of elements per byte: two bytes of JSON may become hundreds of bytes. Real requests stay below them.
const (
	freeElements = 1000 // of any request
	elementBytes = 32   // for one more
	maxElements  = 50_000
	maxMembers   = 1000 // of the object itself
)

// count counts an element of the array that is read.
func (s *scanner) count() error {
	if s.counts && (s.depth == 2 || s.depth == 4) { // messages, and their calls and parts
		most := min(freeElements+len(s.text)/elementBytes, maxElements)
		if s.n++; s.n > most {
			return tooMany(most, "elements of lists")
		}
	}
	return s.value()
}

func (s *scanner) document() error {
	first := s.peek()
	if s.at == len(s.text) {
		return errEmpty
	}
	if err := s.value(); err != nil {
		return err
	}
	if s.peek(); s.at < len(s.text) {
		return errNotJSON
	}
	if first != '{' {
		return errNoObject
	}
	return nil
}

// peek skips space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch b := s.text[s.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (s *scanner) value() error {
	most := agui.MostValues(len(s.text))
	if s.all++; s.all > most {
		return tooMany(most, "values")
	}
	switch b := s.peek(); b {
	case '{':
		return s.list('}', s.member)
	case '[':
		return s.list(']', s.count)
	case '"':
		return s.string()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// list reads the content of an object or an array, up to its end.
func (s *scanner) list(end byte, item func() error) error {
	if s.depth++; s.depth > maxDepth {
		return tooDeep()
	}
	s.at++
	if s.peek() == end {
		s.at++
		s.depth--
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case end:
			s.at++
			s.depth--
			return nil
		default:
			return errNotJSON
		}
	}
}

func (s *scanner) member() error {
	if s.peek() != '"' {
		return errNotJSON
	}
	from := s.at
	if err := s.string(); err != nil {
		return err
	}
	quoted := s.text[from:s.at]
	if s.peek() != ':' {
		return errNotJSON
	}
	s.at++
	s.peek()
	if s.depth > 1 {
		return s.value()
	}
	var m member
	if err := json.Unmarshal(quoted, &m.name); err != nil {
		return errNotJSON
	}
	if len(s.members) == maxMembers {
		return tooMany(maxMembers, "members")
	}
	s.counts = counted(m.name)
	from = s.at
	if err := s.value(); err != nil {
		return err
	}
	m.value = json.RawMessage(s.text[from:s.at])
	s.members = append(s.members, m)
	return nil
}

func (s *scanner) literal(word string) error {
	end := s.at + len(word)
	if end > len(s.text) || string(s.text[s.at:end]) != word {
		return errNotJSON
	}
	s.at = end
	return nil
}

func (s *scanner) string() error {
	for i := s.at + 1; i < len(s.text); {
		switch b := s.text[i]; {
		case b == '"':
			s.at = i + 1
			return nil
		case b == '\\':
			n := escape(s.text[i+1:])
			if n == 0 {
				return errNotJSON
			}
			i += 1 + n
		case b < ' ':
			return errNotJSON
		case b < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(s.text[i:])
			if r == utf8.RuneError && n == 1 {
				return errNotJSON
			}
			i += n
		}
	}
	return errNotJSON
}

// escape returns the length of the escape after the backslash that text follows, 0 for none.
func escape(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(text) >= 5 && isHex(text[1]) && isHex(text[2]) && isHex(text[3]) && isHex(text[4]) {
			return 5
		}
	}
	return 0
}

func isHex(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F' }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func (s *scanner) number() error {
	from := s.at
	s.skip('-', '-')
	switch {
	case s.skip('0', '0'):
	case !s.digits():
		return errNotJSON
	}
	if s.skip('.', '.') && !s.digits() {
		return errNotJSON
	}
	if s.skip('e', 'E') {
		s.skip('+', '-')
		if !s.digits() {
			return errNotJSON
		}
	}
	if !fits(s.text[from:s.at]) {
		return outOfRange()
	}
	return nil
}

// skip skips one byte if it is a or b, and reports whether it was.
func (s *scanner) skip(a, b byte) bool {
	if s.at < len(s.text) && (s.text[s.at] == a || s.text[s.at] == b) {
		s.at++
		return true
	}
	return false
}

// digits skips digits, and reports whether there were any.
func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.text) && isDigit(s.text[s.at]) {
		s.at++
	}
	return s.at > from
}
