package wire_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// FuzzCall_AnyCut cuts the calls of an answer anywhere, and leaves out, delays, repeats or mixes the members of their parts as
// servers do. The calls are those of the uncut answer, and their preview is a part of them.
func FuzzCall_AnyCut(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var want []string
		queues := cut(rng, &want)
		shown := map[int]string{}
		names := []llms.Tool{}
		for _, name := range tools {
			names = append(names, llms.Tool{Function: &llms.FunctionDefinition{Name: name}})
		}
		a := (&wire.Endpoint{Provider: "p"}).Answer(llm.Request{Options: llms.CallOptions{Tools: names}}, func(p llm.Piece) error {
			shown[p.Call.Index] += p.Call.Name + p.Call.Arguments
			return nil
		})
		var log []string
		for len(queues) > 0 {
			i := rng.IntN(len(queues))
			p := queues[i][0]
			if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
				queues = append(queues[:i], queues[i+1:]...)
			}
			log = append(log, fmt.Sprintf("%+v", p))
			if _, err := a.Call(p); err != nil {
				t.Fatal(err)
			}
		}
		res, err := wire.Complete(a)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		ids := map[string]bool{}
		for i, c := range res.Calls {
			call := c.FunctionCall.Name + c.FunctionCall.Arguments
			if got[call]++; shown[i] != call && shown[i]+"{}" != call {
				t.Errorf("call %d: shown %s, is %s", i, shown[i], call)
			}
			ids[c.ID] = true
		}
		all := map[string]int{}
		for _, call := range want {
			all[call]++
		}
		if diff := cmp.Diff(all, got); diff != "" || len(ids) != len(res.Calls) {
			t.Errorf("%s\n%d ids\n%q", diff, len(ids), log)
		}
	})
}

var tools = []string{"look", "lookup", "files_read", "go", "now"}

// cut returns calls as queues of parts, the order within each of which is fixed, and adds the calls to want.
func cut(rng *rand.Rand, want *[]string) (queues [][]wire.CallPart) {
	indexed, named := rng.IntN(3) > 0, rng.IntN(3) > 0 // at least one of them for calls that overlap
	equal := indexed && named && rng.IntN(4) == 0      // all calls have one id
	var inOrder []wire.CallPart
	for i := range 1 + rng.IntN(4) {
		name := tools[rng.IntN(len(tools))]
		args, _ := json.Marshal(map[string]any{"at": i, "\"{\\": []any{"}", map[string]any{"é😀": rng.IntN(9)}}})
		*want = append(*want, name+string(args))
		id, key := "", ""
		if named {
			id = fmt.Sprintf("id%d", i)
		}
		if equal {
			id = "id"
		}
		if indexed {
			key = fmt.Sprint(i)
		}
		parts := pieces(rng, key, id, name, string(args))
		if !indexed {
			inOrder = append(inOrder, parts...) // nothing but the order tells them apart
			continue
		}
		queues = append(queues, parts)
	}
	if inOrder != nil {
		return [][]wire.CallPart{inOrder}
	}
	return queues
}

// pieces returns the parts of one call.
func pieces(rng *rand.Rand, key, id, name, args string) (parts []wire.CallPart) {
	first := wire.CallPart{Key: key, ID: id, Name: name}
	lateID := key != "" && rng.IntN(4) == 0
	if lateID && id != "id" {
		first.ID = ""
	}
	repeatID, repeatName := rng.IntN(3) == 0, rng.IntN(3) == 0
	empty := rng.IntN(4) == 0
	if empty && rng.IntN(2) == 0 {
		first.Args.Text = "{}"
	}
	parts = append(parts, first)
	const whole, halves = "😀", "\xed\xa0\xbd\xed\xb8\x80" // as wire has the halves of a character
	for rest := strings.ReplaceAll(args, whole, halves); rest != ""; {
		n := 1 + rng.IntN(len(rest))
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		p := wire.CallPart{Key: key, Args: wire.Args{Text: rest[:n]}}
		rest = rest[n:]
		if repeatID || lateID || key == "" && id != "" && rng.IntN(2) == 0 {
			p.ID = id
		}
		if repeatName && key+id != "" {
			p.Name = name
		}
		parts = append(parts, p)
	}
	if rng.IntN(4) == 0 && key != "" { // all of it again
		again := wire.CallPart{Key: key, ID: id, Args: wire.Args{Text: args}}
		if id != "" {
			again.Name = name
		}
		parts = append(parts, again)
	}
	return parts
}
