package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"github.com/batonrun/baton/plugins/llm"
)

// ladder makes a request plainer, one part after the other. A refusal that is not understood is answered by climbing it: first the rungs
// about what the sentence names, then the others. A rung that can cost something is taken back when the next refusal says the same.
var ladder = []struct {
	names *regexp.Regexp        // the part, in a refusal; nil for what is tried first
	costs bool                  // others are climbed in one step
	in    func(sent *sent) bool // reports whether the request has the part
	climb change                // changes nothing if the part is as plain as it can be
}{
	{nil, true, func(sent *sent) bool { return slices.ContainsFunc(sent.c.Messages, silent) }, otherContent},
	{says(`call.?id|tool_(use|calls).*\bid\b`), false, func(sent *sent) bool { return sent.some(isCall) }, form("call_ids: nine", plainIDs)},
	{says(`alternat|unexpected role|\bturn\b|first message|starts? with`), false, unframed, form("first: user, bridge: true", func(c *Caps) { c.FirstUser, c.Bridge = true, true })},
	{says(`system|only user and assistant`), true, func(sent *sent) bool { return len(sent.c.System) > 0 }, form("system: user", func(c *Caps) { c.System = User })},
	{thoughts, true, func(sent *sent) bool { return len(keys(sent.earlier(), isCarried)) > 0 }, noEarlierThoughts},
	{thoughts, true, (*sent).thinks, noThoughts},
	{media, true, func(sent *sent) bool { return len(sent.media()) > 0 }, withoutNewestMedia},
	{media, true, func(sent *sent) bool { return len(sent.media()) > 1 }, withoutMedia},
	{says(`schema|tools?\b|function|description`), true, func(sent *sent) bool { return len(sent.c.Tools) > 0 }, form("schema: bare", plainTools)},
}

var (
	thoughts = says(`signature|thinking|thought|reasoning|encrypted|following item`)
	media    = says(`image|media|vision|multimodal|\bfile`)
)

// rungs are some of the ladder, by their bits.
type rungs uint16

// free are the rungs without cost.
var free = func() (all rungs) {
	for i, r := range ladder {
		if !r.costs {
			all |= 1 << i
		}
	}
	return all
}()

func (r rungs) has(i int) bool { return r>>i&1 == 1 }

// rungsOf returns the rungs whose part is in a request.
func rungsOf(sent *sent) (all rungs) {
	for i, r := range ladder {
		if r.in(sent) {
			all |= 1 << i
		}
	}
	return all
}

// climb is the search for a form that a provider accepts, for one request.
type climb struct {
	usual   rungs  // say nothing after a status 500
	tried   rungs  // since the refusals say the same, and those before that helped: each at most once
	helped  rungs  // before the refusals say the same
	last    rungs  // climbed for the latest request
	ground  *sent  // what last began from; nil if it stays
	refusal string // of the latest request, as lasting has it
}

// mark matches words with a digit, and whole times. The long ones are another in each refusal, such as the id of a request.
var mark = regexp.MustCompile(`\d[\w.:+-]{7,}|[\w-]*\d[\w-]*`)

// lasting returns the words of a refusal that do not change if the same is refused again.
func lasting(words string) string {
	return mark.ReplaceAllStringFunc(words, func(word string) string {
		if len(word) < 8 {
			return word
		}
		return ""
	})
}

// next returns the state for the next request after a refusal, nil if it teaches nothing.
func (c *climb) next(failed *llm.Error, sent *sent) *state {
	refusal := lasting(failed.Message)
	switch {
	case refusal != c.refusal:
		c.helped |= c.last
		c.tried, c.refusal = c.helped, refusal
	case c.ground != nil:
		sent = c.ground
	}
	c.last, c.ground = 0, nil
	sentence := sent.unquoted(failed.Message)
	if slices.Contains(teaching, failed.Status) {
		if next := sent.taught(failed, sentence); next != nil {
			return next
		}
	}
	not := c.tried
	switch {
	case failed.Code == "bad_request" && (failed.Status == http.StatusBadRequest || failed.Status == http.StatusUnprocessableEntity):
	case failed.Code == "provider_error" && failed.Status == http.StatusInternalServerError:
		not |= c.usual
	default:
		return nil
	}
	climbed, next := sent.up(failed, sentence, not, true)
	if c.last, c.tried = climbed, c.tried|climbed; climbed&free == 0 {
		c.ground = sent
	}
	return next
}

// teaching are the statuses of refusals: servers with a local template answer 500.
var teaching = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError}

// learnLater returns the state after a failure in the answer to an accepted request, nil if it teaches nothing.
func (s *sent) learnLater(failed *llm.Error) *state {
	if failed.Code != "bad_request" && failed.Code != "provider_error" {
		return nil
	}
	sentence := s.unquoted(failed.Message)
	if next := s.taught(failed, sentence); next != nil {
		return next
	}
	_, next := s.up(failed, sentence, 0, failed.Code == "bad_request")
	return next
}

// up climbs the first rung that changes something: one about what a sentence names, or else, if all is set, any, those without cost at once.
func (s *sent) up(failed *llm.Error, sentence string, not rungs, all bool) (climbed rungs, next *state) {
	next = s.state.clone()
	for _, named := range []bool{true, false} {
		for i, r := range ladder {
			names := r.names != nil && r.names.MatchString(sentence)
			if not.has(i) || named != names || !named && !all || climbed != 0 && r.costs || !r.in(s) {
				continue
			}
			what := r.climb(next, s, nil)
			if what == "" {
				continue
			}
			next.learned = next.with(lesson{what, failed.Message})
			if climbed |= 1 << i; r.costs || named {
				return climbed, next
			}
		}
	}
	if climbed == 0 {
		return 0, nil
	}
	return climbed, next
}

// silent reports whether m has calls and no text, or a result without text.
func silent(m Message) bool {
	none := func(p Part) bool { return p.Result != nil && p.Result.Text == "" }
	said := func(p Part) bool { return p.Call == nil && p.Carried == nil }
	return slices.ContainsFunc(m.Parts, none) || !slices.ContainsFunc(m.Parts, said)
}

// otherContent leaves out the content of a message that has only calls, or makes it empty.
func otherContent(s *state, _ *sent, _ []string) string {
	other := "absent"
	if s.caps.Content == other {
		other = "empty"
	}
	s.caps.Content = other
	return "content: " + other
}

// unframed reports whether the conversation does not begin with a user's message, or a user's message follows a result.
func unframed(sent *sent) bool {
	list := sent.c.Messages
	for i := range list[1:] {
		if list[i].Role == Results && list[i+1].Role == User {
			return true
		}
	}
	return list[0].Role != User
}

func noEarlierThoughts(s *state, sent *sent, _ []string) string {
	earlier := keys(sent.earlier(), isCarried)
	s.refused = s.refused.with(earlier...)
	return fmt.Sprintf("%d pieces of reasoning of earlier turns were refused", len(earlier))
}

func noThoughts(s *state, sent *sent, _ []string) string {
	all := keys(sent.c.Messages, isCarried)
	s.refused, s.caps.Missing = s.refused.with(all...), false
	return fmt.Sprintf("%d pieces of reasoning were refused", len(all))
}

func withoutNewestMedia(s *state, sent *sent, _ []string) string {
	all := sent.media()
	s.refused = s.refused.with(all[len(all)-1])
	return "the newest image or file was refused"
}

func withoutMedia(s *state, sent *sent, _ []string) string {
	all := sent.media()
	s.refused = s.refused.with(all...)
	return fmt.Sprintf("%d images and files were refused", len(all))
}

// plainIDs are ids that all servers accept.
func plainIDs(c *Caps) {
	if c.IDs != GivenID {
		c.IDs = NineID
	}
}

// plainTools are short descriptions and schemas that all servers accept.
func plainTools(c *Caps) {
	if c.Schema = BareSchema; c.Description == 0 || c.Description > 1024 {
		c.Description = 1024
	}
}

func isCall(p Part) bool  { return p.Call != nil }
func isMedia(p Part) bool { return p.Media != nil }

// thinks reports whether an answer has reasoning, or what stands for it.
func (s *sent) thinks() bool {
	isAnswer := func(m Message) bool { return m.Role == Assistant }
	return s.some(isCarried) || s.state.caps.Missing && slices.ContainsFunc(s.c.Messages, isAnswer)
}

// earlier returns the messages before the last user's message.
func (s *sent) earlier() []Message {
	for i, m := range slices.Backward(s.c.Messages) {
		if m.Role == User {
			return s.c.Messages[:i]
		}
	}
	return nil
}

// media returns the keys of the images and files that were sent, in order.
func (s *sent) media() []key { return keys(s.c.Messages, isMedia) }

// keys returns the keys of some reasoning, images and files.
func keys(list []Message, is func(Part) bool) (all []key) {
	for _, m := range list {
		for _, p := range m.Parts {
			switch {
			case !is(p):
			case p.Media != nil:
				all = append(all, p.Media.key())
			default:
				all = append(all, keyOf("carried", p.Carried))
			}
		}
	}
	return all
}
