package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

// lessons are sentences that say more than which part of a request is refused: they name a member or a tool, or ask for something. They
// are in order: the more special ones come first.
var lessons = []struct {
	says *regexp.Regexp
	change
}{
	{says(`reasoning_content.*(missing|must be passed back|required)|missing .?reasoning_content`), form("reasoning: reasoning_content", missingReasoning)},
	{says(`\breasoning(_content|_details)?\b.*(not permitted|not allowed|unsupported|not supported|unexpected|unknown|must not|should not)|(extra|unknown|unexpected|unrecognized).*\breasoning(_content|_details)?\b`), noReasoning},
	{says(`missing a .?thought.?signature`), form("signatures: true", func(c *Caps) { c.Signed = true })},
	{says(`max_completion_tokens`), otherLimit},
	{says(`invalid schema for function '([^']+)'`), namedTool},
	{says(`(?:function_declarations|tools)[.\[](\d+)`), numberedTool},
	{says(`(not|n't) support.{0,30}(images?|vision|multimodal)( input|s)?\W*$|support image input|unknown variant .?image_url|(images?|vision) (is|are) not supported|not a multimodal model`), noImages},
	{says(`unsupported|not supported|does not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra (inputs|fields)|cannot both|invalid (parameter|argument|field)|deprecated`), member},
}

// change updates s, a clone of the state behind the refused request, and describes the update, "" for none. match has the lesson's submatches
// in the provider's sentence, the whole match first.
type change func(s *state, sent *sent, match []string) string

// form returns a change of the capabilities.
func form(what string, set func(c *Caps)) change {
	return func(s *state, _ *sent, _ []string) string {
		before := s.caps
		if set(&s.caps); reflect.DeepEqual(s.caps, before) {
			return ""
		}
		return what
	}
}

func says(pattern string) *regexp.Regexp { return regexp.MustCompile("(?i)" + pattern) }

// taught returns the state after a refusal whose sentence has a lesson, nil if it has none.
func (s *sent) taught(failed *llm.Error, sentence string) *state {
	next := s.state.clone()
	for _, l := range lessons {
		match := l.says.FindStringSubmatch(sentence)
		if match == nil {
			continue
		}
		match[0] = sentence
		if what := l.change(next, s, match); what != "" {
			next.learned = next.with(lesson{what, failed.Message})
			return next
		}
	}
	return nil
}

// quoted is the length of a part of a request by which a quotation is known, in bytes.
const quoted = 16

// unquoted returns a provider's sentence without its quotations from the request: words of users must not teach or classify anything.
// Names of tools stay, and short words, which can be the provider's own.
func (s *sent) unquoted(sentence string) string {
	var body any
	if s == nil || json.Unmarshal(s.body, &body) != nil {
		return sentence
	}
	sentence = oneLine(sentence)
	isTool := func(w string) bool {
		return slices.ContainsFunc(s.c.Tools, func(t Tool) bool { return strings.Contains(t.Name, w) })
	}
	windows := make(map[string][]int)
	for i := 0; i+quoted <= len(sentence); i++ {
		if w := sentence[i : i+quoted]; !isTool(w) {
			windows[w] = append(windows[w], i)
		}
	}
	out := []byte(sentence)
	eachText(body, func(text string) {
		text = oneLine(text)
		if len(text) < quoted && !oneWord.MatchString(text) && !isTool(text) {
			out = bytes.ReplaceAll(out, []byte(text), bytes.Repeat([]byte(" "), len(text)))
		}
		for i := 0; i+quoted <= len(text); i++ {
			for _, at := range windows[text[i:i+quoted]] {
				copy(out[at:], strings.Repeat(" ", quoted))
			}
		}
	})
	return string(out)
}

var oneWord = regexp.MustCompile(`^\w*$`)

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// eachText calls f with each text in a JSON value, also of JSON in a text, and with each name of a member that is more than a word.
func eachText(value any, f func(string)) {
	switch v := value.(type) {
	case string:
		f(v)
		var inner any
		if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
			eachText(inner, f)
		}
	case []any:
		for _, element := range v {
			eachText(element, f)
		}
	case map[string]any:
		for name, member := range v {
			if !oneWord.MatchString(name) {
				f(name)
			}
			eachText(member, f)
		}
	}
}

func missingReasoning(c *Caps) {
	if !c.Missing {
		c.Reasoning, c.Missing = "reasoning_content", true
	}
}

// noReasoning leaves out the reasoning of earlier answers.
func noReasoning(s *state, sent *sent, _ []string) string {
	if s.caps.Reasoning == "none" || s.caps.Missing || !sent.some(isCarried) {
		return ""
	}
	s.caps.Reasoning = "none"
	return "reasoning: none"
}

// otherLimit exchanges the two names of the limit of an answer.
func otherLimit(s *state, sent *sent, _ []string) string {
	other := "max_completion_tokens"
	if s.caps.MaxTokens == other {
		other = "max_tokens"
	}
	if !sent.has(s.caps.MaxTokens) {
		return ""
	}
	s.caps.MaxTokens = other
	return "max_tokens: " + other
}

// namedTool leaves out the tool that the provider names, and numberedTool the one whose index it names.
func namedTool(s *state, sent *sent, match []string) string {
	i := slices.IndexFunc(sent.c.Tools, func(t Tool) bool { return t.Name == match[1] })
	if i < 0 {
		return ""
	}
	s.refused = s.refused.with(sent.c.Tools[i].key())
	return withoutTool + match[1]
}

const withoutTool = "without tool "

func numberedTool(s *state, sent *sent, match []string) string {
	i, err := strconv.Atoi(match[1])
	if err != nil || i >= len(sent.c.Tools) {
		return ""
	}
	return namedTool(s, sent, []string{"", sent.c.Tools[i].Name})
}

func noImages(s *state, sent *sent, _ []string) string {
	if !sent.some(func(p Part) bool { return p.Media != nil && p.Media.Image() }) {
		return ""
	}
	s.caps.Media = slices.DeleteFunc(slices.Clone(s.caps.Media), isImage)
	return "media: no images"
}

// optional are the members of requests that can be left out. Those without a special name count only in quotes.
var optional = regexp.MustCompile(`(?i)\b(stream_options|temperature|top_p|top_k|frequency_penalty|presence_penalty|reasoning_effort|response_format|output_config|stop_sequences|tool_choice|include_usage|parallel_tool_calls|encrypted.content)\b|['"\x60](seed|stop|think|thinking|reasoning|include|store|text|effort)\b`)

// member leaves out a member of the request that the provider does not know.
func member(s *state, sent *sent, match []string) string {
	for _, found := range optional.FindAllStringSubmatch(match[0], -1) {
		name := strings.ToLower(found[1] + found[2])
		switch name {
		case "include_usage":
			name = "stream_options"
		case "effort":
			name = "output_config"
		case "encrypted content", "encrypted_content":
			name = "include"
		}
		if sent.has(name) && !slices.Contains(s.caps.Without, name) {
			s.caps.Without = append(slices.Clip(s.caps.Without), name)
			return "without " + name
		}
	}
	return ""
}

// has reports whether the request has a member.
func (s *sent) has(member string) bool {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(s.body, &members)
	return members[member] != nil
}

// teach learns from a failure in an answer: some servers refuse a request in a stream. The next request tries the lesson.
func (e *Endpoint) teach(err *llm.Error) {
	if !e.accepted {
		return
	}
	e.accepted = false
	if next := e.sent.learnLater(err); next != nil {
		err.Retryable = true
		e.known.use(e.Model, func(m *model) { m.trial = next })
	}
}

func isCarried(p Part) bool { return p.Carried != nil }

// some reports whether a part of the conversation is one of those.
func (s *sent) some(is func(Part) bool) bool {
	return slices.ContainsFunc(s.c.Messages, func(m Message) bool { return slices.ContainsFunc(m.Parts, is) })
}
