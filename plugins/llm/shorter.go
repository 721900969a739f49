package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// maxShorter limits how often the results of tools are halved until a request fits.
const maxShorter = 6

// shorten makes a conversation shorter that has been shortened n times, and reports whether it could. It halves the longest
// results of tools and, once that is done, drops earlier turns.
func (t *turn) shorten(n int) (less bool, err error) {
	if n < maxShorter {
		if t.messages, less = shorten(t.messages); less {
			return true, nil
		}
	}
	return t.dropTurns()
}

// dropTurns drops the oldest turns that have half of the conversation, once and without the last turn.
func (t *turn) dropTurns() (less bool, err error) {
	if len(t.turns) < 2 {
		return false, nil
	}
	begin, dropped := t.turns[0], 1
	size := func(end int) int { return t.estimate(Request{Messages: t.messages[begin:end]}) }
	for half := size(len(t.messages)) / 2; dropped < len(t.turns)-1 && size(t.turns[dropped]) < half; {
		dropped++
	}
	t.messages = slices.Concat(t.messages[:begin], t.messages[t.turns[dropped]:])
	t.turns = nil
	value, err := json.Marshal(map[string]any{"turns": dropped, "summarised": false})
	if err != nil {
		return false, err
	}
	return true, t.run.Emit(agui.Custom{Name: TrimmedEvent, Value: value})
}

// shortened returns the beginning and the end of a text if it has more than limit bytes.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := text[:limit/4*3], text[len(text)-limit/4:]
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[%d of %d bytes left out]\n", len(text)-len(head)-len(tail), len(text)) + strings.ToValidUTF8(tail, "")
}

// leastResult is the length up to which results of tools are not shortened, in bytes.
const leastResult = 4 << 10

// shorten halves the longest results of tools in messages, and reports whether there was one to be shortened.
func shorten(messages []llms.MessageContent) ([]llms.MessageContent, bool) {
	longest := 0
	each := func(do func(m, p int, r llms.ToolCallResponse)) {
		for i := range messages {
			for j, p := range messages[i].Parts {
				if r, ok := p.(llms.ToolCallResponse); ok {
					do(i, j, r)
				}
			}
		}
	}
	each(func(_, _ int, r llms.ToolCallResponse) { longest = max(longest, len(r.Content)) })
	if longest <= leastResult {
		return messages, false
	}
	messages = append([]llms.MessageContent(nil), messages...)
	each(func(i, j int, r llms.ToolCallResponse) {
		if len(r.Content) <= longest/2 {
			return
		}
		r.Content = shortened(r.Content, longest/2)
		messages[i].Parts = append([]llms.ContentPart(nil), messages[i].Parts...)
		messages[i].Parts[j] = r
	})
	return messages, true
}
