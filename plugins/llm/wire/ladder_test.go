package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// strange returns an Endpoint whose provider refuses what bad reports, in words that say nothing, with a status.
func strange(t *testing.T, status int, words string, bad func(c *Conversation, caps Caps) bool) (e *Endpoint, ask func(req llm.Request) error, asked *int) {
	t.Helper()
	e, _, _ = endpoint(t, nil)
	refused, n := false, 0
	e.Client.Transport = answers(func(*http.Request) (*http.Response, error) {
		n++
		res := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}
		if refused {
			res.StatusCode, res.Body = status, io.NopCloser(strings.NewReader(strings.ReplaceAll(words, "ID", fmt.Sprintf("2026112904%06x", n*7919))))
		}
		return res, nil
	})
	return e, func(req llm.Request) error {
		res, err := e.Exchange(t.Context(), "http://x.example", req, func(c *Conversation, caps Caps) any {
			refused = bad(c, caps)
			return []any{c, caps}
		})
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}, &n
}

// rich is a request in which each rung of the ladder has its part.
func rich(e *Endpoint) llm.Request {
	thought := func(of string) llms.MessageContent {
		return llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llm.Carried{Origin: e.origin(), Data: json.RawMessage(`"` + of + `"`)}, llms.TextContent{Text: of}}}
	}
	list := append(dialog("s|S", "a|welcome", "u|a"), thought("earlier"))
	list = append(list, llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLPart("https://x.example/1.png"), llms.ImageURLPart("https://x.example/2.png")}})
	list = append(list, thought("now"))
	list = append(list, dialog("a|~1|!1", "t|=1:")...)
	return llm.Request{Messages: list, Options: llms.CallOptions{Tools: []llms.Tool{{Function: &llms.FunctionDefinition{Name: "look", Parameters: json.RawMessage(`{"type":"object","properties":{"at":{"anyOf":[{"type":"string"}]}}}`)}}}}}
}

var parts = map[string]func(c *Conversation, caps Caps) bool{
	"content":          func(_ *Conversation, caps Caps) bool { return caps.Content != "absent" },
	"ids":              func(_ *Conversation, caps Caps) bool { return caps.IDs != NineID },
	"first":            func(c *Conversation, _ Caps) bool { return c.Messages[0].Role != User },
	"system":           func(c *Conversation, _ Caps) bool { return len(c.System) > 0 },
	"earlier thoughts": func(c *Conversation, _ Caps) bool { return len(keys((&sent{c: c}).earlier(), isCarried)) > 0 },
	"thoughts":         func(c *Conversation, _ Caps) bool { return (&sent{c: c}).some(isCarried) },
	"new image":        func(c *Conversation, _ Caps) bool { return len((&sent{c: c}).media()) > 1 },
	"images":           func(c *Conversation, _ Caps) bool { return len((&sent{c: c}).media()) > 0 },
	"tools":            func(_ *Conversation, caps Caps) bool { return caps.Schema != BareSchema },
}

// Whatever a server refuses, in whatever words, is found, remembered, and nothing that the server takes is given up for it.
func TestLadder_FindsWhatIsRefused(t *testing.T) {
	for what, bad := range parts {
		for _, status := range []int{400, 422, 500} {
			for _, words := range []string{
				"", "Bad Request", "请求无效", `{"error":{"message":"Something is wrong at 7f3a"}}`,
				"Something is wrong (request id: ID)", `{"error":{"message":"upstream error","request_id":"req_ID"}}`, "E1017 [trace=ID-1] at 2026-11-29T04:50:ID",
			} {
				name := fmt.Sprintf("%s, %d %s", what, status, words)
				e, ask, asked := strange(t, status, words, bad)
				if err := ask(rich(e)); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if *asked > maxSends {
					t.Errorf("%s: %d requests", name, *asked)
				}
				lossy := 0
				for _, l := range (Plain{endpoint: e}).Learned() {
					if l != "call_ids: nine" && !strings.HasPrefix(l, "first: user") {
						lossy++
					}
				}
				if lossy > 1 {
					t.Errorf("%s: learned %q", name, Plain{endpoint: e}.Learned())
				}
				if *asked = 0; ask(rich(e)) != nil || *asked != 1 {
					t.Errorf("%s: %d requests again", name, *asked)
				}
			}
		}
	}
}

// Two parts that are refused in different words are both found, if eight requests suffice.
func TestLadder_FindsSeveral(t *testing.T) {
	for _, pair := range [][2]string{{"content", "ids"}, {"content", "first"}, {"first", "system"}, {"system", "earlier thoughts"}, {"earlier thoughts", "system"}, {"thoughts", "ids"}, {"new image", "content"}} {
		e, _, _ := endpoint(t, nil)
		words := ""
		e.Client.Transport = answers(func(*http.Request) (*http.Response, error) {
			res := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(words))}
			if words != "" {
				res.StatusCode = http.StatusBadRequest
			}
			return res, nil
		})
		res, err := e.Exchange(t.Context(), "http://x.example", rich(e), func(c *Conversation, caps Caps) any {
			switch words = ""; {
			case parts[pair[0]](c, caps):
				words = "E1017"
			case parts[pair[1]](c, caps):
				words = "E2044"
			}
			return []any{c, caps}
		})
		if err != nil {
			t.Errorf("%s: %v", pair, err)
			continue
		}
		_ = res.Body.Close()
	}
}

// A server that fails with 500 gets no other forms of what it has accepted, or that did not help before.
func TestLadder_FailureIsNoRefusalOfWhatWasAccepted(t *testing.T) {
	down := false
	e, ask, asked := strange(t, 500, "Internal Server Error", func(*Conversation, Caps) bool { return down })
	for range 2 {
		if err := ask(rich(e)); err != nil {
			t.Fatal(err)
		}
		down = true
		if *asked = 0; ask(rich(e)) == nil || *asked != 1 {
			t.Errorf("%d requests to a server that is down", *asked)
		}
		down = false
	}
	e, ask, asked = strange(t, 500, "Internal Server Error", func(*Conversation, Caps) bool { return true })
	_ = ask(rich(e))
	if *asked = 0; ask(rich(e)) == nil || *asked > 2 || len((Plain{endpoint: e}).Learned()) > 0 {
		t.Errorf("%d requests to a server that has always been down, learned %q", *asked, Plain{endpoint: e}.Learned())
	}
}

// A model that needed reasoning in each answer, and takes none any more, is not lost for it.
func TestLadder_TakesBackNeededReasoning(t *testing.T) {
	e, ask, _ := strange(t, 400, "Bad Request", func(c *Conversation, caps Caps) bool {
		return caps.Missing || (&sent{c: c}).some(isCarried)
	})
	e.known.caps.Reasoning, e.known.caps.Missing = "reasoning_content", true
	for name, req := range map[string]llm.Request{"answers with reasoning": rich(e), "answers without": {Messages: dialog("u|a", "a|~1|!1", "t|=1:", "u|b")}} {
		if err := ask(req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
