package llmtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// callForms are the calls look{"at":1} and then, in most forms, look{"at":2} or lookup{"at":2}, of the tools look, lookup and now.
func callForms(protocol string) map[string]Form {
	switch protocol {
	case "chat":
		return chatCalls()
	case "responses":
		return responsesCalls()
	case "anthropic":
		return anthropicCalls()
	case "google":
		return googleCalls()
	}
	return ollamaCalls()
}

const (
	one = `look{"at":1}`
	two = `look{"at":2}`
	up  = `lookup{"at":2}`
)

// quoted returns arguments as the member of a function.
func quoted(arguments string) string { return `"arguments":` + strconv.Quote(arguments) }

func chatCalls() map[string]Form {
	a, b := quoted(`{"at":1}`), quoted(`{"at":2}`)
	// chunk is an event with an entry for each of the given members of calls.
	chunk := func(calls ...string) string {
		return delta(`"tool_calls":[{` + strings.Join(calls, "},{") + `}]`)
	}
	f := func(members string) string { return `"function":{` + members + `}` }
	forms := map[string][]string{ // the first elements are the calls
		"pieces":                              {one, up, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":""`)), chunk(`"index":0,` + f(quoted(`{"at"`))), chunk(`"index":0,` + f(quoted(`:1}`))), chunk(`"index":1,"id":"b",` + f(`"name":"lookup",`+b))},
		"one index, empty ids":                {one, two, chunk(`"index":0,"id":"",` + f(`"name":"look",`+a)), chunk(`"index":0,"id":"",` + f(`"name":"look",`+b))},
		"one index, no ids, one chunk":        {one, up, chunk(`"index":0,`+f(`"name":"look",`+a), `"index":0,`+f(`"name":"lookup",`+b))},
		"one index, equal calls, one chunk":   {one, one, chunk(`"index":0,`+f(`"name":"look",`+a), `"index":0,`+f(`"name":"look",`+a))},
		"one index, in pieces":                {one, two, chunk(`"index":0,` + f(`"name":"look","arguments":""`)), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":0,` + f(`"name":"look","arguments":""`)), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`2}`)))},
		"one index, no arguments first":       {"now{}", one, chunk(`"index":0,` + f(`"name":"now"`)), chunk(`"index":0,` + f(`"name":"look"`)), chunk(`"index":0,` + f(a))},
		"one index, empty object first":       {"now{}", one, chunk(`"index":0,` + f(`"name":"now","arguments":"{}"`)), chunk(`"index":0,` + f(`"name":"look",`+a))},
		"one index, ids differ":               {one, two, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a)), chunk(`"index":0,"id":"b",` + f(`"name":"look",`+b))},
		"one index, no names":                 {two, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a)), chunk(`"index":0,` + f(b))},
		"a name in pieces":                    {`lookup{"at":1}`, chunk(`"index":0,"id":"a",` + f(`"name":"look"`)), chunk(`"index":0,` + f(`"name":"up"`)), chunk(`"index":0,` + f(a))},
		"a name in three pieces":              {`lookup{"at":1}`, chunk(`"index":0,"id":"a",` + f(`"name":"lo"`)), chunk(`"index":0,` + f(`"name":"oku"`)), chunk(`"index":0,` + f(`"name":"p",`+a))},
		"a name that grows":                   {`lookup{"at":1}`, chunk(`"index":0,"id":"a",` + f(`"name":"loo"`)), chunk(`"index":0,` + f(`"name":"lookup"`)), chunk(`"index":0,` + f(a))},
		"no index":                            {one, up, chunk(`"id":"a",` + f(`"name":"look","arguments":""`)), chunk(f(quoted(`{"at":`))), chunk(f(quoted(`1}`))), chunk(`"id":"b",` + f(`"name":"lookup","arguments":""`)), chunk(f(b))},
		"no index, no ids":                    {one, up, chunk(f(`"name":"look","arguments":""`)), chunk(f(a)), chunk(f(`"name":"lookup"`)), chunk(f(b))},
		"no index, no ids, one tool":          {one, two, chunk(f(`"name":"look"`)), chunk(f(a)), chunk(f(`"name":"look"`)), chunk(f(b))},
		"no index, no ids, whole":             {one, two, chunk(f(`"name":"look",`+a), f(`"name":"look",`+b))},
		"one id for all":                      {one, up, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a)), chunk(`"index":1,"id":"a",` + f(`"name":"lookup","arguments":""`)), chunk(`"index":1,"id":"a",` + f(b))},
		"one id for all, no index":            {one, two, chunk(`"id":"a",` + f(`"name":"look",`+a)), chunk(`"id":"a",` + f(`"name":"look",`+b))},
		"one id for all, one index":           {one, two, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a)), chunk(`"index":0,"id":"a",` + f(`"name":"look",`+b))},
		"one id for all, no id later":         {one, up, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":""`)), chunk(`"index":1,"id":"a",` + f(`"name":"lookup","arguments":""`)), chunk(`"index":1,` + f(b)), chunk(`"index":0,` + f(a))},
		"an id later":                         {one, chunk(`"index":0,` + f(`"name":"look","arguments":""`)), chunk(`"index":0,"id":"a",` + f(a))},
		"an id at the end":                    {one, chunk(`"index":0,` + f(`"name":"look",`+a)), chunk(`"index":0,"id":"a",` + f(``))},
		"another id in each piece":            {one, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,"id":"b",` + f(quoted(`1`))), chunk(`"index":0,"id":"c",` + f(`"name":"look",`+quoted(`}`)))},
		"a name later":                        {one, chunk(`"index":0,"id":"a",` + f(`"name":""`)), chunk(`"index":0,` + f(`"name":"look",`+a))},
		"a name after the arguments":          {one, chunk(`"index":0,"id":"a",` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":0,` + f(`"name":"look"`))},
		"name and id in each piece":           {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":""`)), chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`1}`))), chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":""`))},
		"name in each piece":                  {one, chunk(`"index":0,` + f(`"name":"look","arguments":""`)), chunk(`"index":0,` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,` + f(`"name":"look",`+quoted(`1}`))), chunk(`"index":0,` + f(`"name":"look","arguments":""`))},
		"an unknown name in each piece":       {`peek{"at":1}`, chunk(`"index":0,"id":"a",` + f(`"name":"peek",`+quoted(`{"at":`))), chunk(`"index":0,"id":"a",` + f(`"name":"peek",`+quoted(`1}`)))},
		"no name":                             {`unnamed{"at":1}`, chunk(`"index":0,"id":"a",` + f(`"name":"",`+a))},
		"no name, no arguments":               {`unnamed{}`, chunk(`"index":0,"id":"a","type":"function",` + f(`"name":null`))},
		"pieces of no call":                   {one, chunk(`"index":3,` + f(`"arguments":"{}"`)), chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a))},
		"an empty object first":               {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":"{}"`)), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`)))},
		"an empty object with the name first": {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":"{}"`)), chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a))},
		"an empty object without id first":    {one, chunk(`"index":0,` + f(`"name":"look","arguments":"{}"`)), chunk(`"index":0,` + f(`"name":"look",`+a))},
		"an empty object as JSON first":       {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":{}`)), chunk(`"index":0,` + f(a))},
		"arguments again":                     {one, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":0,` + f(a))},
		"arguments again with blanks":         {one, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":0,` + f(quoted(`{ "at": 1 }`)))},
		"all again":                           {one, up, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":1,"id":"b",` + f(`"name":"lookup",`+b)), chunk(`"index":0,"id":"a",`+f(`"name":"look",`+a), `"index":1,"id":"b",`+f(`"name":"lookup",`+b))},
		"all again without ids":               {one, chunk(`"index":0,` + f(`"name":"look","arguments":""`)), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":0,` + f(`"name":"look",`+a))},
		"all again in a message":              {one, up, chunk(`"index":0,"id":"a",`+f(`"name":"look",`+a), `"index":1,"id":"b",`+f(`"name":"lookup",`+b)), `{"choices":[{"message":{"tool_calls":[{` + f(`"name":"look",`+a) + `},{` + f(`"name":"lookup",`+b) + `}]},"finish_reason":"stop"}]}`},
		"arguments as JSON":                   {one, up, chunk(`"index":0,"id":"a",`+f(`"name":"look","arguments":{"at":1}`), `"index":1,"id":"b",`+f(`"name":"lookup","arguments":{"at":2}`))},
		"arguments null first":                {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":null`)), chunk(`"index":0,` + f(a))},
		"arguments that grow":                 {one, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"a`))), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(a))},
		"nested arguments":                    {`look{"at":{"at":{"at":{"x":"{\"}"}}}}`, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`{"at":{"x":"{\"}"`))), chunk(`"index":0,` + f(quoted(`}}}}`)))},
		"index as text":                       {one, up, chunk(`"index":"0","id":7,` + f(`"name":"look","arguments":""`)), chunk(`"index":"1","id":8,` + f(`"name":"lookup",`+b)), chunk(`"index":0.0,` + f(a))},
		"indexes with gaps":                   {one, up, chunk(`"index":1,"id":"a",` + f(`"name":"look","arguments":""`)), chunk(`"index":7,"id":"b",` + f(`"name":"lookup"`)), chunk(`"index":7,` + f(b)), chunk(`"index":1,` + f(a))},
		"interleaved":                         {one, up, chunk(`"index":0,"id":"a",`+f(`"name":"look","arguments":""`), `"index":1,"id":"b",`+f(`"name":"lookup","arguments":""`)), chunk(`"index":1,`+f(quoted(`{"at"`)), `"index":0,`+f(quoted(`{"at"`))), chunk(`"index":0,`+f(quoted(`:1}`)), `"index":1,`+f(quoted(`:2}`)))},
		"function_call of old":                {one, delta(`"function_call":{"name":"look","arguments":""}`), delta(`"function_call":{` + quoted(`{"at":`) + `}`), delta(`"function_call":{` + quoted(`1}`) + `}`)},
		"one call that is no list":            {one, delta(`"tool_calls":{"index":0,"id":"a",` + f(`"name":"look",`+a) + `}`)},
		"equal calls":                         {one, one, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+a)), chunk(`"index":1,"id":"b",` + f(`"name":"look",`+a))},
		"no arguments":                        {"now{}", chunk(`"index":0,"id":"a",` + f(`"name":"now","arguments":""`))},
		"two objects in one call":             {two, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":1}{"at":2}`)))},
		"two objects in pieces":               {two, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":""`)), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`1}`))), chunk(`"index":0,` + f(quoted(`{"at":`))), chunk(`"index":0,` + f(quoted(`2}`)))},
		"two objects without id":              {two, chunk(`"index":0,` + f(`"name":"look",`+quoted(`{"at":1}{"at":2}`)))},
		"an object twice in one call":         {one, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at": 1}{"at":1}`)))},
		"function_call as well":               {one, delta(`"tool_calls":[{"index":0,"id":"a",` + f(`"name":"look","arguments":""`) + `}],"function_call":{"name":"look","arguments":""}`), delta(`"tool_calls":[{"index":0,` + f(a) + `}],"function_call":{` + a + `}`)},
		"parameters":                          {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","parameters":{"at":1}`))},
		"args":                                {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":null,"args":{"at":1}`))},
		"input":                               {one, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":"","input":"{\"at\":1}"`))},
		"no function":                         {one, chunk(`"index":0,"id":"a","type":"function","name":"look",` + a)},
		"ids that change":                     {one, up, chunk(`"index":0,"id":"a",` + f(`"name":"look"`)), chunk(`"index":0,"id":"b",` + f(quoted(`{"at"`))), chunk(`"index":0,"id":"c",` + f(quoted(`:1}`))), chunk(`"index":1,"id":"d",` + f(`"name":"lookup"`)), chunk(`"index":1,"id":"e",` + f(quoted(`{"at":`))), chunk(`"index":1,"id":"f",` + f(quoted(`2}`)))},
		"ids that change, no index":           {one, chunk(`"id":"a",` + f(`"name":"look","arguments":""`)), chunk(`"id":"b",` + f(quoted(`{"at"`))), chunk(`"id":"c",` + f(quoted(`:1}`)))},
		"tails under other indexes":           {one, up, chunk(`"index":0,"id":"a",` + f(`"name":"look"`)), chunk(`"index":1,` + f(quoted(`{"at":1}`))), chunk(`"index":2,"id":"b",` + f(`"name":"lookup"`)), chunk(`"index":3,` + f(quoted(`{"at"`))), chunk(`"index":3,` + f(quoted(`:2}`)))},
		"tails with ids under other indexes":  {one, up, chunk(`"index":0,"id":"a",`+f(`"name":"look"`), `"index":1,"id":"b",`+f(`"name":"lookup"`)), chunk(`"index":2,"id":"a",` + f(quoted(`{"at":1}`))), chunk(`"index":3,"id":"b",` + f(quoted(`{"at":2}`)))},
		"an object and more":                  {two, chunk(`"index":0,"id":"a",` + f(`"name":"look",`+quoted(`{"at":1} null {"at":2} []`)))},
		"halves of characters":                {`look{"at":"😀"}`, chunk(`"index":0,"id":"a",` + f(`"name":"look","arguments":"{\"at\":\"\ud83d"`)), chunk(`"index":0,` + f(`"arguments":"\ude00\"}"`))},
	}
	out := make(map[string]Form, len(forms))
	for name, list := range forms {
		var calls []string
		for len(list) > 0 && !strings.HasPrefix(list[0], `{"choices"`) {
			calls, list = append(calls, list[0]), list[1:]
		}
		for _, finish := range []string{"stop", "tool_calls"} {
			end := `{"choices":[{"index":0,"delta":{},"finish_reason":"` + finish + `"}]}`
			out["call: "+name+", "+finish] = Form{Script: Events("chat", append(slices.Clip(list), end, "[DONE]")...), Calls: calls}
		}
	}
	return out
}

func responsesCalls() map[string]Form {
	end := `{"type":"response.completed","response":{"status":"completed"}}`
	added := func(index int, members string) string {
		return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"id":"fc_%d","type":"function_call",%s}}`, index, index, members)
	}
	args := func(index int, piece string) string {
		return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","output_index":%d,"item_id":"fc_%d","delta":%q}`, index, index, piece)
	}
	done := func(index int, members string) string {
		return strings.Replace(added(index, members), ".added", ".done", 1)
	}
	a, b := quoted(`{"at":1}`), quoted(`{"at":2}`)
	form := func(calls []string, data ...string) Form {
		return Form{Script: Events("responses", append(data, end)...), Calls: calls}
	}
	both := []string{one, up}
	return map[string]Form{
		"call: interleaved":       form(both, added(0, `"call_id":"a","name":"look","arguments":""`), added(1, `"call_id":"b","name":"lookup","arguments":""`), args(1, `{"at"`), args(0, `{"at":1}`), args(1, `:2}`), done(0, `"call_id":"a","name":"look",`+a), done(1, `"call_id":"b","name":"lookup",`+b)),
		"call: no pieces":         form(both, done(0, `"call_id":"a","name":"look",`+a), done(1, `"call_id":"b","name":"lookup",`+b)),
		"call: no beginning":      form(both, args(0, `{"at":1}`), args(1, `{"at":`), args(1, `2}`), done(0, `"call_id":"a","name":"look",`+a), done(1, `"call_id":"b","name":"lookup",`+b)),
		"call: no call_id":        form([]string{one, one}, added(0, `"name":"look"`), args(0, `{"at":1}`), added(1, `"name":"look"`), args(1, `{"at":1}`)),
		"call: lost pieces":       form(both, added(0, `"call_id":"a","name":"look"`), args(0, `{"at":`), `{"type":"response.function_call_arguments.done","output_index":0,`+a+`}`, added(1, `"call_id":"b","name":"lookup"`), done(1, `"call_id":"b","name":"lookup",`+b)),
		"call: equal ids":         form(both, done(0, `"call_id":"a","name":"look",`+a), done(1, `"call_id":"a","name":"lookup",`+b)),
		"call: arguments as JSON": form(both, added(0, `"call_id":"a","name":"look","arguments":{}`), done(0, `"call_id":"a","name":"look","arguments":{"at":1}`), done(1, `"call_id":"b","name":"lookup",`+b)),
		"call: no index": form([]string{one}, `{"type":"response.output_item.added","item":{"id":"f","type":"function_call","call_id":"a","name":"look","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"f","delta":"{\"at\":"}`, `{"type":"response.function_call_arguments.delta","item_id":"f","delta":"1}"}`,
			`{"type":"response.output_item.done","item":{"id":"f","type":"function_call","call_id":"a","name":"look",`+a+`}}`),
		"call: ids that change": form(both, added(0, `"call_id":"a","name":"look"`), strings.Replace(args(0, `{"at":1}`), "fc_0", "fc_x", 1), added(1, `"call_id":"b","name":"lookup"`), strings.Replace(args(1, `{"at":2}`), "fc_1", "fc_y", 1),
			strings.Replace(done(0, `"call_id":"a","name":"look",`+a), "fc_0", "fc_z", 1)),
		"call: arguments before the next name": form(both, added(0, `"call_id":"a","name":"look",`+a), args(1, `{"at":2}`), done(1, `"call_id":"b","name":"lookup"`)),
		"call: only arguments done":            form(both[:1], added(0, `"call_id":"a","name":"look"`), `{"type":"response.function_call_arguments.done",`+a+`}`),
		"call: empty object first":             form([]string{one}, added(0, `"call_id":"a","name":"look","arguments":"{}"`), args(0, `{"at":1}`), done(0, `"call_id":"a","name":"look",`+a)),
	}
}

func anthropicCalls() map[string]Form {
	start := func(index, members string) string {
		return `{"type":"content_block_start",` + index + `"content_block":{"type":"tool_use",` + members + `}}`
	}
	args := func(index, piece string) string {
		return `{"type":"content_block_delta",` + index + `"delta":{"type":"input_json_delta","partial_json":` + strconv.Quote(piece) + `}}`
	}
	stop := func(index string) string {
		return `{"type":"content_block_stop",` + strings.TrimSuffix(index, ",") + `}`
	}
	form := func(calls []string, data ...string) Form {
		data = append([]string{`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`}, data...)
		return Form{Script: Events("anthropic", append(data, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`, `{"type":"message_stop"}`)...), Calls: calls}
	}
	const i0, i1 = `"index":0,`, `"index":1,`
	a, b := `"id":"a","name":"look","input":{}`, `"id":"b","name":"lookup","input":{}`
	both := []string{one, up}
	return map[string]Form{
		"call: interleaved":                 form(both, start(i0, a), start(i1, b), args(i1, `{"at"`), args(i0, `{"at":1}`), args(i1, `:2}`), stop(i1), stop(i0)),
		"call: no stop":                     form(both, start(i0, a), args(i0, `{"at":1}`), start(i1, b), args(i1, `{"at":2}`)),
		"call: input at once":               form(both, start(i0, `"id":"a","name":"look","input":{"at":1}`), start(i1, `"id":"b","name":"lookup","input":{"at":2}`)),
		"call: input at once and in pieces": form(both[:1], start(i0, `"id":"a","name":"look","input":{"at":1}`), args(i0, `{"at"`), args(i0, `:1}`), stop(i0)),
		"call: input as text":               form(both[:1], start(i0, `"id":"a","name":"look","input":"{\"at\":1}"`), stop(i0)),
		"call: pieces first":                form(both[:1], args(i0, `{"at":`), start(i0, a), args(i0, `1}`), stop(i0)),
		"call: no index":                    form(both, start("", a), args("", `{"at":1}`), `{"type":"content_block_stop"}`, start("", b), args("", `{"at":2}`)),
		"call: one index":                   form(both, start(i0, a), args(i0, `{"at":1}`), stop(i0), start(i0, b), args(i0, `{"at":2}`), stop(i0)),
		"call: one index, no ids":           form([]string{"now{}", "now{}", one}, start(i0, `"name":"now"`), stop(i0), start(i0, `"name":"now","input":{}`), stop(i0), start(i0, `"name":"look"`), args(i0, `{"at":1}`)),
		"call: equal ids":                   form(both, start(i0, a), args(i0, `{"at":1}`), start(i1, `"id":"a","name":"lookup"`), args(i1, `{"at":2}`)),
		"call: empty object first":          form(both[:1], start(i0, a), args(i0, `{}`), args(i0, `{"at":1}`), stop(i0)),
		"call: of the server":               form(both[:1], `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`, args(i0, `{"q":1}`), stop(i0), start(i1, a), args(i1, `{"at":1}`), stop(i1)),
		"call: two objects":                 form([]string{two}, start(i0, a), args(i0, `{"at":1}`), args(i0, `{"at":2}`), stop(i0)),
		"call: arguments":                   form(both[:1], start(i0, `"id":"a","name":"look","arguments":{"at":1}`)),
		"call: input as objects":            form(both[:1], start(i0, a), `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":{"at":1}}}`),
	}
}

func googleCalls() map[string]Form {
	call := func(members string) string { return `{"functionCall":{` + members + `}}` }
	chunk := func(parts ...string) string {
		return `{"candidates":[{"content":{"parts":[` + strings.Join(parts, ",") + `]}}]}`
	}
	form := func(calls []string, data ...string) Form {
		return Form{Script: Events("google", append(data, `{"candidates":[{"finishReason":"STOP"}]}`)...), Calls: calls}
	}
	a, b := `"name":"look","args":{"at":1}`, `"name":"lookup","args":{"at":2}`
	both := []string{one, up}
	return map[string]Form{
		"call: two parts":      form(both, chunk(call(a), call(b))),
		"call: two candidates": form(both, `{"candidates":[{"content":{"parts":[`+call(a)+`]}},{"index":1,"content":{"parts":[`+call(b)+`]}}]}`),
		"call: again":          form(both, chunk(call(`"id":"a",`+a)), chunk(call(`"id":"a",`+a)), chunk(call(`"id":"b",`+b))),
		"call: equal ids":      form(both, chunk(call(`"id":"a",`+a), call(`"id":"a",`+b))),
		"call: equal calls":    form([]string{one, one}, chunk(call(a), call(a))),
		"call: args null":      form([]string{"now{}", "now{}"}, chunk(call(`"name":"now","args":null`)), chunk(call(`"name":"now"`))),
		"call: args as text":   form(both[:1], chunk(call(`"name":"look","args":"{\"at\":1}"`))),
		"call: arguments":      form(both[:1], chunk(call(`"name":"look","arguments":{"at":1}`))),
		"call: no name":        form([]string{`unnamed{"at":1}`}, chunk(call(`"args":{"at":1}`))),
	}
}

func ollamaCalls() map[string]Form {
	line := func(calls ...string) string {
		return `{"message":{"content":"","tool_calls":[{` + strings.Join(calls, "},{") + `}]},"done":false}`
	}
	f := func(members string) string { return `"function":{` + members + `}` }
	form := func(calls []string, data ...string) Form {
		return Form{Script: Events("ollama", append(data, `{"message":{"content":""},"done":true,"done_reason":"stop"}`)...), Calls: calls}
	}
	a, b := `"name":"look","arguments":{"at":1}`, `"name":"lookup","arguments":{"at":2}`
	both := []string{one, up}
	return map[string]Form{
		"call: one line":          form(both, line(f(a), f(b))),
		"call: index in function": form(both, line(f(`"index":0,`+a)), line(f(`"index":0,`+b))),
		"call: arguments as text": form(both, line(f(`"name":"look","arguments":"{\"at\":1}"`)), line(f(b))),
		"call: equal calls":       form([]string{one, one}, line(f(a)), line(f(a))),
		"call: equal ids":         form(both, line(`"id":"a",`+f(a)), line(`"id":"a",`+f(b))),
		"call: parameters":        form(both[:1], line(f(`"name":"look","parameters":{"at":1}`))),
		"call: with the end":      {Script: Events("ollama", `{"message":{"tool_calls":[{`+f(a)+`}]},"done":true,"done_reason":"stop"}`), Calls: both[:1]},
		"call: no arguments":      form([]string{"now{}", "now{}", "now{}"}, line(f(`"name":"now"`)), line(f(`"name":"now","arguments":null`)), line(f(`"name":"now","arguments":{}`))),
	}
}
