package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

// learn returns the state after a refusal, nil if it teaches nothing.
func (s *state) learn(err error, sent *sent) *state {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok || !slices.Contains(teaching, failed.Status) {
		return nil
	}
	return s.learnFrom(failed, sent)
}

// learnFrom is learn for a refusal of any status.
func (s *state) learnFrom(failed *llm.Error, sent *sent) *state {
	next := &state{caps: s.caps, refused: s.refused, learned: s.learned}
	sentence := sent.unquoted(failed.Message)
	for _, r := range refusals {
		match := r.says.FindStringSubmatch(sentence)
		if match == nil {
			continue
		}
		if r.change == nil {
			return nil
		}
		match[0] = sentence
		if what := r.change(next, sent, match); what != "" {
			next.learned = s.with(lesson{what, failed.Message})
			return next
		}
	}
	if failed.Code != "bad_request" {
		return nil
	}
	for _, leaveOut := range lastResorts {
		if what := leaveOut(next, sent, nil); what != "" {
			next.learned = s.with(lesson{what, failed.Message})
			return next
		}
	}
	return nil
}

// lastResorts leave out, in this order, the parts that any refusal can be about.
var lastResorts = []func(*state, *sent, []string) string{carriedData, newestMedia}

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

// teaching are the statuses of refusals: servers with a local template answer 500.
var teaching = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError}

// refusal is a sentence of providers and its lesson; a nil change teaches nothing. change gets the whole sentence as match[0]. It returns what has changed,
// or "" if nothing has, in which case another refusal can match.
type refusal struct {
	says   *regexp.Regexp
	change func(s *state, sent *sent, match []string) string
}

// set is a change of caps that is made once.
func set(change func(*Caps) string) func(*state, *sent, []string) string {
	return func(s *state, _ *sent, _ []string) string {
		return change(&s.caps)
	}
}

func says(pattern string) *regexp.Regexp { return regexp.MustCompile("(?i)" + pattern) }

// refusals are in order: the more special sentences come first.
var refusals = []refusal{
	{says(`must be a-z, A-Z, 0-9, with a length of 9`), ids(NineID)},
	{says(`(tool_call|call_id).*(string too long|maximum length)`), ids(ShortID)},
	{says(`(tool_use|tool_result|tool_use_id).*should match pattern`), ids(WordID)},
	{says(`unexpected role 'user' after role 'tool'`), set(func(c *Caps) string { return turn(&c.Bridge, "bridge") })},
	{says(`roles must alternate|must alternate between|function call turn comes immediately after|first message must use the .?user|first message.*must be.*user|starts? with a user`), alternate},
	{says(`system role (is )?not supported|only user and assistant roles|system (role|messages?).*(not supported|not allowed|unsupported)`), systemAsUser},
	{says(`\breasoning(_content|_details)?\b.*(not permitted|not allowed|unsupported|not supported|unexpected|unknown|must not|should not)|(extra|unknown|unexpected|unrecognized).*\breasoning(_content|_details)?\b`), noReasoning},
	{says(`reasoning_content.*(missing|must be passed back|required)|missing .?reasoning_content`), set(func(c *Caps) string {
		if c.Missing {
			return ""
		}
		c.Reasoning, c.Missing = "reasoning_content", true
		return "reasoning: reasoning_content"
	})},
	{says(`'content' field must be a string|content.*(required property|got null|missing|cannot be null|null value|not be null)|missing (field|required field|property).{0,3}content|expected.*content.*(string|array)|none is not allowed`), content("empty")},
	{says(`content.*(must not be empty|不能为空|non-empty|non-whitespace|cannot be empty|can't be empty|should not be empty|is empty)|empty content`), content("absent")},
	{says(`max_tokens.*max_completion_tokens`), limit("max_completion_tokens")},
	{says(`max_completion_tokens`), limit("max_tokens")},
	{says(`missing a .?thought.?signature`), set(func(c *Caps) string { return turn(&c.Signed, "signatures") })},
	{says(`thought_signature|thought signature|invalid .?signature|thinking.* cannot be modified|expected .?thinking|without its required following item|bound to a different conversation|encrypted content.*(verified|decrypted)|invalid_encrypted_content`), carriedData},
	{says(`encrypted.content.*not supported`), set(func(c *Caps) string {
		if slices.Contains(c.Without, "include") {
			return ""
		}
		*c = c.without("include")
		return "without include"
	})},
	{says(`tools.*(array too long|too many)|too many tools`), nil},
	{says(`description.*(?:maximum length|at most) (\d+)`), description},
	{says(`invalid schema for function '([^']+)'`), namedTool},
	{says(`function_declarations\[(\d+)`), numberedTool},
	{says(`tools[.\[](\d+)`), numberedTool},
	{says(`messages[.\[](\d+)\]?\.content[.\[](\d+)`), namedMedia},
	{says(`could not process image|does not match the provided media type|(invalid|unsupported|unable to|failed to|cannot|could not|not a valid).{0,40}image|image.{0,40}(invalid|unsupported|not valid|format)|invalid_image`), newestMedia},
	{says(`image.{0,80}(larger|too large|too big|exceed|more than|animated|at most|maximum|size|https?\b|base64)|(larger|more|animated|at most|maximum|https?\b).{0,40}image`), newestMedia},
	{says(`(does not|doesn't|not|n't) support.{0,30}(image|vision|multimodal)|image input|image_url.{0,60}(not supported|unsupported|unknown variant|expected)|unknown variant .?image_url|not a multimodal model|(images?|vision) (is|are) not supported|no endpoints found that support image`), noMedia},
	{says(`unsupported|not supported|does not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra (inputs|fields)|cannot both|invalid (parameter|argument|field)|deprecated`), member},
}

// turn sets a switch, and returns its name if it was off.
func turn(on *bool, what string) string {
	if *on {
		return ""
	}
	*on = true
	return what + ": true"
}

func ids(form IDForm) func(*state, *sent, []string) string {
	return set(func(c *Caps) string {
		if c.IDs == form || c.IDs == NineID {
			return ""
		}
		c.IDs = form
		return "call_ids: " + string(form)
	})
}

func content(form string) func(*state, *sent, []string) string {
	return func(s *state, sent *sent, _ []string) string {
		if s.caps.Content == form || !slices.ContainsFunc(sent.c.Messages, silent) {
			return ""
		}
		s.caps.Content = form
		return "content: " + form
	}
}

// silent reports whether m has calls and no text, or a result without text.
func silent(m Message) bool {
	none := func(p Part) bool { return p.Result != nil && p.Result.Text == "" }
	said := func(p Part) bool { return p.Call == nil && p.Carried == nil }
	return slices.ContainsFunc(m.Parts, none) || !slices.ContainsFunc(m.Parts, said)
}

func limit(member string) func(*state, *sent, []string) string {
	return func(s *state, sent *sent, _ []string) string {
		if s.caps.MaxTokens == member || !sent.has(s.caps.MaxTokens) {
			return ""
		}
		s.caps.MaxTokens = member
		return "max_tokens: " + member
	}
}

// alternate makes the roles of a request alternate.
func alternate(s *state, sent *sent, _ []string) string {
	list := sent.c.Messages
	for i := range list[1:] {
		if list[i].Role == Results && list[i+1].Role == User && !s.caps.Bridge {
			return turn(&s.caps.Bridge, "bridge")
		}
	}
	if list[0].Role != User {
		return turn(&s.caps.FirstUser, "first_user")
	}
	return systemAsUser(s, sent, nil)
}

func systemAsUser(s *state, sent *sent, _ []string) string {
	if s.caps.System == User || len(sent.c.System) == 0 {
		return ""
	}
	s.caps.System = User
	return "system: user"
}

// carriedData leaves out carried data: that of earlier turns, then all.
func carriedData(s *state, sent *sent, _ []string) string {
	var earlier, all []key
	for _, m := range sent.c.Messages {
		if m.Role == User {
			earlier = all
		}
		for _, p := range m.Parts {
			if p.Carried != nil {
				all = append(all, keyOf("carried", p.Carried))
			}
		}
	}
	switch {
	case len(earlier) > 0:
		s.refused = s.refused.with(earlier...)
		return fmt.Sprintf("%d pieces of reasoning of earlier turns were refused", len(earlier))
	case len(all) > 0:
		s.refused = s.refused.with(all...)
		return fmt.Sprintf("%d pieces of reasoning were refused", len(all))
	}
	return ""
}

// noReasoning leaves out the reasoning of earlier answers.
func noReasoning(s *state, sent *sent, _ []string) string {
	carried := func(m Message) bool {
		return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Carried != nil })
	}
	if s.caps.Reasoning == "none" || s.caps.Missing || !slices.ContainsFunc(sent.c.Messages, carried) {
		return ""
	}
	s.caps.Reasoning = "none"
	return "reasoning: none"
}

// description limits the descriptions of tools.
func description(s *state, sent *sent, match []string) string {
	limit, _ := strconv.Atoi(match[1])
	longer := func(t Tool) bool { return len(t.Description) > limit }
	if limit == 0 || !slices.ContainsFunc(sent.c.Tools, longer) {
		return ""
	}
	s.caps.Description = limit
	return "description: " + match[1]
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

// media returns the images and files that were sent, in order.
func (s *sent) media() (list []*Media) {
	for _, m := range s.c.Messages {
		for _, p := range m.Parts {
			if p.Media != nil {
				list = append(list, p.Media)
			}
		}
	}
	return list
}

// namedMedia leaves out the image or file at the place in the request that the provider names.
func namedMedia(s *state, sent *sent, match []string) string {
	var body struct {
		Messages []struct {
			Content []json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(sent.body, &body) // other forms of content have no places
	i, _ := strconv.Atoi(match[1])
	j, _ := strconv.Atoi(match[2])
	if i >= len(body.Messages) || j >= len(body.Messages[i].Content) {
		return ""
	}
	for _, m := range sent.media() {
		if bytes.Contains(body.Messages[i].Content[j], []byte(m.Base64())) && len(m.Data) > 0 ||
			m.URL != "" && bytes.Contains(body.Messages[i].Content[j], []byte(m.URL)) {
			s.refused = s.refused.with(m.key())
			return "an image or a file was refused"
		}
	}
	return ""
}

// newestMedia leaves out the newest image or file, then all others.
func newestMedia(s *state, sent *sent, _ []string) string {
	list := sent.media()
	if len(list) == 0 {
		return ""
	}
	if n := len(s.learned); sent.n == 1 || s.learned[n-1].what != newest {
		s.refused = s.refused.with(list[len(list)-1].key())
		return newest
	}
	for _, m := range list {
		s.refused = s.refused.with(m.key())
	}
	return fmt.Sprintf("%d images and files were refused", len(list))
}

const newest = "the newest image or file was refused"

func noMedia(s *state, sent *sent, _ []string) string {
	if !slices.ContainsFunc(sent.media(), (*Media).Image) {
		return ""
	}
	s.caps.Media = slices.DeleteFunc(slices.Clone(s.caps.Media), isImage)
	return "media: no images"
}

// optional are the members of requests that can be left out. Those without a special name count only in quotes.
var optional = regexp.MustCompile(`(?i)\b(stream_options|temperature|top_p|top_k|frequency_penalty|presence_penalty|reasoning_effort|response_format|output_config|stop_sequences|tool_choice|include_usage|parallel_tool_calls)\b|['"\x60](seed|stop|think|thinking|reasoning|include|store|text|effort)\b`)

// member leaves out a member of the request that the provider does not know.
func member(s *state, sent *sent, match []string) string {
	for _, found := range optional.FindAllStringSubmatch(match[0], -1) {
		name := strings.ToLower(found[1] + found[2])
		switch name {
		case "include_usage":
			name = "stream_options"
		case "effort":
			name = "output_config"
		}
		if sent.has(name) && !slices.Contains(s.caps.Without, name) {
			s.caps = s.caps.without(name)
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

// maxLearned limits the lessons that are remembered of a model.
const maxLearned = 100

// with returns the latest lessons with l.
func (s *state) with(l lesson) []lesson {
	all := slices.DeleteFunc(slices.Clone(s.learned), func(old lesson) bool { return old.what == l.what })
	all = append(all, l)
	return all[max(0, len(all)-maxLearned):]
}

// key identifies something that can be refused.
type key [sha256.Size]byte

func keyOf(kind string, parts ...[]byte) key {
	h := sha256.New()
	h.Write([]byte(kind))
	for _, p := range parts {
		fmt.Fprintf(h, "\x00%d\x00", len(p))
		h.Write(p)
	}
	return key(h.Sum(nil))
}

// refused are the latest things that a model has refused. It does not change.
type refused []key

// maxRefused limits the refusals remembered of a model.
const maxRefused = 1000

func (r refused) has(k key) bool { return slices.Contains(r, k) }

func (r refused) with(keys ...key) refused {
	all := slices.DeleteFunc(slices.Clone(r), func(k key) bool { return slices.Contains(keys, k) })
	for _, k := range keys {
		if !all.has(k) {
			all = append(all, k)
		}
	}
	return all[max(0, len(all)-maxRefused):]
}
