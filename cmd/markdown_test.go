package cmd

import (
	"strings"
	"testing"
)

func TestMarkdown_SameForAnyPieces(t *testing.T) {
	for text, want := range map[string]string{
		"plain 2*3*4\n":             "plain 2*3*4\n",
		"# Big **one**\nx":          "<b>Big <0><b>one<0><b><0>\nx",
		"- a `b` c\n  * d\n":        "• a <0><c>b<0> c\n  • d\n",
		"**bold** and ** not\n":     "<0><b>bold<0> and ** not\n",
		"```go\na **b** # c\n```\n": "<d>```go<0><c>\na **b** # c\n<d>```<0>\n",
		"> quoted\n#no\n*":          "<d>│ <0>quoted\n#no\n*",
		"open **bold\nnext":         "open <0><b>bold<0>\nnext",
		"`code":                     "<0><c>code<0>",
		"1. one\n-":                 "1. one\n-",
	} {
		for size := 1; size <= len(text); size++ {
			var m markdown
			var got strings.Builder
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				got.WriteString(m.render(rest[:min(size, len(rest))]))
			}
			got.WriteString(m.flush())
			named := strings.NewReplacer(plain, "<0>", bold, "<b>", dim, "<d>", cyan, "<c>").Replace(got.String())
			if named != want {
				t.Errorf("%q in pieces of %d:\ngot  %q\nwant %q", text, size, named, want)
				break
			}
		}
	}
}
