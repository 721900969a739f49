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
	// climb returns what has changed, "" if the part is as plain as it can be.
	climb func(s *state, sent *sent) string
}{
	{nil, true, func(sent *sent) bool { return slices.ContainsFunc(sent.c.Messages, silent) }, otherContent},
	{says(`call.?id|tool_(use|calls).*\bid\b`), false, func(sent *sent) bool { return sent.some(isCall) }, plainIDs},
	{says(`alternat|unexpected role|\bturn\b|first message|starts? with`), false, unframed, alternate},
	{says(`system|only user and assistant`), true, func(sent *sent) bool { return len(sent.c.System) > 0 }, systemAsUser},
	{thoughts, true, func(sent *sent) bool { return len(carried(sent.earlier())) > 0 }, noEarlierThoughts},
	{thoughts, true, (*sent).thinks, noThoughts},
	{media, true, func(sent *sent) bool { return len(sent.media()) > 0 }, withoutNewestMedia},
	{media, true, func(sent *sent) bool { return len(sent.media()) > 1 }, withoutMedia},
	{says(`schema|tools?\b|function|description`), true, func(sent *sent) bool { return len(sent.c.Tools) > 0 }, plainTools},
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
	usual   rungs // say nothing after a status 500
	vain    rungs // were tried after a status 500
	climbed rungs // since the refusals say the same: each at most once
	kept    rungs // of those before, that which helped
	last    rungs
	ground  *state // what the rung that was tried last began from; nil if none was
	sent    *sent  // from ground
	refusal string // of sent, as lasting has it
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
func (c *climb) next(s *state, failed *llm.Error, sent *sent) *state {
	refusal := lasting(failed.Message)
	switch {
	case refusal != c.refusal:
		c.kept |= c.last
		c.climbed = c.kept
	case c.ground != nil:
		s, sent = c.ground, c.sent
	}
	sentence := sent.unquoted(failed.Message)
	if slices.Contains(teaching, failed.Status) {
		if next := s.taught(failed, sentence, sent); next != nil {
			c.ground, c.last = nil, 0
			return next
		}
	}
	not := c.climbed
	switch {
	case failed.Code == "bad_request" && (failed.Status == http.StatusBadRequest || failed.Status == http.StatusUnprocessableEntity):
	case failed.Code == "provider_error" && failed.Status == http.StatusInternalServerError:
		not |= c.usual
	default:
		return nil
	}
	climbed, next := s.up(failed, sentence, sent, not, true)
	if next == nil {
		return nil
	}
	c.last = climbed
	if c.climbed |= climbed; failed.Status == http.StatusInternalServerError {
		c.vain |= climbed
	}
	c.ground, c.sent, c.refusal = s, sent, refusal
	if climbed&free != 0 {
		c.ground = nil
	}
	return next
}

// teaching are the statuses of refusals: servers with a local template answer 500.
var teaching = []int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError}

// learnLater returns the state after a failure in the answer to an accepted request, nil if it teaches nothing.
func (s *state) learnLater(failed *llm.Error, sent *sent) *state {
	if failed.Code != "bad_request" && failed.Code != "provider_error" {
		return nil
	}
	sentence := sent.unquoted(failed.Message)
	if next := s.taught(failed, sentence, sent); next != nil {
		return next
	}
	_, next := s.up(failed, sentence, sent, 0, failed.Code == "bad_request")
	return next
}

// up climbs the first rung that changes something: one about what a sentence names, or else, if all is set, any, those without cost at once.
func (s *state) up(failed *llm.Error, sentence string, sent *sent, not rungs, all bool) (climbed rungs, next *state) {
	next = s.clone()
	for _, named := range []bool{true, false} {
		for i, r := range ladder {
			switch {
			case not.has(i) || !named && !all || !r.in(sent) || named != (r.names != nil && r.names.MatchString(sentence)):
				continue
			case climbed != 0 && (r.costs || named):
				return climbed, next
			}
			if what := r.climb(next, sent); what != "" {
				next.learned = next.with(lesson{what, failed.Message})
				if climbed |= 1 << i; r.costs || named {
					return climbed, next
				}
			}
		}
		if climbed != 0 {
			return climbed, next
		}
	}
	return 0, nil
}

// silent reports whether m has calls and no text, or a result without text.
func silent(m Message) bool {
	none := func(p Part) bool { return p.Result != nil && p.Result.Text == "" }
	said := func(p Part) bool { return p.Call == nil && p.Carried == nil }
	return slices.ContainsFunc(m.Parts, none) || !slices.ContainsFunc(m.Parts, said)
}

// otherContent leaves out the content of a message that has only calls, or makes it empty.
func otherContent(s *state, _ *sent) string {
	other := "absent"
	if s.caps.Content == other {
		other = "empty"
	}
	s.caps.Content = other
	return "content: " + other
}

func plainIDs(s *state, _ *sent) string {
	if s.caps.IDs == NineID || s.caps.IDs == GivenID {
		return ""
	}
	s.caps.IDs = NineID
	return "call_ids: nine"
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

// alternate makes the roles of a request alternate.
func alternate(s *state, _ *sent) string {
	if s.caps.FirstUser && s.caps.Bridge {
		return ""
	}
	s.caps.FirstUser, s.caps.Bridge = true, true
	return "first: user, bridge: true"
}

func systemAsUser(s *state, _ *sent) string {
	if s.caps.System == User {
		return ""
	}
	s.caps.System = User
	return "system: user"
}

func noEarlierThoughts(s *state, sent *sent) string {
	earlier := carried(sent.earlier())
	s.refused = s.refused.with(earlier...)
	return fmt.Sprintf("%d pieces of reasoning of earlier turns were refused", len(earlier))
}

func noThoughts(s *state, sent *sent) string {
	all := carried(sent.c.Messages)
	s.refused, s.caps.Missing = s.refused.with(all...), false
	return fmt.Sprintf("%d pieces of reasoning were refused", len(all))
}

func withoutNewestMedia(s *state, sent *sent) string {
	list := sent.media()
	s.refused = s.refused.with(list[len(list)-1].key())
	return "the newest image or file was refused"
}

func withoutMedia(s *state, sent *sent) string {
	list := sent.media()
	for _, m := range list {
		s.refused = s.refused.with(m.key())
	}
	return fmt.Sprintf("%d images and files were refused", len(list))
}

// plainTools gives the tools short descriptions and schemas that all servers accept.
func plainTools(s *state, _ *sent) string {
	if s.caps.Schema == BareSchema {
		return ""
	}
	s.caps.Schema = BareSchema
	if s.caps.Description == 0 || s.caps.Description > 1024 {
		s.caps.Description = 1024
	}
	return "schema: bare"
}

func isCall(p Part) bool    { return p.Call != nil }
func isCarried(p Part) bool { return p.Carried != nil }

// thinks reports whether an answer has reasoning, or what stands for it.
func (s *sent) thinks() bool {
	isAnswer := func(m Message) bool { return m.Role == Assistant }
	return s.some(isCarried) || s.filled && slices.ContainsFunc(s.c.Messages, isAnswer)
}

// some reports whether a part of the conversation is one of those.
func (s *sent) some(is func(Part) bool) bool {
	return slices.ContainsFunc(s.c.Messages, func(m Message) bool { return slices.ContainsFunc(m.Parts, is) })
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

// carried returns the keys of carried data.
func carried(list []Message) (all []key) {
	for _, m := range list {
		for _, p := range m.Parts {
			if p.Carried != nil {
				all = append(all, keyOf("carried", p.Carried))
			}
		}
	}
	return all
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
