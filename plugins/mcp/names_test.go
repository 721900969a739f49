package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Names that do not fit are shortened with a hash, distinct, and lead to the server's tool; no tool is left out.
func TestNames_AreShortened(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very_long_", 9)
	for name, c := range map[string]struct {
		tools []string
		want  []string // expressions, in the order of the tools
	}{
		"fit":        {[]string{"a", "a.b", "A-b_c"}, []string{`a`, `a\.b`, `A-b_c`}},
		"signs":      {[]string{"a b", "x/y"}, []string{`a_b`, `x_y`}},
		"too long":   {[]string{long + "a", long + "b"}, []string{`very_long_.{42}_\w{8}`, `very_long_.{42}_\w{8}`}},
		"not ascii":  {[]string{"查询天气", "搜索新闻", "计算器"}, []string{`t_\w{8}`, `t_\w{8}`, `t_\w{8}`}},
		"half ascii": {[]string{"get_Straße", "get_Straẞe"}, []string{`get_Strae_\w{8}`, `get_Strae_\w{8}`}},
		"collide":    {[]string{"a b", "a/b", "a_b"}, []string{`a_b_\w{8}`, `a_b_\w{8}`, `a_b`}},
		"collide 2":  {[]string{"a_b", "a b"}, []string{`a_b`, `a_b_\w{8}`}},
		"odd":        {[]string{" ", ".", "_"}, []string{`__\w{8}`, `\.`, `_`}},
		"twice":      {[]string{"a", "a"}, []string{`a`}},
	} {
		t.Run(name, func(t *testing.T) {
			list := []map[string]any{}
			for _, tool := range c.tools {
				list = append(list, map[string]any{"name": tool, "inputSchema": nil})
			}
			tools, _ := json.Marshal(map[string]any{"tools": list})
			cfg := playedBy(t, func(w http.ResponseWriter, r *http.Request, method string) {
				switch method {
				case "initialize":
					reply(w, r, helloResult)
				case "tools/list":
					reply(w, r, string(tools))
				case "tools/call":
					var m struct{ Params struct{ Name string } }
					_ = json.NewDecoder(r.Body).Decode(&m)
					text, _ := json.Marshal(m.Params.Name)
					reply(w, r, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text))
				default:
					normal(w, r)
				}
			})
			s := started(t, cfg)
			offered := names(s)
			if len(offered) != len(c.want) || len(slices.Compact(slices.Clone(offered))) != len(c.want) {
				t.Fatalf("offered are %q", offered)
			}
			for i, want := range c.want {
				found := ""
				for _, name := range offered {
					if out, err := call(t, s, name, `{}`); err == nil && out.ResultSummary == c.tools[i] {
						found = name
					}
				}
				if !regexp.MustCompile(`^it\.`+want+`$`).MatchString(found) || len(found) > 64 {
					t.Errorf("%q is %q, want %s", c.tools[i], found, want)
				}
			}
			slices.Reverse(list) // the order does not matter
			tools, _ = json.Marshal(map[string]any{"tools": list})
			if again := names(started(t, cfg)); !slices.Equal(again, offered) {
				t.Errorf("in another order: %q, before %q", again, offered)
			}
		})
	}
}
