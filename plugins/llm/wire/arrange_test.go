package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// dialog reads messages: a line each, with a role and parts. "text", !id is a call, =id its result, ~data was carried by us,
// ^data by another model.
func dialog(lines ...string) (list []llms.MessageContent) {
	roles := map[byte]llms.ChatMessageType{
		's': llms.ChatMessageTypeSystem, 'u': llms.ChatMessageTypeHuman, 'a': llms.ChatMessageTypeAI, 't': llms.ChatMessageTypeTool,
	}
	for _, line := range lines {
		m := llms.MessageContent{Role: roles[line[0]]}
		for _, word := range strings.Split(line[1:], "|")[1:] {
			switch {
			case strings.HasPrefix(word, "!"):
				m.Parts = append(m.Parts, llms.ToolCall{ID: word[1:], FunctionCall: &llms.FunctionCall{Name: "f", Arguments: "{}"}})
			case strings.HasPrefix(word, "="):
				id, text, _ := strings.Cut(word[1:], ":")
				m.Parts = append(m.Parts, llms.ToolCallResponse{ToolCallID: id, Content: text})
			case strings.HasPrefix(word, "~"):
				m.Parts = append(m.Parts, llm.Carried{Origin: "p/m@", Data: json.RawMessage(word[1:])})
			case strings.HasPrefix(word, "^"):
				m.Parts = append(m.Parts, llm.Carried{Origin: "p/n@", Data: json.RawMessage(word[1:])})
			default:
				m.Parts = append(m.Parts, llms.TextContent{Text: word})
			}
		}
		list = append(list, m)
	}
	return list
}

// heard is the inverse of dialog for a Conversation.
func heard(c *Conversation) (lines []string) {
	if len(c.System) > 0 {
		lines = append(lines, "s|"+strings.Join(c.System, "|"))
	}
	for _, m := range c.Messages {
		var line strings.Builder
		line.WriteString(m.Role[:1])
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				line.WriteString("|!" + p.Call.ID)
			case p.Result != nil:
				line.WriteString("|=" + p.Result.ID + ":" + p.Result.Text)
			case p.Carried != nil:
				line.WriteString("|~" + string(p.Carried))
			case p.Media != nil:
				line.WriteString("|" + p.Media.Type)
			default:
				line.WriteString("|" + p.Text)
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

func TestArrange_MakesConversationLegal(t *testing.T) {
	none := "|=1:" + interrupted
	for _, test := range []struct {
		name string
		caps Caps
		said []string
		want []string
	}{
		{"as it is", Caps{}, []string{"s|S", "u|a", "a|b", "u|c"}, []string{"s|S", "u|a", "a|b", "u|c"}},
		{"systems", Caps{}, []string{"s|S", "u|a", "s|T| ", "s|"}, []string{"s|S|T", "u|a"}},
		{"users in a row", Caps{}, []string{"u|a", "u|b|c", "u|d"}, []string{"u|a\n\nb|c\n\nd"}},
		{"an empty answer", Caps{}, []string{"u|a", "a| ", "u|b"}, []string{"u|a\n\nb"}},
		{"answers in a row", Caps{}, []string{"u|a", "a|b", "a|c", "u|d"}, []string{"u|a", "a|b\n\nc", "u|d"}},
		{"an answer last", Caps{}, []string{"u|a", "a|b"}, []string{"u|a", "a|b", "u|" + goOn}},
		{"a blank question last", Caps{}, []string{"u|a", "a|b", "u| "}, []string{"u|a", "a|b", "u|" + goOn}},
		{"a call", Caps{}, []string{"u|a", "a|!1", "t|=1:x"}, []string{"u|a", "a|!1", "t|=1:x"}},
		{"a call without a result", Caps{}, []string{"u|a", "a|!1", "u|b"}, []string{"u|a", "a|!1", "t" + none, "u|b"}},
		{"a call without a result, last", Caps{}, []string{"u|a", "a|!1"}, []string{"u|a", "a|!1", "t" + none}},
		{"results in another order", Caps{}, []string{"u|a", "a|!1|!2", "t|=2:y", "t|=1:x"}, []string{"u|a", "a|!1|!2", "t|=1:x|=2:y"}},
		{"a blank result", Caps{}, []string{"u|a", "a|!1", "t|=1: \n"}, []string{"u|a", "a|!1", "t|=1:"}},
		{"a result twice", Caps{}, []string{"u|a", "a|!1", "t|=1:x|=1:y"}, []string{"u|a", "a|!1", "t|=1:x"}},
		{"a result of no call", Caps{}, []string{"u|a", "t|=1:x", "u|b"}, []string{"u|a\n\nb"}},
		{"a result before its call", Caps{}, []string{"u|a", "t|=1:x", "a|!1", "u|b"}, []string{"u|a", "a|!1", "t|=1:x", "u|b"}},
		{"a late result", Caps{}, []string{"u|a", "a|!1", "u|b", "t|=1:x", "u|c"}, []string{"u|a", "a|!1", "t|=1:x", "u|b\n\nc"}},
		{"a late result between answers", Caps{}, []string{"u|a", "a|!1", "u|b", "a|c", "t|=1:x", "a|d", "u|e"}, []string{"u|a", "a|!1", "t|=1:x", "u|b", "a|c\n\nd", "u|e"}},
		{"an answer in several messages", Caps{}, []string{"u|a", "a|b|!1", "a|c|!2", "t|=1:x", "t|=2:y", "a|d", "u|e"}, []string{"u|a", "a|b|!1|c|!2", "t|=1:x|=2:y", "a|d", "u|e"}},
		{"answers between results", Caps{}, []string{"u|a", "a|!1", "t|=1:x", "a|!2", "t|=2:y"}, []string{"u|a", "a|!1", "t|=1:x", "a|!2", "t|=2:y"}},
		{"one id in turns", Caps{}, []string{"u|a", "a|!1", "t|=1:x", "a|b", "u|c", "a|!1", "t|=1:y"}, []string{"u|a", "a|!1", "t|=1:x", "a|b", "u|c", "a|!" + AnyID.id("1", map[string]bool{"1": true}), "t|=" + AnyID.id("1", map[string]bool{"1": true}) + ":y"}},
		{"one id, the first without a result", Caps{IDs: GivenID}, []string{"u|a", "a|!1", "u|c", "a|!1", "t|=1:y"}, []string{"u|a", "a|!1", "t" + none, "u|c", "a|!1", "t|=1:y"}},
		{"no ids", Caps{IDs: GivenID}, []string{"u|a", "a|!|!", "t|=:x|=:y"}, []string{"u|a", "a|!|!", "t|=:x|=:y"}},
		{"an id of ours", Caps{IDs: GivenID}, []string{"u|a", "a|!baton_X|!g", "t|=baton_X:x|=g:y"}, []string{"u|a", "a|!|!g", "t|=:x|=g:y"}},
		{"what was carried", Caps{}, []string{"u|a", "a|~1|^2|b|!1", "t|=1:x"}, []string{"u|a", "a|~1|b|!1", "t|=1:x"}},
		{"carried alone", Caps{}, []string{"u|a", "a|~1", "u|b"}, []string{"u|a\n\nb"}},
		{"an answer first", Caps{}, []string{"a|b", "u|a"}, []string{"a|b", "u|a"}},
		{"a user first", Caps{FirstUser: true}, []string{"s|S", "a|b", "u|a"}, []string{"s|S", "u|" + goesOn, "a|b", "u|a"}},
		{"a bridge", Caps{Bridge: true}, []string{"u|a", "a|!1", "t|=1:x", "u|b"}, []string{"u|a", "a|!1", "t|=1:x", "a|" + bridge, "u|b"}},
		{"no bridge", Caps{Bridge: true}, []string{"u|a", "a|!1", "t|=1:x"}, []string{"u|a", "a|!1", "t|=1:x"}},
		{"a system's text of a user", Caps{System: User}, []string{"s|S|T", "u|a"}, []string{"u|S\n\nT\n\na"}},
		{"a system's text and an answer first", Caps{System: User}, []string{"s|S", "a|b", "u|a"}, []string{"u|S\n\n" + goesOn, "a|b", "u|a"}},
		{"nothing", Caps{}, nil, nil},
		{"a system alone", Caps{System: User}, []string{"s|S"}, nil},
		{"blanks alone", Caps{}, []string{"u| ", "a|", "t|=1:x"}, nil},
	} {
		e := &Endpoint{Provider: "p", Model: "m"}
		given := dialog(test.said...)
		c, err := e.arrange(llm.Request{Messages: given}, &state{caps: test.caps})
		if failed := (*llm.Error)(nil); test.want == nil && (!errors.As(err, &failed) || failed.Code != "nothing_to_answer") || test.want != nil && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.want == nil {
			continue
		}
		if diff := cmp.Diff(test.want, heard(c)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if diff := cmp.Diff(dialog(test.said...), given); diff != "" {
			t.Errorf("%s: the request was changed: %s", test.name, diff)
		}
	}
}

// FuzzArrange has any order of messages; the conversation is legal.
func FuzzArrange(f *testing.F) {
	f.Add("uatcbx", uint8(0))
	f.Add("auacctxbuu", uint8(3))
	f.Fuzz(func(t *testing.T, order string, kind uint8) {
		var lines []string
		for i, letter := range order {
			switch letter % 6 {
			case 0:
				lines = append(lines, "u|a")
			case 1:
				lines = append(lines, fmt.Sprintf("a|b|!%d", i%3))
			case 2:
				lines = append(lines, fmt.Sprintf("t|=%d:x", i%3))
			case 3:
				lines = append(lines, "a|c")
			case 4:
				lines = append(lines, "a|~1", "u| ")
			case 5:
				lines = append(lines, "s|S")
			}
		}
		caps := Caps{FirstUser: kind&1 > 0, Bridge: kind&2 > 0, IDs: []IDForm{AnyID, NineID, WordID, ShortID}[kind/16%4]}
		if kind&4 > 0 {
			caps.System = User
		}
		c, err := (&Endpoint{Provider: "p"}).arrange(llm.Request{Messages: dialog(lines...)}, &state{caps: caps})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for i, m := range c.Messages {
			if len(m.Parts) == 0 || i > 0 && c.Messages[i-1].Role == m.Role {
				t.Fatalf("%q: %q", lines, heard(c))
			}
			var ids, answered []string
			for _, p := range m.Parts {
				if p.Call != nil {
					ids = append(ids, p.Call.ID)
				}
			}
			if ids == nil {
				continue
			}
			for _, p := range c.Messages[i+1].Parts {
				answered = append(answered, p.Result.ID)
			}
			for _, id := range ids {
				if seen[id] || !caps.IDs.fits(id) {
					t.Fatalf("%q: id %s", heard(c), id)
				}
				seen[id] = true
			}
			if diff := cmp.Diff(ids, answered); diff != "" {
				t.Fatal(diff)
			}
		}
		if end := c.Messages[len(c.Messages)-1].Role; end == Assistant || caps.FirstUser && c.Messages[0].Role != User {
			t.Fatalf("%q", heard(c))
		}
	})
}

func TestIDForm_IsStableAndDistinct(t *testing.T) {
	for form, fits := range map[IDForm]string{AnyID: "functions.f:0", NineID: "a1B2c3D4e", WordID: "toolu_1-a", ShortID: "functions.f:0"} {
		if got := form.id(fits, map[string]bool{}); got != fits {
			t.Errorf("%s: %s becomes %s", form, fits, got)
		}
		taken := map[string]bool{}
		ids := map[string]bool{}
		for _, id := range []string{"01931e3b-5a7e-7c3e-9a52-6f0f3e6d9c01", "01931e3b-5a7e-7c3e-9a52-6f0f3e6d9c02", "", "", "x", "x", "x", strings.Repeat("x", 41), "查询", "a b"} {
			got := form.id(id, taken)
			if ids[got] || !form.fits(got) {
				t.Errorf("%s: %q becomes %q", form, id, got)
			}
			ids[got] = true
		}
	}
	id := "01931e3b-5a7e-7c3e-9a52-6f0f3e6d9c01"
	if a, b := NineID.id(id, map[string]bool{}), NineID.id(id, map[string]bool{"x": true}); a != b || a != "UXGhGiqj6" {
		t.Errorf("%s, %s: the id of a call changed", a, b)
	}
}
