package expression_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/expression"
)

var names = types.Map{"query": types.String, "state": types.Map{types.Extra: types.Any}, "gone": types.Any}

// decoded returns the variables of a test.
func decoded(tb testing.TB, query, state string) map[string]any {
	tb.Helper()
	v, err := expression.Decode([]byte(state))
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]any{"query": query, "state": v, "gone": nil}
}

// result evaluates an expression and encodes its value.
func result(code string, env map[string]any, vars map[string]string) (string, error) {
	p, err := expression.Compile(code, names, false, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil {
		return "", err
	}
	v, err := p.Run(context.Background(), env)
	if err != nil {
		return "", err
	}
	raw, err := expression.Encode(v)
	return string(raw), err
}

// The library's own evaluator decides what an expression without large integers means.
func TestProgram_AgreesWithLibrary(t *testing.T) {
	env := decoded(t, "what is it", `{"n":3,"f":2.5,"list":[3,1,2,1],"people":[{"name":"ann","age":30,"on":true},{"name":"bob","age":20,"on":false}],"deep":{"a":{"b":[1,{"c":"x"}]}},"t":"a,b,,c"}`)
	for _, code := range []string{
		`1 + 2 * 3 - 4 / 2`, `7 % 3`, `2 ** 10`, `-state.n`, `state.f * 2`, `1 < 2.5 and 3 >= state.n`, `not (1 == 1.0)`, `"a" < "b"`, `"a" + query`,
		`state.n == 3 ? "yes" : "no"`, `if state.n > 5 {1} else {2}`, `state.missing`, `state.missing?.x.y`, `state.deep.a.b[1].c`, `state.deep?.a?.b?.[0]`, `state["n"]`,
		`state.missing ?? 7`, `state.list[1:3]`, `query[:4]`, `query[-2:]`, `state.list[-1]`, `state.list[state.f]`, `1..4`, `3..1`, `3 in state.list`, `"n" in state`, `9 not in 1..3`,
		`query matches "^wh.t"`, `query contains "is"`, `query startsWith "x"`, `query endsWith "it"`, `gone matches "x"`,
		`let x = 2; let y = x + 1; x * y`, `1; 2; 3`, `{"a": 1, b: [nil, true]}`, `[]`, `{}`,
		`all(state.people, .on)`, `none(state.people, .age > 40)`, `any(state.people, .on)`, `one(state.people, .on)`, `filter(state.people, .age < 25)`,
		`map(state.people, .name + "!")`, `find(state.people, .age == 20)`, `findIndex(state.list, # == 2)`, `findLast(state.list, # == 1)`, `findLastIndex(state.list, # == 1)`,
		`count(state.people, .on)`, `sum(state.list)`, `sum(state.people, .age)`, `sortBy(state.people, .age)`, `sortBy(state.people, .name, "desc")`, `reduce(state.list, #acc + #)`,
		`reduce(state.list, #acc + # * #index, 10)`, `map(state.list, # * 2) | filter(# > 2) | sum()`, `groupBy(state.people, .on)[true][0].name`,
		`map(state.people, map(state.list, # + 1))`, `filter(state.list, let x = #; x > 1)`,
		`len(query)`, `len("äö")`, `len(state.list)`, `len(state)`, `type(state.list)`, `type(1.5)`, `type("")`, `abs(-3)`, `abs(-2.5)`, `ceil(2.1)`, `floor(2.9)`, `round(2.5)`, `int("42")`, `int(2.9)`,
		`float("1.5")`, `string(12)`, `string(true)`, `string(nil)`, `trim("  x ")`, `trim("--x-", "-")`, `trimPrefix("abc", "a")`, `trimSuffix("abc", "c")`, `upper("aß")`, `lower("ÄB")`,
		`split(state.t, ",")`, `split(state.t, ",", 2)`, `splitAfter(state.t, ",")`, `split("abc", "")`, `replace(state.t, ",", "; ")`, `replace("aaa", "a", "b", 2)`, `replace("ab", "", "-")`, `repeat("ab", 3)`,
		`join(["a", "b"], "-")`, `join(split(state.t, ","))`, `indexOf("abc", "c")`, `lastIndexOf("abca", "a")`, `hasPrefix("abc", "ab")`, `hasSuffix("abc", "bc")`,
		`max(1, 3.5, state.list)`, `min(state.list)`, `mean(state.list)`, `median(1, 2, 3, 4)`, `toJSON({"a": [1, {}, []], "b": "\"[{:,"})`, `fromJSON('{"a":[1,2.5,"x"]}').a`, `toBase64("hi")`, `fromBase64("aGk=")`,
		`first(state.list)`, `last(state.list)`, `first([])`, `get(state, "n")`, `get(state.list, 9)`, `take(state.list, 2)`, `keys({"b": 1})`, `values({"b": 1})`, `toPairs({"b": 1})`, `fromPairs([["a", 1]]).a`,
		`reverse(state.list)`, `uniq(state.list)`, `concat([1], [2, 3])`, `flatten([1, [2, [3]]])`, `sort(state.list)`, `sort(["b", "a"], "desc")`, `bitand(6, 3)`, `bitshl(1, 4)`,
		`date("2026-01-02").Year()`, `date("2026-01-02").Format("02.01.2006")`, `duration("90s").Minutes()`, `date("2026-01-02") < date("2026-01-03")`, `string(date("2026-01-03") - date("2026-01-02") == duration("24h"))`,
		`date("2026-01-02") == date("2026-01-02")`,
	} {
		program, err := expr.Compile(code, expr.Env(names))
		if err != nil {
			t.Errorf("%s: %v", code, err)
			continue
		}
		v, err := expr.Run(program, env)
		if err != nil {
			t.Errorf("%s: %v", code, err)
		}
		raw, _ := json.Marshal(v)
		var want, have any
		got, err := result(code, env, nil)
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Errorf("%s: %v", code, err)
		}
		if err != nil || json.Unmarshal([]byte(got), &have) != nil || !cmp.Equal(want, have) {
			t.Errorf("%s: got %s, %v, want %s", code, got, err, raw)
		}
	}
}

func TestProgram_ComputesIntegersExactly(t *testing.T) {
	env := decoded(t, "", `{"n":1234567,"id":9007199254740993,"ids":[9007199254740992,9007199254740993],"u":18446744073709551615,"big":123456789012345678901234567890,"f":1234567.5,"e":1e3,"huge":1e999,"min":-9223372036854775808}`)
	for code, want := range map[string]string{
		`string(state.n)`: `"1234567"`, `string(1234567)`: `"1234567"`, `string(state.f)`: `"1234567.5"`, `string(state.n * 1.0)`: `"1234567"`, `"id " + string(state.id)`: `"id 9007199254740993"`,
		`state.id`: `9007199254740993`, `{"id": state.id, "u": state.u, "big": state.big}`: `{"big":123456789012345678901234567890,"id":9007199254740993,"u":18446744073709551615}`,
		`[state.huge, state.e, 1.5]`: `[1e999,1000,1.5]`, `toJSON(state.u)`: `"18446744073709551615"`, `string([state.u])`: `"[18446744073709551615]"`, `fromJSON("[9007199254740993]")`: `[9007199254740993]`,
		`state.id == 9007199254740992`: `false`, `state.id == 9007199254740993`: `true`, `state.id == state.ids[1]`: `true`, `state.id in [9007199254740992]`: `false`, `state.id in state.ids`: `true`,
		`state.id > 9007199254740992`: `true`, `state.id == 9007199254740992.0`: `false`, `state.id > 9007199254740992.0`: `true`, `9007199254740992 == 9007199254740992.0`: `true`, `1 == 1.0`: `true`,
		`state.u == state.u`: `true`, `state.u == 18446744073709551615.0`: `false`, `state.u > 9223372036854775807`: `true`, `state.u - 1 == state.u`: `false`, `state.big > state.u`: `true`, `1 < state.big`: `true`,
		`state.id + 0`: `9007199254740993`, `state.id - 1`: `9007199254740992`, `state.id * 3`: `27021597764222979`, `state.id % 10`: `3`, `-state.id`: `-9007199254740993`, `-state.min`: `9223372036854775808`,
		`9223372036854775807 + 1`: `9223372036854775808`, `state.u + 1`: `18446744073709551616`, `4294967296 * 4294967296`: `18446744073709551616`, `state.u - state.u`: `0`, `abs(state.min)`: `9223372036854775808`,
		`round(state.id)`: `9007199254740993`, `int(state.id)`: `9007199254740993`, `int("9007199254740993")`: `9007199254740993`, `int("18446744073709551615")`: `18446744073709551615`, `max(state.ids)`: `9007199254740993`,
		`min(state.ids)`: `9007199254740992`, `sum(state.ids)`: `18014398509481985`, `sort([state.ids[1], state.ids[0]])`: `[9007199254740992,9007199254740993]`, `uniq(state.ids)`: `[9007199254740992,9007199254740993]`,
		`type(state.u)`: `"int"`, `map(state.ids, # + 1)`: `[9007199254740993,9007199254740994]`, `find(state.ids, # == 9007199254740993)`: `9007199254740993`, `state.ids[0] != state.ids[1]`: `true`,
	} {
		if got, err := result(code, env, nil); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", code, got, err, want)
		}
	}
}

// grown evaluates an expression and returns the bytes that it allocated.
func grown(code string, env map[string]any) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := result(code, env, nil)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// mostAllocated is the memory that an evaluation of MaxBytes may take: its own accounting is by the size of values, in two
// parts, the value and its encoding, and buffers grow by doubling.
const mostAllocated = 12 * expression.MaxBytes

func TestProgram_BoundsBytesAndSteps(t *testing.T) {
	env := decoded(t, strings.Repeat("{name} ", 1<<18), `{"name":"`+strings.Repeat("x", 1<<15)+`","big":[`+strings.Repeat(strings.Repeat("7", 301)+",", 1499)+`1],"list":[`+strings.Repeat("1,", 9999)+`1],"nested":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`)
	const doubled = `let a = [1,1]; let b = [a,a,a,a,a,a,a,a]; let c = [b,b,b,b,b,b,b,b]; let d = [c,c,c,c,c,c,c,c]; let e = [d,d,d,d,d,d,d,d]; let f = [e,e,e,e,e,e,e,e]; let g = [f,f,f,f,f,f,f,f]; let h = [g,g,g,g,g,g,g,g]; let i = [h,h,h,h,h,h,h,h]; `
	for _, code := range []string{
		`replace(query, '{name}', state.name)`, `replace(query, "", state.name)`, `repeat(query, 1000000)`, `repeat("x", 9223372036854775807)`, `join(map(1..1000, query), "")`, `join(map(1..1000, "x"), query)`,
		`query + query + query + query + query + query + query + query + query + query`, `reduce(1..64, #acc + #acc, "x")`, `reduce(1..1000, #acc + query, "")`, `map(1..1000, query + string(#))`, `map(1..1000, upper(query))`,
		`map(1..1000, lower(query))`, `map(1..1000, split(query, ""))`, `map(1..1000, splitAfter(query, " "))`, `map(1..1000, toJSON(query))`, `map(1..1000, [query])`, `map(1..1000, {"a": query})`, `map(1..1000, toBase64(query))`,
		`map(1..1000, fromBase64(toBase64(query)))`, `map(1..1000, string([query]))`, `map(1..1000, date("2026-01-01").Format(query))`, `map(1..1000, concat(state.list, state.list))`, `1..100000000`, `1..9223372036854775807`,
		`-9223372036854775807..9223372036854775807`, `map(1..1000, 1..10000)`, `map(1..1000, state.list)`, `map(1..1000, reverse(state.list))`, `map(1..1000, sort(state.list))`, `map(1..1000, filter(state.list, true))`,
		`map(1..1000, map(state.list, #))`, `map(1..1000, groupBy(state.list, #))`, `map(1..1000, sortBy(state.list, #))`, `map(1..1000000, toPairs({"a": 1}))`,
		`count(state.list, any(state.list, count(state.list, # > 1) > 1))`, `count(1..1000000, len(query) > 1)`, `count(state.list, query contains "y")`, `count(state.list, query matches "(x.{0,900}){1}y")`, `count(state.list, query == query + "")`,
		`count(state.list, trim(query, query[0:1000]) == "")`, `uniq(map(1..100000, #))`, `map(1..100000, # in 1..100000)`, `reduce(1..1000000, [#acc], 1)`, `reduce(1..20000, {"a": #acc}, 1)`, `reduce(1..20000, [#acc], 1) == reduce(1..20000, [#acc], 1)`,
		`flatten(reduce(1..20000, [#acc], 1))`, `max(reduce(1..20000, [#acc], 1))`, `toJSON(map(1..1000, state.nested))`, `toJSON(state.nested)`, `sort(map(1..100000, query[0:# + 1000000]))`, `sortBy(1..100000, query[0:# + 1000000])`,
		doubled + `i`, doubled + `string(i)`, doubled + `toJSON(i)`, doubled + `flatten(i)`, doubled + `i == [h,h,h,h,h,h,h,h]`, doubled + `max(i)`, doubled + `mean(i)`, doubled + `median(i)`, doubled + `[i] in [[i]]`,
		`fromJSON("[" + repeat("[],", 1000000) + "1]")`, `fromJSON("[" + repeat("{},", 1000000) + "1]")`, `map(1..1000, fromJSON(toJSON(state.list)))`, `reduce(1..64, #acc * #acc, 7)`, `map(1..1000000, "a" matches "(.{1000}){1}")`,
		`query matches '(a.{0,400}b|c.{0,400}d){1,2}e'`, `count(state.big, count(state.big, # < state.big[0]) > 1)`, `len(uniq(map(1..1000000, state.big[# % 1499])))`, `sort(map(1..100000, state.big[# % 1499]))`,
		`map(1..300000, "\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001")`, `count(1..1000000, groupBy([query], #) == nil)`, `map(state.list, date(query))`, `map(1..100000, state.list[0:5000] == state.list[1:5001])`,
	} {
		if bytes, err := grown(code, env); err == nil || bytes > mostAllocated {
			t.Errorf("%s: %.100v, and %d MiB", code[max(0, len(code)-100):], err, bytes>>20)
		}
	}
	for code, want := range map[string]string{ // much, but not too much
		`len(join(map(1..1000, state.name[0:10000]), ""))`: `10000000`, `len(replace(query, "{name}", state.name[0:50]))`: `13369344`, `count(1..100000, # % 2 == 0)`: `50000`, `count(state.list, count(state.list[0:100], # == 1) == 100)`: `10000`,
		`len(string(map(state.list, # * 2)))`: `20001`, `len(query)`: `1835008`,
	} {
		if got, err := result(code, env, nil); got != want || err != nil {
			t.Errorf("%s: %s, %v", code, got, err)
		}
	}
}

// ending is a context that is done after some looks at it.
type ending struct {
	context.Context
	looks int
}

func (c *ending) Done() <-chan struct{} { return nil }

func (c *ending) Err() error {
	if c.looks--; c.looks >= 0 {
		return nil
	}
	return context.Canceled
}

// A long evaluation ends with its context, whatever it is at; that is no error of the expression.
func TestProgram_EndsWithContext(t *testing.T) {
	env := decoded(t, strings.Repeat("{name} ", 1<<18), `{"list":[`+strings.Repeat("1,", 9999)+`1]}`)
	for _, code := range []string{
		`count(state.list, count(state.list, # > 2) > 1)`, `map(1..1000, count(state.list, # > 2))`, `reduce(1..200000, #acc + #, 0)`, `map(1..10000, query contains "y")`,
		`map(state.list, query matches "x.*y")`, `map(1..1000, sort(state.list))`, `map(1..1000, replace(query, "{x}", ""))`,
	} {
		program, err := expression.Compile(code, names, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, looks := range []int{0, 1} {
			ctx := &ending{t.Context(), looks}
			if v, err := program.Run(ctx, env); !errors.Is(err, context.Canceled) || ctx.looks < -2 {
				t.Errorf("%s after %d looks: %.100v, %v, %d looks later", code, looks, v, err, -ctx.looks)
			}
		}
	}
}

func TestCompile_ResolvesVariablesAfterParsing(t *testing.T) {
	env := decoded(t, "q", `{"k":"v","a\"b":1}`)
	vars := map[string]string{"NAME": `a"b`, "BACK": `\n'`, "CODE": `" + query + "`, "A": "1", "AB": "2", "PATTERN": "^q$", "K": "k"}
	for code, want := range map[string]string{
		`${NAME}`: `"a\"b"`, `"<${NAME}>"`: `"<a\"b>"`, `'${BACK}'`: `"\\n'"`, "`${BACK}`": `"\\n'"`, `"${CODE}"`: `"\" + query + \""`, `${CODE} + "!"`: `"\" + query + \"!"`, `state[${NAME}]`: `1`, `state["${K}"]`: `"v"`,
		`{"${K}": 1, k2: ${K}}`: `{"k":1,"k2":"k"}`, `"$${NAME} $5 ${A}${AB}"`: `"${NAME} $5 12"`, `query matches ${PATTERN}`: `true`, `query matches "${PATTERN}"`: `true`, `1 // ${UNSET}`: `1`, `len("${K}é${K}")`: `3`, `[1, 2] | map("${K}")`: `["k","k"]`,
	} {
		if got, err := result(code, env, vars); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", code, got, err, want)
		}
	}
	for _, code := range []string{`${UNSET}`, `"${UNSET}"`, `state["${UNSET}"]`, `map([1], "${UNSET}")`} {
		if _, err := result(code, env, vars); err == nil || err.Error() != "the environment variable UNSET is not set" {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// An error is shown to users, and the log has it: it has no values, neither of variables nor of the run.
func TestProgram_ErrorsHaveNoValues(t *testing.T) {
	const secret = "hunter2" // also a part of each value
	env := decoded(t, secret, `{"k":"`+secret+`","`+secret+`":{"n":1},"list":[1]}`)
	vars := map[string]string{"KEY": secret, "PATTERN": secret + "("}
	for code, want := range map[string]string{
		`int("${KEY}")`: "invalid argument for int (type string) (1:1)", `int(query)`: "", `float(${KEY})`: "", `date("${KEY}")`: "", `duration(${KEY})`: "", `timezone(${KEY})`: "", `fromJSON(${KEY})`: "", `fromBase64(${KEY} + "!")`: "",
		`"a" matches ${PATTERN}`: "no regular expression (1:5)", `"a" matches "${PATTERN}"`: "", `state.k.x`: "cannot fetch x from string (1:9)", `state.k[${KEY}]`: "", `state.list[${KEY}]`: "cannot fetch an element from array (1:11)",
		`state[${KEY}].n.m`: "cannot fetch m from int (1:17)", `state.k + 1`: "invalid operation: string + int (1:9)", `state.k < 1`: "", `state.k - 1`: "", `${KEY} > 1`: "", `${KEY} && true`: "", `${KEY}(`: "${KEY}", `${KEY}.x`: "", `foo(${KEY})`: "unknown name foo",
		`date("2026-01-01", ${KEY})`: "", `[1] | sort(${KEY})`: "", `${KEY} in "${KEY}"`: "", `state.list[7]`: "", `1 % 0`: "", `date("2026-01-01").AddDate(${KEY}, 1, 1)`: "", `sum([state.k])`: "", `{"a": 1}[${KEY}].x`: "", `unknown + "${KEY}"`: "unknown + \"${KEY}\"",
	} {
		_, err := result(code, env, vars)
		if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "ꟺ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", code, err, want)
		}
	}
}

// piece appends an expression that the data choose.
func piece(b *strings.Builder, data []byte, depth int) []byte {
	atoms := []string{`query`, `state.list`, `state.name`, `state.nested`, `"x"`, `""`, `1`, `2.5`, `100000`, `1..1000`, `nil`, `#`, `#acc`, `state`, `[query, query]`, `true`}
	forms := []string{
		`%s + %s`, `%s * %s`, `replace(%s, "", %s)`, `repeat(%s, 100000)`, `join(%s, %s)`, `map(%s, %s)`, `filter(%s, %s)`, `reduce(%s, [#acc, %s, #acc], 1)`, `reduce(%s, #acc + #acc + %s, "")`, `[%s, %s, %s]`, `{"a": %s, "b": %s}`,
		`let v = %s; [v, v, v, %s]`, `split(%s, "")`, `toJSON(%s)`, `fromJSON(%s)`, `string(%s)`, `flatten(%s)`, `concat(%s, %s)`, `uniq(%s)`, `sort(%s)`, `sortBy(%s, %s)`, `groupBy(%s, %s)`, `%s == %s`, `%s in %s`, `count(%s, %s == nil)`,
		`%s matches "(a.{0,90})+b"`, `upper(%s)`, `toBase64(%s)`, `values(%s)`, `toPairs(%s)`, `max(%s)`, `median(%s)`, `reverse(%s)`, `%s[0:1000]`, `%s ?? %s`, `%s ? %s : %s`, `date("2026-01-01").Format(%s)`, `trim(%s, %s)`, `1..len(%s)`, `sum(%s, %s)`,
	}
	if len(data) == 0 || depth > 6 {
		b.WriteString(atoms[depth%len(atoms)])
		return data
	}
	n := int(data[0])
	if data = data[1:]; n < 64 {
		b.WriteString(atoms[n%len(atoms)])
		return data
	}
	b.WriteByte('(')
	for i, part := range strings.Split(forms[n%len(forms)], "%s") {
		if i > 0 {
			data = piece(b, data, depth+1)
		}
		b.WriteString(part)
	}
	b.WriteByte(')')
	return data
}

func FuzzProgram_Bounds(f *testing.F) {
	for i := range 40 {
		f.Add([]byte{byte(64 + i), byte(100 + i), 2, byte(70 + 3*i), 9, byte(200 - i), 1, 0})
	}
	env := decoded(f, strings.Repeat("ab ", 1<<19), `{"name":"`+strings.Repeat("x", 1<<15)+`","list":[`+strings.Repeat(`"é",`, 9999)+`1],"nested":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		var b strings.Builder
		piece(&b, data, 0)
		bytes, err := grown(b.String(), env)
		if bytes > mostAllocated {
			t.Errorf("%s allocates %d MiB: %.100v", b.String(), bytes>>20, err)
		}
	})
}

func ExampleCompile() {
	program, err := expression.Compile(`"order " + string(state.id)`, types.Map{"state": types.Any}, false, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, _ := expression.Decode([]byte(`{"id": 9007199254740993}`))
	fmt.Println(program.Run(context.Background(), map[string]any{"state": state}))
	// Output: order 9007199254740993 <nil>
}
