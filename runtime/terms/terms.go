// Package terms makes the terms by which runs are found: the words of a run's texts, and its facts, such as its project and its
// tags. A search is a list of terms that a run must have. A database stores and compares terms, so every database finds the same
// runs.
package terms

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/batonrun/baton/runtime/data"
)

// Limits of what is found of a run.
const (
	maxText  = 64 << 10 // bytes of a text
	maxWords = 1_000    // different words of a text
	maxWord  = 64       // bytes of a word; a longer one is found by its beginning
	maxFacts = 64       // tags, and members of the metadata
	MaxFact  = 256      // bytes of a tag, and of a member's name or value
)

// Each term begins with its scope, the project or the user of the run, and a run has its terms in both. So an index of terms has those of
// a scope beside each other, and a search reads no others: its time says nothing about the words of other tenants.

// projectScope returns what the terms of a project begin with.
func projectScope(project string) string { return fact("project", project) }

// userScope returns what the terms of a user begin with.
func userScope(project, user string) string { return fact("user", project, user) }

// Of returns the terms of a run: see Text.
func Of(r *data.Run) []string { return strings.Split(Text(r), " ") }

// Text returns the terms of a run with spaces between them, each once in each scope: of its workflow, thread and metadata, and of its
// names, its thread's title, its input, its answer and its error.
func Text(r *data.Run) string {
	var text []byte
	plain := unscoped(r)
	for _, scope := range []string{projectScope(r.Project), userScope(r.Project, r.User)} {
		for _, term := range plain {
			text = append(append(append(text, scope...), term...), ' ')
		}
	}
	return string(text[:len(text)-1])
}

func unscoped(r *data.Run) []string {
	list := newSet()
	list.add(all)
	list.add(fact("workflow", r.WorkflowID))
	list.add(threadFact(r.ThreadKey))
	tags, members := describedBy(r.Metadata)
	for _, tag := range tags {
		list.add(fact("tag", tag))
	}
	for name, value := range members {
		list.add(fact("metadata", name, value))
	}
	list.addText(r.ID)
	list.addText(r.ThreadID)
	list.addText(r.ThreadTitle)
	if r.Error != nil {
		list.addText(r.Error.Code)
		list.addText(r.Error.Message)
	}
	list.addText(r.InputQuery)
	if r.OutputSummary != nil {
		list.addText(*r.OutputSummary)
	}
	return list.terms
}

// Search has the terms of a search. A run is found if it has each of Whole and, for each of Begun, a term that begins with it.
type Search struct{ Whole, Begun []string }

// For returns the search of a filter that has a text, tags or metadata, in the scope of its user, or else of its project. ok is false if
// the text has no word, so that no run is found.
func For(f *data.RunFilter) (s Search, ok bool) {
	for _, name := range []string{f.Agent, f.WorkflowID} { // the runs of an agent are of the workflow of its name
		if name != "" {
			s.Whole = append(s.Whole, fact("workflow", name))
		}
	}
	for _, tag := range f.Tags {
		s.Whole = append(s.Whole, fact("tag", tag))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Metadata)) {
		s.Whole = append(s.Whole, fact("metadata", name, f.Metadata[name]))
	}
	if f.ThreadKey != 0 {
		s.Whole = append(s.Whole, threadFact(f.ThreadKey))
	}
	facts := len(s.Whole)
	s.addText(f.Text)
	ok = f.Text == "" || len(s.Whole)+len(s.Begun) > facts
	if len(s.Whole)+len(s.Begun) == 0 {
		s.Whole = append(s.Whole, all)
	}
	scope := projectScope(f.Project)
	if f.User != "" {
		scope = userScope(f.Project, f.User)
	}
	for _, list := range [][]string{s.Whole, s.Begun} {
		for i := range list {
			list[i] = scope + list[i]
		}
	}
	return s, ok
}

// addText adds the words of a text. Of the last one, only the beginning may be typed yet.
func (s *Search) addText(text string) {
	text = folded(text)
	end := 0 // of the part
	for part, unspaced := range parts(text) {
		end += strings.Index(text[end:], part) + len(part)
		switch n := utf8.RuneCountInString(part); {
		case unspaced && n == 1:
			s.Begun = append(s.Begun, part) // of a pair
		case unspaced:
			for pair := range pairs(part) {
				s.Whole = append(s.Whole, pair)
			}
		case n > 1 && end == len(text):
			s.Begun = append(s.Begun, clip(part, maxWord))
		default:
			s.Whole = append(s.Whole, clip(part, maxWord))
		}
	}
}

// Finds reports whether the search finds a run that has these terms.
func (s Search) Finds(terms []string) bool {
	for _, term := range s.Whole {
		if !slices.Contains(terms, term) {
			return false
		}
	}
	for _, begin := range s.Begun {
		if !slices.ContainsFunc(terms, func(term string) bool { return strings.HasPrefix(term, begin) }) {
			return false
		}
	}
	return true
}

// set has terms in the order in which they were first added.
type set struct {
	terms []string
	has   map[string]bool
}

func newSet() *set { return &set{terms: make([]string, 0, 32), has: make(map[string]bool, 32)} } // as many as a short run has

func (s *set) add(term string) {
	if !s.has[term] {
		s.has[term] = true
		s.terms = append(s.terms, term)
	}
}

// addText adds the words of a text, up to a limit.
func (s *set) addText(text string) {
	most := len(s.terms) + maxWords
	for part, unspaced := range parts(folded(text)) {
		if !unspaced {
			s.add(clip(part, maxWord))
		} else {
			for pair := range pairs(part) {
				if s.add(pair); len(s.terms) >= most {
					return
				}
			}
			_, size := utf8.DecodeLastRuneInString(part)
			s.add(part[len(part)-size:])
		}
		if len(s.terms) >= most {
			return
		}
	}
}

// folded returns the part of a text that is searched, in lower case and with one form for each character.
func folded(text string) string { return strings.ToLower(norm.NFKC.String(clip(text, maxText))) }

// clip returns the first bytes of a text, without the part of a character.
func clip(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// The kinds of characters.
const (
	between = iota
	inWord
	inUnspaced // Chinese or Japanese, which have no spaces
)

func kindOf(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return inWord
		}
		return between
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー':
		return inUnspaced
	case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
		return inWord
	}
	return between
}

// parts returns the words of a text, and its stretches of Chinese and Japanese, of which it reports true.
func parts(text string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		begin, kind := 0, between
		for i, r := range text {
			next := kindOf(r)
			if next == kind {
				continue
			}
			if kind != between && !yield(text[begin:i], kind == inUnspaced) {
				return
			}
			begin, kind = i, next
		}
		if kind != between {
			yield(text[begin:], kind == inUnspaced)
		}
	}
}

// pairs returns each two neighbouring characters of a text.
func pairs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		before := -1
		for i, r := range text {
			if before >= 0 && !yield(text[before:i+utf8.RuneLen(r)]) {
				return
			}
			before = i
		}
	}
}

// fact returns the term of a fact. A word never begins with its first character.
func fact(parts ...string) string {
	text := make([]byte, 0, 128)
	for _, part := range parts {
		text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(text)
	return string(lowerCase.AppendEncode([]byte("#"), sum[:10]))
}

// lowerCase encodes 10 bytes as 16 letters and digits. Databases do not tell upper case from lower case in terms.
var lowerCase = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// all is a term that each run has.
const all = "#"

func threadFact(key int64) string { return fact("thread", strconv.FormatInt(key, 10)) }

// describedBy returns the tags and the members of a run's metadata by which it is found: the texts of its array "tags", and its texts,
// numbers and booleans.
func describedBy(metadata json.RawMessage) (tags []string, members map[string]string) {
	var all map[string]json.RawMessage
	if len(metadata) == 0 || json.Unmarshal(metadata, &all) != nil {
		return nil, nil
	}
	members = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var list []json.RawMessage
		if name == "tags" && json.Unmarshal(all[name], &list) == nil {
			for _, raw := range list {
				if tag, ok := valueOf(raw); ok && raw[0] == '"' && len(tags) < maxFacts {
					tags = append(tags, tag)
				}
			}
			continue
		}
		if value, ok := valueOf(all[name]); ok && len(name) <= MaxFact && len(members) < maxFacts {
			members[name] = value
		}
	}
	return tags, members
}

// valueOf returns the text of a JSON string, number or boolean that is short.
func valueOf(raw json.RawMessage) (text string, ok bool) {
	switch raw[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		ok = json.Unmarshal(raw, &text) == nil
	default:
		text, ok = string(raw), true
	}
	return text, ok && len(text) <= MaxFact
}
