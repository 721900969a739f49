package fold_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/fold"
)

func TestPatch_ComparesValuesAsClientsDo(t *testing.T) {
	for _, tt := range []struct {
		doc, want string
		same      bool
	}{
		{`1`, `1.0`, true},
		{`1`, `1e0`, true},
		{`100`, `1E2`, true},
		{`0`, `-0`, true},
		{`1`, `-1`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`[18446744073709551615]`, `[18446744073709551614]`, false},
		{`9007199254740993`, `9007199254740993`, true},
		{`1`, `"1"`, false},
		{`1e999`, `1e999`, true},
		{`"A"`, `"\u0041"`, true},
		{`"a"`, `"A"`, false},
		{`null`, `false`, false},
		{`[]`, `{}`, false},
		{`{}`, `null`, false},
		{`[1,[2]]`, `[1.0,[2]]`, true},
		{`[1,2]`, `[1]`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":1,"b":{"c":[]}}`, `{"b":{"c":[]},"a":1.0}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":1,"a":2}`, `{"a":2}`, true},
		{`{"a":1}`, `{"a":1,"a":2}`, false},
	} {
		doc := json.RawMessage(`{"v":` + tt.doc + `}`)
		for _, before := range []string{``, `{"op":"add","path":"/v/x","value":1},{"op":"remove","path":"/v/x"},`} {
			if before != "" && tt.doc[0] != '{' {
				continue
			}
			_, err := fold.Patched(doc, json.RawMessage(`[`+before+`{"op":"test","path":"/v","value":`+tt.want+`}]`))
			if (err == nil) != tt.same {
				t.Errorf("%s is %s behind %q: %v, want %v", tt.doc, tt.want, before, err, tt.same)
			}
		}
	}
}

func TestPatch_ComparisonCountsEachValue(t *testing.T) {
	const n = 100_000
	forth, back := make([]string, n), make([]string, n)
	for i := range n {
		forth[i] = fmt.Sprintf(`"%d":0`, i)
		back[n-1-i] = forth[i]
	}
	doc := `{"v":{` + strings.Join(forth, ",") + `}}`
	patch := `[{"op":"test","path":"/v","value":{` + strings.Join(back, ",") + `}}]`
	_, err := fold.Patched(json.RawMessage(doc), json.RawMessage(patch))
	if err == nil || !strings.Contains(err.Error(), "too much of the document") {
		t.Errorf("got %v, want that it is too much", err)
	}
}

func TestPatch_IndexHasNoLeadingZero(t *testing.T) {
	for _, patch := range []string{
		`[{"op":"remove","path":"/00"}]`,
		`[{"op":"replace","path":"/01","value":3}]`,
		`[{"op":"add","path":"/02","value":3}]`,
		`[{"op":"copy","path":"/0","from":"/01"}]`,
	} {
		if got, err := fold.Patched(json.RawMessage(`[1,2]`), json.RawMessage(patch)); err == nil {
			t.Errorf("%s made %s", patch, got)
		}
	}
}

func TestMergePatch_CostsNoPatchOfItsOwn(t *testing.T) {
	const n = 20_000
	many := make(map[string]int, n)
	for i := range n {
		many[fmt.Sprint(i)] = i
	}
	patch, _ := json.Marshal(many)
	allocs := testing.AllocsPerRun(1, func() {
		if _, _, err := fold.MergePatch(json.RawMessage(`{}`), patch); err != nil {
			t.Error(err)
		}
	})
	if allocs > 10*n {
		t.Errorf("got %.0f allocations for %d members", allocs, n)
	}
}

func TestMergePatch_TakesManyMembersAtOnce(t *testing.T) {
	const n = 100_000
	many := make(map[string]int, n)
	for i := range n {
		many[fmt.Sprint("k", i)] = i
	}
	patch, _ := json.Marshal(map[string]any{"many": many, "text": strings.Repeat("x", 2_000_000)})
	if _, _, err := fold.MergePatch(json.RawMessage(`{}`), patch); err != nil {
		t.Error(err)
	}
}
