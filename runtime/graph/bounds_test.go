package graph_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/graph"
)

// A schema of a few lines can make a validator run for years, at each level of the schema or of the arguments. A single
// pattern, number or long text can cost as much as a thousand ordinary ones.
func TestSet_FitArgsBoundsWork(t *testing.T) {
	var wide, deep strings.Builder
	wide.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 200 {
		fmt.Fprintf(&wide, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	wide.WriteString(`"a200":{"type":"object"}}}`)
	deep.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 1000 {
		fmt.Fprintf(&deep, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	deep.WriteString(`"a1000":{"properties":{"a":{"$ref":"#"}}}}}`)
	nested := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	many := func(text string, n int) string { return strings.Repeat(text+",", n-1) + text }
	refs := `{"$ref":"#/$defs/a"}`
	for name, c := range map[string]struct{ schema, args, want string }{
		"wide":             {wide.String(), nested, "takes too long"},
		"deep":             {deep.String(), nested, "takes too long"},
		"draft 7":          {strings.Replace(wide.String(), "{", `{"$schema":"http://json-schema.org/draft-07/schema#",`, 1), nested, "takes too long"},
		"each level":       {`{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}}}]}`, nested, "takes too long"},
		"large numbers":    {`{"properties":{"a":{"items":{"type":"integer"}}}}`, `{"a":[` + many("1e999999", 10_000) + `]}`, "out of range"},
		"small numbers":    {`{"properties":{"a":{"items":{"multipleOf":1}}}}`, `{"a":[` + many("1e-999999", 10_000) + `]}`, "out of range"},
		"long numbers":     {`{"properties":{"a":{"items":{"multipleOf":1}}}}`, `{"a":[` + many(strings.Repeat("9", 50_000), 20) + `]}`, "out of range"},
		"deep values":      {`{}`, strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "too deeply"},
		"a slow pattern":   {`{"properties":{"a":{"pattern":"(x.{0,900}){1}y"}}}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "takes too long"},
		"patterns of keys": {`{"patternProperties":{"(x.{0,900}){1}y":{}}}`, `{"` + strings.Repeat("x", 1<<20) + `":1}`, "takes too long"},
		"long texts":       {`{"properties":{"a":{"$defs":{},"allOf":[` + many(refs, 2_000) + `]}},"$defs":{"a":{"maxLength":9999999}}}`, `{"a":"` + strings.Repeat("é", 1<<19) + `"}`, "takes too long"},
		"long lists":       {`{"properties":{"a":{"allOf":[` + many(refs, 2_000) + `]}},"$defs":{"a":{"uniqueItems":true}}}`, `{"a":[` + many("[]", 2) + `,` + many("1.0000000000", 50_000) + `]}`, "takes too long"},
		"crowded lists":    {`{}`, `{"a":[` + many("{}", 1_000_000) + `]}`, "more values"},
		"long choices":     {`{"properties":{"a":{"anyOf":[` + many(refs, 2_000) + `]}},"$defs":{"a":{"enum":[` + many("1.5", 50_000) + `]}}}`, `{"a":1}`, "takes too long"},
	} {
		if err := check(c.schema, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %q", name, err, c.want)
		}
	}
}

// Schemas that take too long to compile are refused, and the client checks its tool's arguments.
func TestClientTools_BoundCompilation(t *testing.T) {
	var patterns strings.Builder
	for i := range 4_000 {
		fmt.Fprintf(&patterns, `"%da{1000}":{},`, i)
	}
	schemas := map[string]string{
		"parts":          `{"allOf":[` + strings.Repeat(`{},`, 50_000) + `{}]}`,
		"patterns":       `{"patternProperties":{` + patterns.String() + `"x":{}}}`,
		"one pattern":    `{"pattern":"` + strings.Repeat(`(a{1000})`, 20_000) + `"}`,
		"a large number": `{"items":{"multipleOf":1e-999999}}`,
	}
	for name, schema := range schemas {
		before := new(runtime.MemStats)
		runtime.ReadMemStats(before)
		var tools graph.ClientTools
		if _, err := tools.Fit(json.RawMessage(schema), json.RawMessage(`{}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after := new(runtime.MemStats)
		runtime.ReadMemStats(after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: compiling %d bytes of schema took %d MiB", name, len(schema), took>>20)
		}
	}
}
